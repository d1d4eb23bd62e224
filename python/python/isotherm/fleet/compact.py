"""Merges the parts of a day: one file per table, date and host.

Agents close a part every few minutes, and the footers of a day's parts are more than their rows.
The idea: all parts of a folder ``date=DATE/host=HOST`` are written into one file in a folder of its
own, and then the two folders change places, which the kernel does in one step (``renameat2``). A
reader finds either all parts or the merged file, and no row twice. The parts are removed a second
later. A reader that has listed them and opens them later than that does not find them, and asks
again. With ``into`` the merged files are written into another tree and the parts stay as they are.

A merged file has the names of its parts in its metadata (``isotherm.parts``). So a part that is
copied here once more is known and dropped, and one that comes late is merged into the same file.

Invariants. A file is removed only after all of its rows are in a merged file that is on disk. What
cannot be read, or is no part, stays where it is. Rows are neither changed nor dropped. A run that
was killed is finished or taken back by the next one.

Not here: when to do it. A folder that an agent still writes to must not be merged, so the default
are days that ended two hours ago.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import time
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Iterator, Optional

import pyarrow as pa
import pyarrow.parquet as pq

from isotherm._errors import InvalidError, NotSupportedError
from isotherm.fleet.catalog import base_of
from isotherm.fleet.problems import first_line
from isotherm.fleet.schema import VERSION

WORK = ".compact"
"""The folder for work, below the tables' folder. No pattern for parts finds what is in it."""
MERGED = "-merged.parquet"
PARTS = b"isotherm.parts"
ROWS = 1 << 17
"""Rows per row group, at least."""
SETTLED = timedelta(hours=2)
"""So long after its end a day is complete."""
RENAME_EXCHANGE = 2
GRACE_S = 1.0
"""So long merged parts are kept, for who has begun to list their folder."""


@dataclass
class Compacted:
    """What was done."""

    folders: int = 0
    """Folders whose parts were merged."""
    files: int = 0
    """Files that were merged, or dropped since they were merged before."""
    rows: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Files that stay as they are, and why."""
    swapped: deque[tuple[float, Path, Path]] = field(default_factory=deque)
    """Folders of merged parts that are still to be removed: since when, where, and what for."""


@dataclass
class _File:
    path: Path
    size: int
    schema: Any
    rows: int
    parts: frozenset[str]
    """The parts whose rows it has: itself, if it is one."""
    is_merged: bool


def compact(
    root: str | os.PathLike[str],
    into: Optional[str | os.PathLike[str]] = None,
    before: Optional[date] = None,
) -> Compacted:
    """Merges the parts of all days before ``before`` below ``root``.

    :param into: another folder, which gets the merged files; without it they take the place of the
        parts.
    :param before: the first day that is left alone; by default that of two hours ago.
    :raises isotherm.Error: if there is no fleet data, another run is at it, or the file system
        cannot swap folders.
    """
    base = base_of(Path(root))
    to = Path(into, "isotherm", f"v{VERSION}") if into else base
    before = before or (datetime.now(timezone.utc) - SETTLED).date()
    done = Compacted()
    with _locked(to):
        _recover(to)
        for folder in sorted(base.glob("*/date=*/host=*")):
            table, day, _ = folder.relative_to(base).parts
            if table.startswith(".") or not folder.is_dir() or not _is_before(day, before):
                continue
            _folder(folder, to / folder.relative_to(base), to, base, done)
            while done.swapped and time.monotonic() >= done.swapped[0][0] + GRACE_S:
                _clear(*done.swapped.popleft()[1:])
        if done.swapped:
            time.sleep(max(0.0, done.swapped[-1][0] + GRACE_S - time.monotonic()))
        while done.swapped:
            _clear(*done.swapped.popleft()[1:])
    return done


def _is_before(day: str, before: date) -> bool:
    try:
        return date.fromisoformat(day.removeprefix("date=")) < before
    except ValueError:
        return False


def _folder(folder: Path, target: Path, to: Path, base: Path, done: Compacted) -> None:
    """Merges the parts of a folder, if that leaves fewer files."""
    in_place = folder == target
    files, kept = _read(folder)
    old = [] if in_place or not target.is_dir() else [f for f in _read(target)[0] if f.is_merged]
    chosen, again, more = _choose(old + files)
    if len(chosen) > 1:
        chosen, broken = _sound(chosen)
        more += broken
    done.kept += _told(kept + more, base)
    new = [file for file in chosen if file not in old]
    if not new or (in_place and len(chosen) == 1 and not again):
        return
    work = to / WORK / "-".join(target.relative_to(to).parts)
    work.mkdir(parents=True, exist_ok=True)
    name = old[0].path.name if old else _name(chosen)
    rows = _write(chosen, work / name)
    gone = new
    if in_place:
        gone = new + again
        _swap(work, folder, {file.path for file in gone})
        done.swapped.append((time.monotonic(), work, folder))
    else:
        target.mkdir(parents=True, exist_ok=True)
        os.replace(work / name, target / name)
        _sync(target)
        work.rmdir()
    done.folders += 1
    done.files += len(gone)
    done.rows += rows
    done.bytes_before += sum(file.size for file in gone)
    done.bytes_after += (target / name).stat().st_size


def _read(folder: Path) -> tuple[list[_File], list[tuple[Path, str]]]:
    """The parts of a folder that can be read, by time, and what stays as it is."""
    files, kept = [], []
    for path in sorted(folder.glob("*.parquet")):
        if path.name.startswith("."):
            continue
        try:
            size, footer = path.stat().st_size, pq.ParquetFile(path)
        except (pa.ArrowException, OSError, EOFError) as error:
            kept.append((path, f"it cannot be read: {first_line(error)}"))
            continue
        with footer:
            meta = footer.metadata.metadata or {}
            said = meta.get(b"isotherm.schema", VERSION.encode()).decode()
            if said != VERSION:
                kept.append((path, f"its schema is {said}, and this program knows {VERSION}"))
                continue
            names = meta.get(PARTS, b"").decode()
            parts = frozenset(names.split(",")) if names else frozenset([_stem(path.name)])
            rows = footer.metadata.num_rows
            files.append(_File(path, size, footer.schema_arrow, rows, parts, bool(names)))
    return files, kept


def _choose(files: list[_File]) -> tuple[list[_File], list[_File], list[tuple[Path, str]]]:
    """Which files are merged, which have nothing that these lack, and which stay and why."""
    chosen: list[_File] = []
    again, kept = [], []
    types: dict[str, Counter[Any]] = {}
    for file in files:
        for f in file.schema:
            types.setdefault(f.name, Counter())[f.type] += len(file.parts)
    usual = {name: counts.most_common(1)[0][0] for name, counts in types.items()}
    taken: set[str] = set()
    for file in sorted(files, key=lambda f: (-len(f.parts), not f.is_merged, f.path.name)):
        other = [f.name for f in file.schema if usual[f.name] != f.type]
        if file.parts <= taken:
            again.append(file)
        elif file.parts & taken:
            kept.append((file.path, "some of its rows are in another merged file, and some not"))
        elif other:
            kept.append((file.path, f"column {other[0]} has another type than in the others"))
        else:
            taken |= file.parts
            chosen.append(file)
    chosen.sort(key=lambda file: min(file.parts))
    return chosen, again, kept


def _sound(files: list[_File]) -> tuple[list[_File], list[tuple[Path, str]]]:
    """The files of which all rows can be read, and the others."""
    sound, broken = [], []
    for file in files:
        try:
            with pq.ParquetFile(file.path) as source:
                for _ in source.iter_batches(batch_size=ROWS):
                    pass
            sound.append(file)
        except (pa.ArrowException, OSError) as error:
            broken.append((file.path, f"its rows cannot be read: {first_line(error)}"))
    return sound, broken


def _write(files: list[_File], path: Path) -> int:
    """Writes all rows into one file, and has it on disk. Returns how many rows that are."""
    fields: dict[str, Any] = {}
    # The columns of the newest come first, in their order.
    for file in sorted(files, key=lambda file: max(file.parts), reverse=True):
        for f in file.schema:
            fields.setdefault(f.name, f)
    may_lack = {
        name
        for name in fields
        for file in files
        if file.schema.get_field_index(name) < 0 or file.schema.field(name).nullable
    }
    schema = pa.schema([f.with_nullable(f.name in may_lack) for f in fields.values()])
    meta = pq.read_metadata(files[-1].path).metadata or {}
    meta = {key: value for key, value in meta.items() if key.startswith(b"isotherm.")}
    meta[PARTS] = ",".join(sorted(part for file in files for part in file.parts)).encode()
    rows = 0
    with pq.ParquetWriter(
        path, schema.with_metadata(meta), compression="zstd", version="2.6"
    ) as out:
        waiting: list[Any] = []
        for file in files:
            with pq.ParquetFile(file.path) as source:
                for nr in range(source.num_row_groups):
                    waiting.append(_fitted(source.read_row_group(nr), out.schema))
                    if sum(t.num_rows for t in waiting) >= ROWS:
                        rows += _flush(out, waiting)
        rows += _flush(out, waiting)
    with open(path, "rb") as made:
        os.fsync(made.fileno())
    found = pq.read_metadata(path).num_rows
    if not rows == found == sum(file.rows for file in files):
        raise InvalidError(f"{path}: {found} rows were written of {rows}; nothing is changed")
    return rows


def _fitted(table: Any, schema: Any) -> Any:
    """The table with these columns; what it lacks is null."""
    columns = [
        table[f.name] if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _flush(out: Any, waiting: list[Any]) -> int:
    """Writes what waits as a row group. Returns how many rows that are."""
    if not waiting:
        return 0
    table = pa.concat_tables(waiting).combine_chunks()
    waiting.clear()
    out.write_table(table, row_group_size=max(table.num_rows, 1))
    return int(table.num_rows)


def _swap(work: Path, folder: Path, merged: set[Path]) -> None:
    """Lets the folder of work, which has the merged file, take the place of the parts' folder."""
    for path in sorted(folder.iterdir()):
        if path not in merged:
            os.link(path, work / path.name)
    _sync(work)
    try:
        _exchange(work, folder)
    except OSError as error:
        _drop(work)
        raise NotSupportedError(
            f"{folder}: the merged file cannot take the place of its parts\n"
            f"  tried: renameat2 with RENAME_EXCHANGE: {error.strerror}\n"
            "  why:   this file system cannot swap two folders in one step\n"
            "  hint:  --into DIR writes the merged files into another folder"
        ) from error
    _sync(folder.parent)


def _exchange(a: Path, b: Path) -> None:
    """Swaps two folders in one step.

    :raises OSError: if that cannot be done.
    """
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    here = ctypes.c_int(-100)
    if swap(here, os.fsencode(a), here, os.fsencode(b), ctypes.c_uint(RENAME_EXCHANGE)):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _recover(to: Path) -> None:
    """Finishes or takes back what a run that was killed has left."""
    for work in sorted((to / WORK).iterdir()):
        if work.is_dir():
            found = re.fullmatch(r"(.+?)-(date=\d{4}-\d\d-\d\d)-(host=.+)", work.name)
            if found:
                _clear(work, to.joinpath(*found.groups()))


def _clear(work: Path, folder: Path) -> None:
    """Removes a folder of work. A file that came into it late, and is not in the folder that
    readers see, goes there."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = {part for file in _read(folder)[0] for part in file.parts}
    own = {file.path: file.parts for file in _read(work)[0]}
    for path in sorted(work.iterdir()):
        other = folder / path.name
        is_there = other.exists() and other.samefile(path)
        # Half a merged file: all that was to be in it is where it was.
        is_half = path.name.endswith(MERGED) and path not in own
        if is_there or is_half or (path in own and own[path] <= seen):
            path.unlink()
        else:
            os.replace(path, other)
    work.rmdir()


def _drop(work: Path) -> None:
    for path in work.iterdir():
        path.unlink()
    work.rmdir()


@contextmanager
def _locked(to: Path) -> Iterator[None]:
    """Keeps other runs away. The lock ends with the process."""
    (to / WORK).mkdir(parents=True, exist_ok=True)
    with open(to / WORK / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InvalidError(f"{to}: another run merges its parts") from error
        yield


def _sync(folder: Path) -> None:
    of = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(of)
    finally:
        os.close(of)


def _stem(name: str) -> str:
    return name.removesuffix(".parquet").removeprefix("part-")


def _name(files: list[_File]) -> str:
    """A name by the time of the first part, as parts have."""
    first = min(part for file in files for part in file.parts)
    return f"part-{first.split('-')[0]}{MERGED}"


def _told(kept: list[tuple[Path, str]], base: Path) -> list[tuple[str, str]]:
    return [(os.path.relpath(path, base), why) for path, why in kept]

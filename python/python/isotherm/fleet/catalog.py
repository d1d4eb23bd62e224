"""Finds the parts of a fleet and reads their footers, before any engine sees them.

An engine gives up on a whole query because of one broken file. So each file's footer is read here,
and what cannot be used is named and left out. Two more things are known from footers alone:

* Files with the same columns are read together. Mixed versions are several such groups, and what a
  group lacks is missing in its rows.
* Rows can only be there twice where two files of a host overlap in time. Only these files have to
  be searched for duplicates; the others, as a rule all, are read as they are.

Not here: anything that needs the rows themselves (``audit.py``).
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Iterator, Optional
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from isotherm._errors import InvalidError, MissingError
from isotherm.fleet.problems import KEPT, LEFT_OUT, Problems, first_line
from isotherm.fleet.schema import TABLES, VERSION

Signature = tuple[tuple[str, str], ...]
"""Names and types of a file's columns, as far as they are known here."""


@dataclass
class Part:
    """A file that can be used."""

    path: str
    host: str
    signature: Signature
    rows: int
    size: int
    first_ns: Optional[int]
    last_ns: Optional[int]
    twice: bool = False
    """Whether some of its rows may be there twice."""


@dataclass
class Catalog:
    """The parts of a fleet by table."""

    base: Path
    """The folder that holds the tables."""
    parts: dict[str, list[Part]] = field(default_factory=dict)
    problems: Problems = field(default_factory=Problems)

    def hosts(self) -> set[str]:
        """The names of all hosts that have a part."""
        return {part.host for parts in self.parts.values() for part in parts}

    def host_groups(self, table: str, most_rows: Optional[int]) -> list[list[str]]:
        """All hosts with a part of a table, in groups of so many rows at most, or of one host.

        Empty if no group is needed.
        """
        rows: dict[str, int] = {}
        for part in self.parts.get(table, []):
            rows[part.host] = rows.get(part.host, 0) + part.rows
        if most_rows is None or sum(rows.values()) <= most_rows:
            return []
        groups: list[list[str]] = []
        left = 0
        for host, nr in sorted(rows.items()):
            if nr > left or not groups:
                groups.append([])
                left = most_rows
            groups[-1].append(host)
            left -= nr
        return groups

    def groups(self, table: str) -> dict[tuple[Signature, bool], list[Part]]:
        """The parts of a table that can be read together."""
        groups: dict[tuple[Signature, bool], list[Part]] = {}
        for part in self.parts.get(table, []):
            groups.setdefault((part.signature, part.twice), []).append(part)
        return groups


def find(root: str | os.PathLike[str], since: Optional[datetime] = None) -> Catalog:
    """Finds what lies below ``root``: a folder with ``isotherm/v1``, or one with the tables.

    :raises isotherm.Error: if there is no such folder, or nothing in it.
    """
    catalog = Catalog(base_of(Path(root)))
    day = since.date().isoformat() if since else ""
    for table in TABLES:
        paths = list(_paths(catalog, table, day))
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda path: _read(table, path), paths)
        parts = []
        for path, part in zip(paths, found):
            if isinstance(part, Part):
                parts.append(part)
            else:
                catalog.problems.add(part[0], str(path.relative_to(catalog.base)), *part[1:])
        catalog.parts[table] = parts
        _mark_overlaps(parts)
    _note_versions(catalog)
    return catalog


def broken(parts: list[Part]) -> dict[str, str]:
    """Reads all rows of these parts. Returns why, by path, those cannot be read that are broken."""

    def attempt(part: Part) -> str:
        try:
            for _ in pq.ParquetFile(part.path).iter_batches(batch_size=1 << 16):
                pass
        except (pa.ArrowException, OSError) as error:
            return first_line(error)
        return ""

    with ThreadPoolExecutor(4) as pool:
        found = zip(parts, pool.map(attempt, parts))
        return {part.path: told for part, told in found if told}


def base_of(root: Path) -> Path:
    """The folder that holds the tables, at or below ``root``.

    :raises isotherm.Error: if there is no such folder, or nothing in it.
    """
    if not root.is_dir():
        raise MissingError(
            f"{root}: there is no such folder\n  hint:  name the folder that has isotherm/v1 in it,"
            " or make one: python -m isotherm.fleet simulate DIR"
        )
    for base in (root / "isotherm" / "v1", root / "v1", root):
        if any((base / table).is_dir() for table in TABLES):
            return base
    raise InvalidError(
        f"{root}: there is no fleet data in it\n"
        f"  tried: {root}/isotherm/v1/{{{','.join(TABLES)}}}\n"
        "  why:   no agent has written here yet, or it is another folder\n"
        "  hint:  name the folder that has isotherm/v1 in it"
    )


def _paths(catalog: Catalog, table: str, day: str) -> Iterator[Path]:
    """All closed parts of a table from this day on. Parts under a dot name are still open."""

    def failed(error: OSError) -> None:
        where = Path(error.filename or catalog.base)
        name = str(where.relative_to(catalog.base)) if where != catalog.base else "."
        catalog.problems.add("unreadable", name, error.strerror or str(error), LEFT_OUT)

    top = catalog.base / table
    if not top.exists():
        # Sites have to allow identities of files, so most have no such table.
        if table != "files":
            catalog.problems.add(
                "missing", table, "there is no such table", "what needs it is empty"
            )
        return
    for folder, below, names in os.walk(top, onerror=failed):
        below[:] = sorted(
            name for name in below if not (name.startswith("date=") and name[5:] < day)
        )
        for name in sorted(names):
            if name.endswith(".parquet") and not name.startswith("."):
                yield Path(folder, name)


def _read(table: str, path: Path) -> Part | tuple[str, str, str]:
    """Reads a footer. Returns the part, or what is wrong with it."""
    pairs = dict(name.split("=", 1) for name in path.parts if "=" in name)
    host = unquote(pairs.get("host", ""))
    if not host or "date" not in pairs:
        return ("misplaced", "it is not in a folder date=DATE/host=HOST", LEFT_OUT)
    try:
        date.fromisoformat(pairs["date"])
    except ValueError:
        return ("misplaced", f"date={pairs['date']} is no day (YYYY-MM-DD)", LEFT_OUT)
    try:
        meta = pq.read_metadata(path)
    except (pa.ArrowInvalid, EOFError) as error:
        return ("truncated", f"no usable footer: {first_line(error)}", LEFT_OUT)
    except OSError as error:
        kind = "unreadable" if error.errno else "truncated"
        return (kind, error.strerror or first_line(error), LEFT_OUT)
    known = {column.name: column for column in TABLES[table]}
    types = {meta.schema.column(i).name: meta.schema.column(i) for i in range(meta.num_columns)}
    for name, column in known.items():
        if name not in types:
            if column.required:
                return ("columns", f"it has no column {name}", LEFT_OUT)
        elif not _fits(column.kind, types[name]):
            told = f"column {name} is {types[name].physical_type}, not of kind {column.kind}"
            return ("columns", told, LEFT_OUT)
    signature = tuple(
        (name, f"{types[name].physical_type} {types[name].logical_type}")
        for name in known
        if name in types
    )
    said = (meta.metadata or {}).get(b"isotherm.schema", VERSION.encode()).decode()
    if said != VERSION:
        signature += (("", said),)
    first, last = _span(meta, "time")
    size = os.stat(path).st_size
    return Part(str(path), host, signature, meta.num_rows, size, first, last)


def _fits(kind: str, column: Any) -> bool:
    physical, logical = column.physical_type, str(column.logical_type)
    if kind == "time":
        return physical == "INT64" and "Timestamp" in logical and "nano" in logical
    return (
        physical
        in {
            "int": ("INT32", "INT64"),
            "ratio": ("FLOAT", "DOUBLE"),
            "text": ("BYTE_ARRAY",),
            "bool": ("BOOLEAN",),
        }[kind]
    )


def _span(meta: Any, name: str) -> tuple[Optional[int], Optional[int]]:
    """The least and the largest value of a column of integers, if the footer says."""
    names = [meta.schema.column(i).name for i in range(meta.num_columns)]
    least, largest = [], []
    for group in range(meta.num_row_groups):
        stats = meta.row_group(group).column(names.index(name)).statistics
        if stats is None or not stats.has_min_max:
            return (None, None)
        least.append(int(stats.min_raw))
        largest.append(int(stats.max_raw))
    return (min(least), max(largest)) if least else (None, None)


def _mark_overlaps(parts: list[Part]) -> None:
    """Marks the parts of a host that overlap another one in time."""
    by_host: dict[str, list[Part]] = {}
    for part in parts:
        if part.rows:
            by_host.setdefault(part.host, []).append(part)
    for own in by_host.values():
        if any(part.first_ns is None for part in own):
            for part in own:
                part.twice = len(own) > 1
            continue
        own.sort(key=lambda part: part.first_ns or 0)
        reach: Optional[Part] = None
        for part in own:
            if reach is not None and (part.first_ns or 0) <= (reach.last_ns or 0):
                part.twice = reach.twice = True
            if reach is None or (part.last_ns or 0) > (reach.last_ns or 0):
                reach = part


def _note_versions(catalog: Catalog) -> None:
    """Says which tables have parts of different versions."""
    for table, parts in catalog.parts.items():
        newest = {name for part in parts for name, _ in part.signature if name}
        lacking: dict[str, set[str]] = {}
        for part in parts:
            said = dict(part.signature).get("")
            if said:
                told = (
                    f"{table}: schema {said} is newer than {VERSION}; unknown columns are ignored"
                )
                catalog.problems.add("version", part.host, told, KEPT)
            lacks = newest - {name for name, _ in part.signature}
            if lacks:
                lacking.setdefault(", ".join(sorted(lacks)), set()).add(part.host)
        for named, hosts in lacking.items():
            names = ", ".join(sorted(hosts)[:3]) + (
                f" and {len(hosts) - 3} more" * (len(hosts) > 3)
            )
            catalog.problems.add("version", names, f"{table}: older parts lack {named}", KEPT)

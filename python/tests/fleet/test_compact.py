"""Merging the parts of a day: nothing is lost or twice, whenever somebody looks."""

from __future__ import annotations

import math
import os
import shutil
import threading
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from isotherm._errors import Error
from isotherm.fleet import compact as module
from isotherm.fleet.cli import main
from isotherm.fleet.compact import WORK, compact
from isotherm.fleet.questions import QUESTIONS
from isotherm.fleet.simulate import simulate

LATER = date(2030, 1, 1)


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """Three hosts, six hours, twelve parts each."""
    root = tmp_path / "fleet"
    return root, simulate(root, hosts=3, cgroups=4, days=0.25, faults=0, parts=48, workers=1)


def rows(root: Path, table: str = "cgroups") -> Counter[tuple[Any, ...]]:
    """All rows that a reader finds, with how many times each is there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for path in sorted((root / "isotherm" / "v1" / table).glob("*/*/*.parquet")):
        with pq.ParquetFile(path) as part:
            for row in part.read().to_pylist():
                found[(path.parent.name, row["session"], row.get("cgroup"), row["time"])] += 1
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    return bool(one == other)


def files(root: Path) -> list[Path]:
    return sorted((root / "isotherm" / "v1").glob("[a-z]*/*/*/*"))


def test_one_file_per_folder_with_the_same_rows(made: Any, opened: Any) -> None:
    root = made[0]
    tables = ("cgroups", "sessions", "files")
    before = {table: rows(root, table) for table in tables}
    asked = opened(made).ask(QUESTIONS["idle"])[0].rows.to_pylist()
    folders = {path.parent for path in files(root)}
    done = compact(root, before=LATER)
    # Of `files` there is one part per host anyway.
    assert done.folders == len([f for f in folders if "/files/" not in str(f)]) and not done.kept
    assert {table: rows(root, table) for table in tables} == before
    assert len(files(root)) == len(folders)
    assert done.bytes_after < done.bytes_before / 2
    path = next(path for path in files(root) if "/cgroups/" in str(path))
    meta = pq.read_metadata(path).metadata
    assert meta[b"isotherm.schema"] == b"1" and meta[b"isotherm.table"] == b"cgroups"
    assert meta[b"isotherm.parts"].count(b",") == 11
    # Sums of floating point numbers differ by the order in which threads add them.
    told = opened(made).ask(QUESTIONS["idle"])[0].rows.to_pylist()
    assert len(told) == len(asked)
    for row, before_it in zip(told, asked):
        assert all(same(row[name], value) for name, value in before_it.items()), (row, before_it)
    again = compact(root, before=LATER)
    assert (again.folders, again.files, again.kept) == (0, 0, [])


def test_days_that_are_not_over_are_left_alone(made: Any) -> None:
    before = files(made[0])
    assert compact(made[0], before=date(2026, 1, 31)).folders == 0
    assert files(made[0]) == before
    assert compact(made[0]).folders > 0, "the simulated day is long over"


def test_what_cannot_be_read_stays_and_is_named(made: Any, capsys: Any) -> None:
    root = made[0]
    parts = [path for path in files(root) if "/cgroups/" in str(path)]
    folder = parts[0].parent
    own = [path for path in parts if path.parent == folder]
    own[0].write_bytes(b"PAR1 half a file")
    whole = own[1].read_bytes()
    own[1].write_bytes(whole[:4] + b"\xff" * 200 + whole[204:])
    table = pq.ParquetFile(own[2]).read()
    at = table.column_names.index("current")
    pq.write_table(table.set_column(at, "current", table["current"].cast(pa.string())), own[2])
    pq.write_table(
        table.replace_schema_metadata({"isotherm.schema": "2"}), folder / "part-9-newer.parquet"
    )
    (folder / ".part-5-000001.parquet").write_bytes(b"open")
    (folder / "notes").write_text("mine")
    bad = [*own[:3], folder / "part-9-newer.parquet"]
    before = {path: path.read_bytes() for path in [*bad, folder / "notes"]}
    good = sum(pq.read_metadata(path).num_rows for path in own[3:])
    assert main(["compact", str(root), "--before", "2030-01-01", "--strict"]) == 6
    out = capsys.readouterr().out
    for path, why in zip(bad, ("cannot be read", "rows cannot be", "another type", "schema is 2")):
        assert path.read_bytes() == before[path]
        line = next(line for line in out.splitlines() if path.name in line)
        assert why in line
    assert (folder / "notes").read_text() == "mine"
    assert (folder / ".part-5-000001.parquet").exists()
    merged = [path for path in folder.iterdir() if path.name.endswith("-merged.parquet")]
    assert [pq.read_metadata(path).num_rows for path in merged] == [good]
    stamp = merged[0].stat().st_ino
    assert main(["compact", str(root), "--before", "2030-01-01"]) == 0
    assert "0 files of 0 folders" in capsys.readouterr().out
    assert merged[0].stat().st_ino == stamp, "the same broken files are no reason to write again"


def test_late_parts_and_parts_that_were_copied_once_more(made: Any) -> None:
    root = made[0]
    before = rows(root)
    parts = [path for path in files(root) if "/cgroups/" in str(path)]
    saved = root / "saved.parquet"
    late = parts[0]
    late.rename(saved)
    again = parts[1].read_bytes()
    compact(root, before=LATER)
    assert sum(rows(root).values()) == sum(before.values()) - pq.read_metadata(saved).num_rows
    saved.rename(late)
    parts[1].write_bytes(again)
    done = compact(root, before=LATER)
    assert (done.folders, done.files) == (1, 3)
    assert rows(root) == before


def test_a_part_of_an_older_version_lacks_a_column(made: Any) -> None:
    root = made[0]
    part = next(path for path in files(root) if "/cgroups/" in str(path))
    table = pq.ParquetFile(part).read().drop_columns(["anon"])
    pq.write_table(table, part)
    before = rows(root)
    assert not compact(root, before=LATER).kept
    assert rows(root) == before
    merged = next(path for path in part.parent.iterdir())
    nulls = pq.ParquetFile(merged).read()["anon"].null_count
    assert nulls >= table.num_rows


def test_into_another_folder_the_parts_stay(made: Any, tmp_path: Path, opened: Any) -> None:
    root, other = made[0], tmp_path / "merged"
    before = rows(root)
    held = files(root)
    # One part comes later.
    late = next(path for path in held if "/cgroups/" in str(path))
    saved = tmp_path / "late.parquet"
    late.rename(saved)
    assert compact(root, other, LATER).folders == len({path.parent for path in held})
    name = files(other)
    saved.rename(late)
    assert compact(root, other, LATER).files == 1
    assert compact(root, other, LATER).files == 0
    assert rows(root) == before == rows(other)
    assert files(root) == held and files(other) == name
    # The agent's retention drops parts; what was merged stays.
    late.unlink()
    assert compact(root, other, LATER).files == 0 and rows(other) == before
    assert opened((other, made[1])).ask(QUESTIONS["data"])[0].rows.num_rows == 1


def test_readers_never_see_rows_twice_or_miss_one(made: Any, monkeypatch: Any) -> None:
    """A reader lists and reads all the time, and begins anew if a file has gone meanwhile."""
    root = made[0]
    folder = next(path.parent for path in files(root) if "/cgroups/" in str(path))
    shutil.rmtree(root / "isotherm" / "v1" / "sessions")
    parts = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(module, "GRACE_S", 0.5)
    whole = sum(pq.read_metadata(path).num_rows for path in folder.iterdir())
    over, seen, failed = threading.Event(), Counter(), []

    def read() -> None:
        while not over.is_set():
            try:
                held = [pq.read_metadata(path).num_rows for path in sorted(folder.glob("part-*"))]
            except FileNotFoundError:
                continue
            except Exception as error:  # the thread must not end unseen
                failed.append(error)
                return
            seen[(sum(held), len(held) > 1)] += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for nr in range(8):
            assert compact(root, before=LATER).kept == []
            # The parts again, in one step as well, for the next round.
            with module._locked(root / "isotherm" / "v1"):
                work = root / "isotherm" / "v1" / WORK / f"back-{nr}"
                work.mkdir()
                for name, content in parts.items():
                    (work / name).write_bytes(content)
                module._exchange(work, folder)
    finally:
        over.set()
        reader.join()
    assert not failed
    assert {count for count, _ in seen} == {whole}, seen


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_was_killed_is_finished_by_the_next(
    when: str, made: Any, monkeypatch: Any
) -> None:
    root = made[0]
    before = rows(root)
    folder = next(path.parent for path in files(root) if "/cgroups/" in str(path))
    (folder / "notes").write_text("mine")
    exchange = module._exchange

    def killed(a: Path, b: Path) -> None:
        if when == "after":
            exchange(a, b)
            # Something comes between the listing and the swap.
            (a / "late.txt").write_text("late")
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_exchange", killed)
    with pytest.raises(KeyboardInterrupt):
        compact(root, before=LATER)
    assert rows(root) == before
    monkeypatch.undo()
    compact(root, before=LATER)
    assert rows(root) == before
    assert sorted(os.listdir(root / "isotherm" / "v1" / WORK)) == ["lock"]
    assert (folder / "notes").read_text() == "mine"
    assert (folder / "late.txt").exists() == (when == "after")


def test_one_run_at_a_time_and_no_swap(made: Any, monkeypatch: Any, capsys: Any) -> None:
    root = made[0]
    before = files(root)
    with module._locked(root / "isotherm" / "v1"), pytest.raises(Error, match="another run"):
        compact(root, before=LATER)

    def no_swap(*_: Path) -> None:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(module, "_exchange", no_swap)
    assert main(["compact", str(root), "--before", "2030-01-01"]) == 3
    assert "hint:  --into DIR" in capsys.readouterr().err
    assert files(root) == before
    assert main(["compact", str(root / "nowhere")]) == 2

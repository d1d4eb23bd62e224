"""What is wrong with the data is named, and the rest is answered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from isotherm.fleet.fleet import Fleet
from isotherm.fleet.questions import QUESTIONS

import isotherm


def parts(root: Path, table: str = "cgroups", host: str = "*") -> list[Path]:
    return sorted(root.glob(f"isotherm/v1/{table}/date=*/host={host}/*.parquet"))


def found(fleet: Fleet) -> dict[str, list[Any]]:
    kinds: dict[str, list[Any]] = {}
    for problem in fleet.problems.found:
        kinds.setdefault(problem.kind, []).append(problem)
    return kinds


def hosts(fleet: Fleet) -> set[str]:
    answers = {a.name: a for a in fleet.ask(QUESTIONS["idle"])}
    return set(answers["idle_by_node"].rows["node"].to_pylist())


def current(fleet: Fleet) -> float:
    answers = {a.name: a for a in fleet.ask(QUESTIONS["idle"])}
    return float(pc.sum(answers["idle_by_class"].rows["current_bytes"]).as_py())


def changed(path: Path, **columns: Any) -> None:
    """Writes a part anew with other columns; a function gets the old one."""
    table = pq.read_table(path, partitioning=None)
    for name, make in columns.items():
        at, old = table.schema.get_field_index(name), table[name]
        made = pc.cast(make(old), old.type)
        table = table.set_column(at, pa.field(name, old.type), made)
    pq.write_table(table, path)


def test_every_fault_of_the_simulation_is_named(faulty: Any, opened: Any) -> None:
    fleet = opened(faulty)
    kinds = {kind: {p.where for p in problems} for kind, problems in found(fleet).items()}
    of = {fault: host for host, fault in faulty[1]["faults"].items()}
    assert len(of) == 8
    assert any(of["truncated"] in where for where in kinds["truncated"])
    assert of["duplicate"] in kinds["duplicate"]
    assert of["impossible"] in kinds["impossible"]
    assert {of["future"], of["offset"]} == kinds["clock"]
    assert kinds["copy"] == {f"{of['copied']}-copy"}
    assert kinds["version"] == {of["old"]}
    states = {a.name: a for a in fleet.ask(QUESTIONS["data"])}["hosts"].rows.to_pylist()
    assert {row["state"] for row in states if row["host"] == of["late"]} == {"late"}
    # And no sound host is accused.
    guilty = set(of.values()) | {f"{of['copied']}-copy"}
    for where in set().union(*kinds.values()):
        assert any(host in where for host in guilty), where


def test_a_truncated_part_is_left_out(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    part = parts(damaged[0])[0]
    part.write_bytes(part.read_bytes()[:-100])
    fleet = opened(damaged)
    assert [p.where for p in found(fleet)["truncated"]] == [
        str(part.relative_to(damaged[0] / "isotherm" / "v1"))
    ]
    assert current(fleet) == pytest.approx(whole, rel=0.05)


def test_rows_that_cannot_be_read_although_the_footer_can(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    text = bytearray(part.read_bytes())
    text[4 : len(text) // 2] = b"\xff" * (len(text) // 2 - 4)
    part.write_bytes(bytes(text))
    fleet = opened(damaged)
    assert len(hosts(fleet)) == 24
    assert part.name in found(fleet)["truncated"][0].where
    assert "cannot be read" in found(fleet)["truncated"][0].what


def test_an_empty_file_and_one_that_is_no_parquet(damaged: Any, opened: Any) -> None:
    first, second = parts(damaged[0])[:2]
    first.write_bytes(b"")
    second.write_text("hello, this is a log file\n" * 10)
    assert len(found(opened(damaged))["truncated"]) == 2


def test_parts_that_are_there_twice_count_once(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    for part in parts(damaged[0]):
        shutil.copyfile(part, part.with_name("part-0-again.parquet"))
    fleet = opened(damaged)
    assert current(fleet) == pytest.approx(whole, rel=1e-9)
    assert len(found(fleet)["duplicate"]) == 24


def test_rows_that_are_twice_in_one_file_count_once(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    part = parts(damaged[0])[0]
    table = pq.read_table(part, partitioning=None)
    pq.write_table(pa.concat_tables([table, table]), part)
    fleet = opened(damaged)
    assert current(fleet) == pytest.approx(whole, rel=1e-9)
    assert [p.where for p in found(fleet)["duplicate"]] == ["node-00000"]


def test_a_session_under_two_hosts_counts_once(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    for table in ("cgroups", "sessions", "files"):
        for part in parts(damaged[0], table, "node-00003"):
            copy = Path(str(part).replace("node-00003", "node-zzz"))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, copy)
    fleet = opened(damaged)
    assert [p.where for p in found(fleet)["copy"]] == ["node-zzz"]
    assert current(fleet) == pytest.approx(whole, rel=1e-9)


def test_older_parts_lack_columns(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    for part in parts(damaged[0], host="node-00001"):
        table = pq.read_table(part, partitioning=None)
        pq.write_table(table.drop_columns(["idle_5m_lo", "ws_1m", "psi_some_us"]), part)
    fleet = opened(damaged)
    assert current(fleet) == pytest.approx(whole, rel=1e-9)
    assert "idle_5m_lo, psi_some_us, ws_1m" in found(fleet)["version"][0].what
    for question in QUESTIONS.values():
        fleet.ask(question)


def test_a_newer_schema_is_named(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    table = pq.read_table(part, partitioning=None).replace_schema_metadata({"isotherm.schema": "2"})
    table = table.append_column("humidity", pa.array([0.5] * table.num_rows))
    pq.write_table(table, part)
    assert "newer than 1" in found(opened(damaged))["version"][0].what


def test_a_part_without_a_column_that_must_be_there(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    pq.write_table(pq.read_table(part, partitioning=None).drop_columns(["interval_ns"]), part)
    assert "no column interval_ns" in found(opened(damaged))["columns"][0].what


def test_a_column_of_another_type(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    table = pq.read_table(part, partitioning=None)
    at = table.schema.get_field_index("current")
    pq.write_table(table.set_column(at, "current", pc.cast(table["current"], pa.string())), part)
    assert "column current is BYTE_ARRAY" in found(opened(damaged))["columns"][0].what


def test_a_missing_day_is_counted(damaged: Any, opened: Any) -> None:
    base = damaged[0] / "isotherm" / "v1"
    for table in ("cgroups", "sessions", "files"):
        old = base / table / "date=2026-01-31" / "host=node-00002"
        new = base / table / "date=2026-01-28" / "host=node-00002"
        new.parent.mkdir(parents=True)
        shutil.copytree(old, new)
        for part in new.iterdir():
            back = timedelta(days=3)
            shift = {"time": lambda old: pc.subtract(old, pa.scalar(back, pa.duration("ns")))}
            changed(part, **shift)
    fleet = opened(damaged)
    data = {a.name: a for a in fleet.ask(QUESTIONS["data"])}
    row = next(r for r in data["hosts"].rows.to_pylist() if r["host"] == "node-00002")
    assert row["missing_days"] == 2
    assert found(fleet)["missing"][0].where == "node-00002"
    late = opened(damaged, since=datetime(2026, 1, 30, tzinfo=timezone.utc))
    data = {a.name: a for a in late.ask(QUESTIONS["data"])}
    assert not sum(row["missing_days"] for row in data["hosts"].rows.to_pylist())


def test_a_clock_in_the_future_is_left_out(damaged: Any, opened: Any) -> None:
    made = (damaged[0], damaged[1])
    early = datetime.fromisoformat(damaged[1]["now"]) - timedelta(hours=3)
    for part in parts(damaged[0], "*", "node-0000[0-9]") + parts(damaged[0], "*", "node-0001*"):
        back = timedelta(hours=4)
        changed(part, time=lambda old: pc.subtract(old, pa.scalar(back, pa.duration("ns"))))
    fleet = opened(made, now=early)
    assert {p.where for p in found(fleet)["clock"]} == {f"node-0002{i}" for i in range(4)}
    assert len(hosts(fleet)) == 20


def test_a_clock_of_which_the_error_is_known_is_corrected(faulty: Any, opened: Any) -> None:
    fleet = opened(faulty)
    host = next(h for h, fault in faulty[1]["faults"].items() if fault == "offset")
    other = next(h for h in faulty[1]["nodes"] if h not in faulty[1]["faults"])
    t = fleet.tables["cgroups"]
    last = t.filter(t.host.isin([host, other])).group_by("host").agg(last=t.time_ns.max())
    assert len(set(fleet.engine.run(last)["last"].to_pylist())) == 1


def test_a_clock_before_2020(damaged: Any, opened: Any) -> None:
    for part in parts(damaged[0], "*", "node-00005"):
        back = timedelta(days=20000)
        changed(part, time=lambda old: pc.subtract(old, pa.scalar(back, pa.duration("ns"))))
    fleet = opened(damaged)
    assert [p.where for p in found(fleet)["clock"]] == ["node-00005"]
    assert "node-00005" not in hosts(fleet)


@pytest.mark.parametrize(
    "column, make, reason",
    [
        ("idle_5m", lambda old: pc.multiply(old, 50), "more idle than there is"),
        ("idle_30m_lo", lambda old: pc.add(old, 2**40), "does not contain its value"),
        ("coverage", lambda old: pa.array([7.0] * len(old), pa.float32()), "coverage outside"),
        ("current", lambda old: pa.array([2**64 - 1] * len(old), pa.uint64()), "above 2^63"),
        ("interval_ns", lambda old: pa.array([0] * len(old), pa.uint64()), "no interval"),
    ],
)
def test_impossible_numbers(column: str, make: Any, reason: str, damaged: Any, opened: Any) -> None:
    for part in parts(damaged[0], host="node-00004"):
        changed(part, **{column: make})
    fleet = opened(damaged)
    (problem,) = found(fleet)["impossible"]
    assert problem.where == "node-00004" and reason in problem.what
    assert "node-00004" not in hosts(fleet)


def test_a_cgroup_without_a_size_has_that_of_its_processes(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    for part in parts(damaged[0], host="node-00004"):
        table = pq.read_table(part, partitioning=None)
        at = table.schema.get_field_index("current")
        kind = table.schema.field(at).type
        table = table.set_column(at, "current", pa.nulls(table.num_rows, kind))
        pq.write_table(table, part)
    fleet = opened(damaged)
    assert not fleet.problems.found
    # The simulation's processes hold 90 % of their cgroup.
    assert 0.98 * whole < current(fleet) < whole


def test_what_nobody_looked_at_is_not_known(damaged: Any, opened: Any) -> None:
    unknown = ["ws_1m", *(f"idle_{age}{end}" for age in ("1m", "5m", "30m") for end in ("", "_lo"))]
    for part in parts(damaged[0]):
        table = pq.read_table(part, partitioning=None)
        for name in unknown:
            at = table.schema.get_field_index(name)
            field = table.schema.field(at)
            table = table.set_column(at, field, pa.nulls(table.num_rows, field.type))
        pq.write_table(table, part)
    fleet = opened(damaged)
    idle = fleet.ask(QUESTIONS["idle"])[1].rows.to_pylist()
    assert all(row["idle_5m_bytes"] is None and row["seen_share"] == 0 for row in idle)
    assert all(row["idle_5m_lo_bytes"] == 0 < row["idle_5m_hi_bytes"] for row in idle)
    for answer in fleet.ask(QUESTIONS["savings"])[:1] + fleet.ask(QUESTIONS["policies"]):
        assert answer.rows.num_rows == 0
    # Then all that is there is needed, as far as anybody can say.
    for row in fleet.ask(QUESTIONS["sizing"])[0].rows.to_pylist():
        assert row["need_bytes"] > 0


def test_a_few_impossible_rows_do_not_cost_the_host(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]

    def one(old: Any) -> Any:
        values = old.to_pylist()
        values[0] = 2**50
        return pa.array(values, old.type)

    changed(part, idle_1m=one)
    fleet = opened(damaged)
    assert "these rows are left out" in found(fleet)["impossible"][0].done
    assert len(hosts(fleet)) == 24


def test_a_cgroup_around_others_is_not_counted_twice(damaged: Any, opened: Any) -> None:
    whole = current(opened(damaged))
    for part in parts(damaged[0], host="node-00006"):
        table = pq.read_table(part, partitioning=None)
        at = table.schema.get_field_index("cgroup")
        table = table.set_column(at, "cgroup", pc.cast(table["cgroup"], pa.string()))
        rows = table.filter(pc.starts_with(table["cgroup"], "/kubepods.slice/"))
        above = rows.set_column(at, "cgroup", pa.array(["/kubepods.slice"] * rows.num_rows))
        every = sorted(set(above["time"].to_pylist()))
        first = [above["time"].to_pylist().index(time) for time in every]
        same = pa.concat_tables([table, above.take(first)], promote_options="permissive")
        pq.write_table(same, part)
    fleet = opened(damaged)
    assert "1 cgroups contain others" in found(fleet)["nested"][0].what
    assert current(fleet) == pytest.approx(whole, rel=1e-9)


def test_an_open_part_is_not_read(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    part.with_name(f".{part.name}").write_bytes(b"PAR1 and then nothing yet")
    assert not opened(damaged).problems.found


def test_a_part_outside_of_the_layout(damaged: Any, opened: Any) -> None:
    part = parts(damaged[0])[0]
    shutil.copyfile(part, part.parent.parent.parent / "stray.parquet")
    odd = part.parent.parent.parent / "date=yesterday" / part.parent.name
    odd.mkdir(parents=True)
    shutil.copyfile(part, odd / part.name)
    told = found(opened(damaged))
    assert {p.where for p in told["misplaced"]} == {
        "cgroups/stray.parquet",
        f"cgroups/date=yesterday/{part.parent.name}/{part.name}",
    }
    assert "duplicate" not in told


def test_strange_host_names(damaged: Any, opened: Any) -> None:
    base = damaged[0] / "isotherm" / "v1"
    for table in ("cgroups", "sessions", "files"):
        folder = base / table / "date=2026-01-31"
        (folder / "host=node-00007").rename(folder / "host=007")
        (folder / "host=node-00008").rename(folder / "host=it%27s%20%5B8%5D")
    fleet = opened(damaged)
    assert {"007", "it's [8]"} <= hosts(fleet)
    assert not fleet.problems.found


def test_an_unreadable_partition(sound: Any) -> None:
    # Root reads everything, and nobody cannot enter pytest's folders.
    with tempfile.TemporaryDirectory(prefix="isotherm-fleet-") as folder:
        root = Path(folder, "fleet")
        shutil.copytree(sound[0], root)
        os.chmod(folder, 0o755)
        for path in [root, *root.rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        shut = parts(root)[0].parent
        shut.chmod(0)
        unread = parts(root, host="node-00001")[0]
        unread.chmod(0)
        code = (
            "import os, sys\n"
            "from isotherm.fleet.catalog import find\n"
            "if os.geteuid() == 0:\n"
            "    os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "catalog = find(sys.argv[1])\n"
            "for p in catalog.problems.found: print(p.kind, p.where, p.done)\n"
            "print(len({part.host for part in catalog.parts['cgroups']}))\n"
        )
        words = [sys.executable, "-c", code, str(root)]
        done = subprocess.run(words, capture_output=True, text=True)
        shut.chmod(0o755)
        said = [
            f"unreadable {path.relative_to(root / 'isotherm/v1')} left out"
            for path in (shut, unread)
        ]
        assert done.stdout.splitlines() == [*said, "23"], done.stderr


def test_an_empty_fleet_says_where_it_looked(tmp_path: Path) -> None:
    with pytest.raises(isotherm.InvalidError, match="there is no fleet data in it"):
        Fleet(tmp_path)
    with pytest.raises(isotherm.MissingError, match="there is no such folder"):
        Fleet(tmp_path / "nowhere")


def test_tables_without_a_part(tmp_path: Path) -> None:
    (tmp_path / "isotherm" / "v1" / "cgroups").mkdir(parents=True)
    with Fleet(tmp_path) as fleet:
        assert [p.where for p in found(fleet)["missing"]] == ["sessions"]
        for question in QUESTIONS.values():
            for answer in fleet.ask(question):
                assert answer.rows.num_rows == (1 if answer.name == "problems" else 0)

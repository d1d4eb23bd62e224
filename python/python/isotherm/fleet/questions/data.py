"""Age and coverage of the data itself: which hosts are late, silent or not to be believed.

A host is late if its newest row is older than 15 minutes before the newest row of the fleet, and
silent if nothing of the last day is from it. Missing days are those between a host's first and last
day, or the fleet's last, of which there is no part.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any, Optional

import pyarrow as pa

from isotherm.fleet.fleet import Answer, Fleet

LATE_S = 900
KINDS = ("late", "ok", "left out")


def data(fleet: Fleet) -> list[Answer]:
    """Asks it. The sums are those of the audit, which every question needs."""
    hosts = fleet.audit.hosts
    believed = [host for host in hosts if host["host"] not in fleet.audit.out]
    newest = max((host["last_ns"] for host in believed if host.get("last_ns")), default=None)
    said = Counter(problem.where for problem in fleet.problems.found)
    missing = _missing_days(fleet)
    rows = []
    seen = {host["host"] for host in hosts}
    for name in sorted(fleet.catalog.hosts() - seen):
        rows.append(_row({"host": name}, "no rows", newest, said[name], missing))
    for host in hosts:
        name, last = host["host"], host.get("last_ns")
        state = "ok"
        if name in fleet.audit.out:
            state = "left out"
        elif not host["rows"]:
            state = "no rows"
        elif last is not None and newest is not None and last < newest - LATE_S * 10**9:
            state = "late"
        rows.append(_row(host, state, newest, said[name], missing))
    rows.sort(key=lambda row: (row["state"] == "ok", -(row["behind_s"] or 0), row["host"]))
    states = Counter(row["state"] for row in rows)
    summary = [
        {
            "state": state,
            "hosts": count,
            "rows": sum(row["rows"] for row in rows if row["state"] == state),
        }
        for state, count in sorted(states.items())
    ]
    age = None if newest is None else (fleet.now.timestamp() - newest / 1e9)
    told = "There is no row." if age is None else f"The newest row that counts is {_age(age)} old."
    return [
        Answer("data", "Hosts and their data", _table(summary, SUMMARY), told),
        Answer(
            "hosts",
            "Each host's data",
            _table(rows, HOSTS),
            "behind: how much older a host's newest row is than the fleet's. coverage: share of "
            "the memory that the agent looked at. late windows: how often the agent came too late.",
        ),
        Answer(
            "problems",
            "What is wrong with the data, and what was done",
            pa.table(fleet.problems.rows()).cast(
                pa.schema([(n, pa.string()) for n in ("kind", "where", "what", "done")])
            ),
        ),
    ]


SUMMARY = {"state": pa.string(), "hosts": pa.int64(), "rows": pa.int64()}
HOSTS = {
    "host": pa.string(),
    "state": pa.string(),
    "behind_s": pa.float64(),
    "rows": pa.int64(),
    "impossible": pa.int64(),
    "coverage_share": pa.float64(),
    "missing_days": pa.int64(),
    "late_windows": pa.int64(),
    "problems": pa.int64(),
}


def _row(
    host: dict[str, Any], state: str, newest: Optional[int], said: int, missing: dict[str, int]
) -> dict[str, Any]:
    last = host.get("last_ns")
    behind = None if last is None or newest is None else max(0.0, (newest - last) / 1e9)
    return {
        "host": host["host"],
        "state": state,
        "behind_s": behind,
        "rows": host.get("rows", 0),
        "impossible": host.get("impossible", 0),
        "coverage_share": host.get("coverage"),
        "missing_days": missing.get(host["host"], 0),
        "late_windows": host.get("late_windows"),
        "problems": said,
    }


def _missing_days(fleet: Fleet) -> dict[str, int]:
    """For each host, of how many days there is no part of ``cgroups``."""
    days: dict[str, set[date]] = {}
    for part in fleet.catalog.parts["cgroups"]:
        folder = next(word for word in part.path.split("/") if word.startswith("date="))
        try:
            days.setdefault(part.host, set()).add(date.fromisoformat(folder[5:]))
        except ValueError:
            continue
    out = fleet.audit.out
    last = max((max(own) for host, own in days.items() if host not in out), default=None)
    missing = {}
    for host, own in days.items():
        end = max(own) if last is None or host in out else max(last, max(own))
        span = (end - min(own)) // timedelta(days=1) + 1
        lacks = span - len(own)
        missing[host] = lacks
        if lacks:
            told = f"{lacks} of {span} days are missing"
            fleet.problems.add("missing", host, told, "means are over the days that are there")
    return missing


def _table(rows: list[dict[str, Any]], types: dict[str, Any]) -> Any:
    return pa.table(
        {name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()}
    )


def _age(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"

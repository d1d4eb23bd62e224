"""Looks at the rows before any question does: what is impossible, twice, or from a wrong clock.

One pass over ``cgroups`` adds up, per cgroup of a session, how many rows there are, which of them
are impossible, and how much time they cover. What follows is decided from these sums:

* A row is impossible if its numbers contradict each other (``REASONS``). It is left out and
  counted. Of a host with more than 5 % such rows nothing is believed: the host is left out.
* Rows that cover more time than has passed are there twice within one file: they are searched then.
* A session under two host names is a copy: the host with fewer rows (or the later name) is left
  out.
* A host whose newest row is later than now has a wrong clock. Where the agent estimated by how much
  (``clock_offset_ns``, positive if the clock is fast), its times are corrected; else it is left
  out.
* A cgroup that has rows and contains others that have rows would be counted twice: sums are of the
  innermost ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Optional

from isotherm.fleet.catalog import Catalog
from isotherm.fleet.engine import Engine, imported_ibis
from isotherm.fleet.problems import CORRECTED, KEPT, LEFT_OUT
from isotherm.fleet.schema import AGES

SECOND = 1_000_000_000
EARLIEST_NS = 1_577_836_800 * SECOND
"""2020: no agent is older."""
SLACK_NS = 300 * SECOND
"""So far ahead of now a clock may be."""
WORTH_CORRECTING_NS = SECOND
LIAR = 0.05
"""Share of impossible rows from which on nothing of a host is believed."""


def reasons(t: Any) -> dict[str, Any]:
    """Why a row of ``cgroups`` is impossible: a condition for each reason."""
    ibis = imported_ibis()
    # Mapped memory may be charged elsewhere, so more than what is charged here can be idle.
    there = ibis.greatest(t.current.fill_null(0), t.watched.fill_null(0))
    room = there.cast("float64") * 1.02 + t.shared.fill_null(0) + (16 << 20)
    sizes = [t.current, t.watched, t.shared, *[t[f"idle_{age}"] for age in AGES]]
    idle = [t[f"idle_{age}"] for age in AGES]
    order = ibis.or_(*[(a < b).fill_null(False) for a, b in zip(idle, idle[1:])])
    bars = [
        (t[f"idle_{age}_lo"] > t[f"idle_{age}"]).fill_null(False)
        | (t[f"idle_{age}_hi"] < t[f"idle_{age}"]).fill_null(False)
        for age in AGES
    ]
    return {
        "no interval, or one above a day": t.interval_ns.isnull()
        | ((t.interval_ns <= 0) | (t.interval_ns > 86400 * SECOND)).fill_null(False),
        "no size": t.current.isnull() & t.watched.isnull(),
        "a size above 2^63": ibis.or_(*[(each < 0).fill_null(False) for each in sizes]),
        "more idle than there is": ibis.or_(*[(each > room).fill_null(False) for each in idle]),
        "more idle for longer than for shorter": order,
        "a bar that does not contain its value": ibis.or_(*bars),
        "a coverage outside of 0 to 1": ((t.coverage < 0) | (t.coverage > 1.001)).fill_null(False),
    }


def possible(t: Any) -> Any:
    """The condition that a row is not impossible."""
    ibis = imported_ibis()
    return ~ibis.or_(*reasons(t).values())


@dataclass
class Audit:
    """What was found, and what the questions have to do about it."""

    out: set[str] = field(default_factory=set)
    """Hosts that are left out."""
    offsets: dict[str, int] = field(default_factory=dict)
    """By how many ns a host's clock is fast."""
    parents: Any = None
    """Cgroups that contain others: a table of host and cgroup, or None if there are none."""
    hosts: list[dict[str, Any]] = field(default_factory=list)
    """Per host: rows, impossible rows, first and last time, coverage."""


def groups(t: Any) -> Any:
    """The pass over the rows: sums per cgroup of a session."""
    why = reasons(t)
    # A flag per reason is made once, and a row is impossible if any is set.
    flags = {f"why_{i}": condition.cast("int64") for i, condition in enumerate(why.values())}
    flagged = t.select("host", "session", "cgroup", "time_ns", "interval_ns", "coverage", **flags)
    worst = imported_ibis().greatest(*[flagged[name] for name in flags])
    return flagged.group_by("host", "session", "cgroup").agg(
        rows=flagged.count(),
        impossible=worst.sum().cast("int64"),
        first_ns=flagged.time_ns.min(),
        last_ns=flagged.time_ns.max(),
        covered_s=(flagged.interval_ns.cast("float64") / 1e9).sum(),
        longest_s=(flagged.interval_ns.cast("float64") / 1e9).max(),
        coverage=flagged.coverage.mean(),
        **{name: flagged[name].sum().cast("int64") for name in flags},
    )


def by_session(kept: Any) -> Any:
    """The sums per session of a host, from :func:`groups`."""
    count = len(reasons_names())
    excess = (
        kept.covered_s > (kept.last_ns - kept.first_ns).cast("float64") / 1e9 + kept.longest_s + 1
    ).cast("int64")
    return kept.group_by("host", "session").agg(
        rows=kept.rows.sum().cast("int64"),
        cgroups=kept.count(),
        impossible=kept.impossible.sum().cast("int64"),
        first_ns=kept.first_ns.min(),
        last_ns=kept.last_ns.max(),
        coverage=kept.coverage.mean(),
        twice=excess.sum().cast("int64"),
        **{f"why_{i}": kept[f"why_{i}"].sum().cast("int64") for i in range(count)},
    )


def reasons_names() -> list[str]:
    """The reasons in words, in the order of their flags."""
    ibis = imported_ibis()
    kinds = dict.fromkeys(("interval_ns", "current", "watched", "shared"), "int64")
    kinds["coverage"] = "float64"
    kinds |= {f"idle_{age}{end}": "int64" for age in AGES for end in ("", "_lo", "_hi")}
    return list(reasons(ibis.table(kinds, name="any")))


def by_clock(sessions: Any) -> Any:
    """What each host's agent says about its clock, and when it was last heard."""
    return sessions.group_by("host").agg(
        offset_ns=sessions.clock_offset_ns.median(),
        unsynced=(~sessions.clock_synced).cast("int64").sum(),
        beats=sessions.count(),
        heard_ns=sessions.time_ns.max(),
        late_windows=sessions.late_windows.max(),
        node_class=sessions.node_class.max(),
        mem_total=sessions.mem_total.max(),
    )


def parents(kept: Any) -> Any:
    """Cgroups of a host that contain another one that has rows."""
    ibis = imported_ibis()
    every = kept.select("host", "cgroup").distinct()
    levels, above = [], every
    for _ in range(8):
        cut = above.mutate(cgroup=above.cgroup.re_replace("/[^/]*$", ""))
        above = cut.filter(cut.cgroup != "").distinct()
        levels.append(above)
    return every.semi_join(ibis.union(*levels, distinct=True), ["host", "cgroup"])


def audit(engine: Engine, catalog: Catalog, tables: dict[str, Any], now: datetime) -> Audit:
    """Looks at all rows once. Views are made anew where rows turn out to be there twice."""
    result = Audit()
    kept = engine.keep("fleet_groups", groups(tables["cgroups"]))
    sessions = engine.run(by_session(kept)).to_pylist()
    doubled = {row["host"] for row in sessions if row["twice"]}
    if doubled:
        _search(catalog, doubled)
        tables["cgroups"] = engine.view(catalog, "cgroups")
        kept = engine.keep("fleet_groups", groups(tables["cgroups"]))
        sessions = engine.run(by_session(kept)).to_pylist()
    _doubled(catalog)
    clocks = {row["host"]: row for row in engine.run(by_clock(tables["sessions"])).to_pylist()}
    result.hosts = _by_host(sessions, clocks)
    _copies(catalog, result, sessions)
    _liars(catalog, result, sessions)
    _clocks(catalog, result, now)
    found = engine.keep("fleet_parents", parents(kept))
    inside = engine.run(found.agg(n=found.count()))["n"][0].as_py()
    if inside:
        result.parents = found
        told = f"{inside} cgroups contain others that have rows of their own"
        catalog.problems.add("nested", "cgroups", told, "sums are of the innermost ones")
    return result


def _search(catalog: Catalog, hosts: set[str]) -> None:
    for parts in catalog.parts.values():
        for part in parts:
            part.twice = part.twice or part.host in hosts


def _doubled(catalog: Catalog) -> None:
    tables: dict[str, list[str]] = {}
    for table, parts in catalog.parts.items():
        for host in {part.host for part in parts if part.twice}:
            tables.setdefault(host, []).append(table)
    for host, names in sorted(tables.items()):
        told = f"rows of {', '.join(sorted(names))} are there twice, or parts overlap in time"
        catalog.problems.add("duplicate", host, told, "each row is counted once")


def _by_host(sessions: list[dict[str, Any]], clocks: dict[str, Any]) -> list[dict[str, Any]]:
    hosts: dict[str, dict[str, Any]] = {}
    for row in sorted(sessions, key=lambda row: (row["host"], row["session"])):
        host = hosts.setdefault(row["host"], {"host": row["host"], "rows": 0, "impossible": 0})
        seen = host["rows"] + row["rows"]
        mean = (host.get("coverage") or 0.0) * host["rows"] + (row["coverage"] or 0.0) * row["rows"]
        host |= {
            "coverage": mean / seen if row["coverage"] is not None else host.get("coverage"),
            "rows": seen,
            "impossible": host["impossible"] + row["impossible"],
            "first_ns": min(row["first_ns"], host.get("first_ns", row["first_ns"])),
            "last_ns": max(row["last_ns"], host.get("last_ns", row["last_ns"])),
        }
        hosts[row["host"]] = host
    for name, clock in clocks.items():
        host = hosts.setdefault(name, {"host": name, "rows": 0, "impossible": 0})
        host |= {key: clock[key] for key in clock if key != "host"}
        host["last_ns"] = max(clock["heard_ns"], host.get("last_ns") or clock["heard_ns"])
    return [hosts[name] for name in sorted(hosts)]


def _copies(catalog: Catalog, result: Audit, sessions: list[dict[str, Any]]) -> None:
    """Leaves out all but one of the hosts under whose names a session is there."""
    under: dict[str, list[dict[str, Any]]] = {}
    for row in sessions:
        under.setdefault(row["session"], []).append(row)
    for session, rows in under.items():
        rows.sort(key=lambda row: (-row["rows"], row["host"]))
        for row in rows[1:]:
            told = f"session {session} is also there as host {rows[0]['host']}"
            catalog.problems.add("copy", row["host"], told, LEFT_OUT)
            result.out.add(row["host"])


def _liars(catalog: Catalog, result: Audit, sessions: list[dict[str, Any]]) -> None:
    names = reasons_names()
    why: dict[str, list[int]] = {}
    for row in sessions:
        sums = why.setdefault(row["host"], [0] * len(names))
        for i in range(len(names)):
            sums[i] += row[f"why_{i}"]
    for host in result.hosts:
        if not host["impossible"]:
            continue
        told = [f"{name} ({n})" for name, n in zip(names, why[host["host"]]) if n]
        text = f"{host['impossible']} of {host['rows']} rows are impossible: {'; '.join(told)}"
        liar = host["impossible"] > LIAR * host["rows"]
        done = f"the host is {LEFT_OUT}" if liar else f"these rows are {LEFT_OUT}"
        catalog.problems.add("impossible", host["host"], text, done)
        if liar:
            result.out.add(host["host"])


def _clocks(catalog: Catalog, result: Audit, now: datetime) -> None:
    now_ns = int(now.timestamp()) * SECOND
    for host in result.hosts:
        name, last, offset = host["host"], host.get("last_ns"), host.get("offset_ns")
        if offset is not None and abs(offset) >= WORTH_CORRECTING_NS:
            result.offsets[name] = int(offset)
            told = f"its clock is {_span(int(offset))}, by the agent's own estimate"
            catalog.problems.add("clock", name, told, CORRECTED)
            last = last - int(offset) if last is not None else None
            host["last_ns"] = last
        if last is not None and last > now_ns + SLACK_NS:
            told = f"its newest row is {_span(last - now_ns)} of now"
            catalog.problems.add("clock", name, told, LEFT_OUT)
            result.out.add(name)
        elif host.get("first_ns") is not None and host["first_ns"] < EARLIEST_NS:
            told = "its oldest row is from before 2020"
            catalog.problems.add("clock", name, told, LEFT_OUT)
            result.out.add(name)
        elif offset is None and host.get("unsynced"):
            told = "its clock is not synchronized, and nobody knows by how much it is wrong"
            catalog.problems.add("clock", name, told, KEPT)


def _span(ns: int) -> str:
    """A difference of clocks in words."""
    return f"{abs(ns) / 3.6e12:.2g} h {'ahead' if ns > 0 else 'behind'}"


def _possible_ones(t: Any, suspects: list[str]) -> Any:
    """The rows that are not impossible.

    The pass over the rows has found none that are, except of the suspects. So only theirs are looked
    at again, and a question reads of the others just the columns that it needs.
    """
    if not suspects:
        return t
    others, theirs = t.filter(t.host.notin(suspects)), t.filter(t.host.isin(suspects))
    return others.union(theirs.filter(possible(theirs)))


def believed(t: Any, result: Audit, since_ns: Optional[int] = None) -> Any:
    """The rows of a table that count, with corrected times."""
    ibis = imported_ibis()
    if result.out:
        t = t.filter(t.host.notin(sorted(result.out)))
    if result.offsets:
        steps = [(t.host == name, ns) for name, ns in sorted(result.offsets.items())]
        t = t.mutate(time_ns=t.time_ns - ibis.cases(*steps, else_=0).cast("int64"))
    if since_ns is not None:
        t = t.filter(t.time_ns >= since_ns)
    if "interval_ns" in t.columns:
        impossible = {host["host"] for host in result.hosts if host["impossible"]}
        t = _possible_ones(t, sorted(impossible - result.out))
        # The root, and cgroups without the memory controller, have no size of their own.
        t = t.mutate(current=ibis.coalesce(t.current, t.watched))
        if result.parents is not None:
            t = t.anti_join(result.parents, ["host", "cgroup"])
    return t

"""A fleet that can be asked: its parts, an engine, and what all questions have in common.

The sums that several questions need are computed once: means per cgroup (:meth:`Fleet.cgroups`) and
the time for which each host was observed (:meth:`Fleet.observed`). A mean is over the time for
which the *host* was observed. So a cgroup that lived for half of that time counts half, and a host
whose data is missing for half of a day counts whole: what is missing is told by the question
``data``, and is not taken for zero.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable, Optional

from isotherm._errors import NotSupportedError
from isotherm.fleet import catalog as catalogs
from isotherm.fleet.audit import Audit, audit, believed
from isotherm.fleet.engine import Engine, broken_file, imported_ibis, open_engine
from isotherm.fleet.problems import LEFT_OUT, first_line
from isotherm.fleet.schema import AGES

GIB = 1 << 30


@dataclass(frozen=True)
class Options:
    """What a question may be told. Shares are of 1."""

    price: Optional[float] = None
    """Money per GiB and month."""
    max_slowdown: float = 0.01
    max_refaults: Optional[float] = 0.002
    """Share of the memory that may come back per minute."""
    refault_us: float = 20.0
    """What a page costs that comes back, in µs."""
    headroom: float = 0.15
    """What is added to a working set for a request."""


@dataclass
class Answer:
    """A table that answers a question, or a part of one.

    Ends of names tell the units: ``_bytes``, ``_share`` (of 1), ``_s``, ``_per_min``, ``_money``.
    """

    name: str
    title: str
    expression: Any
    """An Ibis expression, or a ``pyarrow.Table`` where the statistics are not SQL's."""
    note: str = ""
    texts: dict[str, str] = field(default_factory=dict)
    """Files that belong to the answer, by name: policies."""
    rows: Any = None
    """The answer as a ``pyarrow.Table``, once it was asked."""


def too_large(engine: str, error: BaseException) -> NotSupportedError:
    """What to do if an engine has not enough memory."""
    hints = {
        "duckdb": "--memory 8GB (default 3GB), or a cluster: --engine spark",
        "spark": "SPARK_MEMORY=8g (default 3g), or a cluster: SPARK_REMOTE or MASTER",
    }
    return NotSupportedError(
        f"engine {engine} has not enough memory for this question\n"
        f"  tried: {first_line(error)}\n"
        f"  hint:  --since 1d for fewer rows, or {hints[engine]}"
    )


class Fleet:
    """All that lies below a folder, seen through an engine."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        engine: str | Engine = "duckdb",
        since: Optional[datetime] = None,
        now: Optional[datetime] = None,
        options: Optional[Options] = None,
    ):
        self.options = options or Options()
        self.since = since
        self.now = now or datetime.now(timezone.utc)
        self.catalog = catalogs.find(root, since)
        self.problems = self.catalog.problems
        self.engine = open_engine(engine) if isinstance(engine, str) else engine
        self.explained = False
        self.kept: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        self.audit = Audit()
        self.retried(self._begin)

    def _begin(self) -> None:
        """Makes the views and looks at the rows."""
        self.kept.clear()
        raw = {table: self.engine.view(self.catalog, table) for table in self.catalog.parts}
        self.audit = audit(self.engine, self.catalog, raw, self.now)
        since_ns = int(self.since.timestamp() * 1e9) if self.since else None
        self.tables = {name: believed(t, self.audit, since_ns) for name, t in raw.items()}

    def retried(self, work: Callable[[], Any]) -> Any:
        """Does the work. A part that turns out to be broken is left out, and all done anew."""
        while True:
            try:
                return work()
            except Exception as error:
                if self.engine.is_too_large(error):
                    raise too_large(self.engine.name, error) from error
                if not self.engine.is_from_data(error) or not self._leave_out_broken(error):
                    raise
                if work != self._begin:
                    self._begin()

    def _leave_out_broken(self, error: BaseException) -> bool:
        """Takes broken parts out of the catalogue. Returns whether there were any.

        An engine names the file that it could not read, or it does not. Then all are read here,
        once.
        """
        named = broken_file(error)
        parts = [part for own in self.catalog.parts.values() for part in own]
        broken = {part.path: str(error) for part in parts if part.path == named}
        broken = broken or catalogs.broken(parts)
        for own in self.catalog.parts.values():
            own[:] = [part for part in own if part.path not in broken]
        for path, told in broken.items():
            where = os.path.relpath(path, self.catalog.base)
            first = first_line(told)[:200] or "no reason given"
            self.problems.add("truncated", where, f"its rows cannot be read: {first}", LEFT_OUT)
        return bool(broken)

    def ask(self, question: Callable[["Fleet"], list[Answer]]) -> list[Answer]:
        """Asks a question and fetches its answers."""

        def work() -> list[Answer]:
            answers = question(self)
            for answer in answers:
                is_table = hasattr(answer.expression, "to_pylist")
                answer.rows = answer.expression if is_table else self.engine.run(answer.expression)
            return answers

        done: list[Answer] = self.retried(work)
        return done

    def keep(self, name: str, make: Callable[[], Any]) -> Any:
        """An expression that several questions need: computed once, or as it is to be explained."""
        if self.explained:
            return make()
        if name not in self.kept:
            self.kept[name] = self.engine.keep(f"fleet_{name}", make())
        return self.kept[name]

    def keep_by_hosts(self, name: str, make: Callable[[Any], Any]) -> Any:
        """As :meth:`keep`, of what ``make`` makes of rows of cgroups, a group of hosts at a time.

        For what is computed within hosts, and needs every value at once, as percentiles do.
        """
        t = self.tables["cgroups"]
        if self.explained:
            return make(t)
        if name not in self.kept:
            groups = self.catalog.host_groups("cgroups", self.engine.most_rows)
            parts = [make(t.filter(t.host.isin(hosts))) for hosts in groups]
            self.kept[name] = self.engine.keep(f"fleet_{name}", *(parts or [make(t)]))
        return self.kept[name]

    def observed(self) -> Any:
        """For each host, for how many seconds there are rows: ``host``, ``host_s``."""

        def make() -> Any:
            t = self.tables["cgroups"]
            each = t.group_by("host", "time_ns").agg(s=t.interval_ns.max().cast("float64") / 1e9)
            return each.group_by("host").agg(host_s=each.s.sum())

        return self.keep("observed", make)

    def classes(self) -> Any:
        """For each host, its site's label: ``host``, ``node_class``."""

        def make() -> Any:
            t = self.tables["sessions"]
            return t.group_by("host").agg(
                node_class=t.node_class.max().fill_null("(none)"), mem_total=t.mem_total.max()
            )

        return self.keep("classes", make)

    def cgroups(self) -> Any:
        """Means per cgroup: bytes, and what came back per second.

        ``weight`` is the share of the host's time for which the cgroup was there. ``NAME_bytes``
        are weighted means: they can be added over cgroups and hosts. ``seen_bytes`` is how much of
        ``current_bytes`` was looked at.
        """

        def make() -> Any:
            ibis = imported_ibis()
            t = self.tables["cgroups"]
            t = t.mutate(s=t.interval_ns.cast("float64") / 1e9, bytes=t.current.cast("float64"))
            workload = ibis.ifelse(
                t.namespace.isnull(), t.service, t.namespace.concat("/").concat(t.service)
            )
            t = t.mutate(owner=workload.fill_null("(none)"), kind=t["class"].fill_null("(none)"))
            seen = ibis.ifelse(t.idle_1m.isnull(), 0.0, t.bytes * t.coverage.fill_null(0.0))
            sums = {"current": t.bytes, "seen": seen, "shared": t.shared.fill_null(0)}
            for age in AGES:
                # Unknown stays unknown: a sum of nothing but that is none, and not 0.
                sums[f"idle_{age}"] = t[f"idle_{age}"]
                sums[f"idle_{age}_lo"] = t[f"idle_{age}_lo"].fill_null(0)
                sums[f"idle_{age}_hi"] = t[f"idle_{age}_hi"].fill_null(t.current)
            returned = {f"returns_{age}": t[f"returns_{age}"].sum() for age in AGES}
            each = t.group_by("host", "cgroup", "owner", "kind").agg(
                lived_s=t.s.sum(),
                **{name: (value * t.s).sum() for name, value in sums.items()},
                **returned,
            )
            each = each.join(self.observed(), "host")
            means = {f"{name}_bytes": each[name] / each.host_s for name in sums}
            rates = {f"{name}_per_s": each[name] / each.host_s for name in returned}
            return each.select(
                "host",
                "cgroup",
                "owner",
                "kind",
                weight=each.lived_s / each.host_s,
                **means,
                **rates,
            )

        return self.keep("cgroups", make)

    def close(self) -> None:
        """Ends the engine."""
        self.engine.close()

    def __enter__(self) -> "Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""The tables of a fleet, version 1 (docs/FLEET.md), as this reader knows them.

Each column has a kind, which says how the file stores it and what the questions see:

* ``time``: a timestamp in ns, UTC; seen as integer ``NAME_ns`` since 1970.
* ``int``: an unsigned or signed integer (bytes, ns, counts); seen as a signed 64-bit integer. A
  value that does not fit is seen as -1, since no such amount of memory exists.
* ``ratio``: a float; seen as a double.
* ``text``, ``bool``: as they are.

Columns that an older part lacks are seen as missing. Columns that are not listed here are ignored.
"""

from __future__ import annotations

from typing import NamedTuple

VERSION = "1"
"""What ``isotherm.schema`` in a file's metadata says."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    kind: str
    required: bool

    @property
    def seen(self) -> str:
        """Its name in the questions."""
        return f"{self.name}_ns" if self.kind == "time" else self.name


def _columns(text: str) -> tuple[Column, ...]:
    """Reads ``kind: name name? ...`` lines. A question mark ends the name of a nullable column."""
    columns = []
    for line in text.strip().splitlines():
        kind, names = line.split(":")
        for name in names.split():
            columns.append(Column(name.rstrip("?"), kind.strip(), not name.endswith("?")))
    return tuple(columns)


TABLES: dict[str, tuple[Column, ...]] = {
    "sessions": _columns(
        """
        time: time started?
        text: session boot? kernel? version? commit? policy? policy_hash? swap_kind? service?
        text: node_class?
        int: cpus? mem_total mem_available? swap_total? swap_used? page_size? clock_offset_ns?
        int: own_rss? psi_some_us? rows? late_windows?
        bool: clock_synced? acting? killed? canary?
        ratio: budget? own_cpu?
        """
    ),
    "cgroups": _columns(
        """
        time: time
        text: session cgroup class? service? namespace? pod? container? policy? policy_hash?
        int: interval_ns age_ns? current? anon? file? swap? shared? request? limit? low? min?
        int: watched? ws_100ms? ws_1s? ws_10s? ws_1m?
        int: idle_1m? idle_1m_lo? idle_1m_hi? idle_5m? idle_5m_lo? idle_5m_hi?
        int: idle_30m? idle_30m_lo? idle_30m_hi? returns_1m? returns_5m? returns_30m?
        int: refaults? pswpin? pswpout? psi_some_us? psi_full_us? oom? paged_out?
        ratio: coverage?
        """
    ),
    "files": _columns(
        """
        time: time
        text: session cgroup file dev_ino?
        int: size mapped resident? mappers? idle_1m? idle_5m? idle_30m?
        """
    ),
}
"""The tables that the questions read. Snapshots, pages and events are for other tools."""

AGES = ("1m", "5m", "30m")
"""For how long memory was idle at least: ``idle_1m`` and so on."""

AGE_SECONDS = {"1m": 60, "5m": 300, "30m": 1800}


def column(table: str, name: str) -> Column:
    """The column of this name."""
    return next(column for column in TABLES[table] if column.name == name)

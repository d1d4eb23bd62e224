"""What a policy's rollout did: hosts that act against matched ones that do not, before and after.

The engine makes a table of each host's numbers per quarter of an hour; the rest is statistics on
it, in ``did.py``. A host begins to act in the first quarter in which its agent says so. Hosts that
act from their first row on tell nothing about a change, and are counted.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from isotherm.fleet.fleet import Answer, Fleet
from isotherm.fleet.questions import did

BUCKET_S = 900
METRICS = {
    "used_bytes": "memory of all cgroups",
    "idle_5m_bytes": "idle for 5 minutes",
    "machine_used_bytes": "memory used, of the machine",
    "stall_ms_per_s": "stalls for memory, ms per s",
    "refaults_per_s": "refaults per s",
    "swapins_per_s": "pages swapped in per s",
}


def rollout(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    each = quarters(fleet)
    title = "Effect of acting: before and after, against matched hosts that do not act"
    if fleet.explained:
        return [Answer("rollout", title, each)]
    rows = fleet.engine.run(each.order_by("host", "bucket"))
    result = did.effects(rows, list(METRICS))
    table = pa.Table.from_pylist(
        [{"metric": METRICS[row.pop("metric")], **row} for row in result.rows], schema=SCHEMA
    )
    return [Answer("rollout", title, table, result.note)]


SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("acting", pa.int64()),
        ("others", pa.int64()),
        ("before", pa.float64()),
        ("after", pa.float64()),
        ("others_before", pa.float64()),
        ("others_after", pa.float64()),
        ("effect", pa.float64()),
        ("lo", pa.float64()),
        ("hi", pa.float64()),
        ("effect_share", pa.float64()),
        ("placebo", pa.float64()),
        ("unit", pa.string()),
    ]
)


def quarters(fleet: Fleet) -> Any:
    """A row per host and quarter of an hour: means of its numbers, and whether it acted."""
    t = fleet.tables["cgroups"]
    width = BUCKET_S * 1_000_000_000
    each = t.group_by("host", "time_ns").agg(
        used=t.current.sum().cast("float64"),
        idle=t.idle_5m.sum().cast("float64"),
        stall=t.psi_some_us.sum().cast("float64"),
        refaults=t.refaults.sum().cast("float64"),
        swapins=t.pswpin.sum().cast("float64"),
        s=t.interval_ns.max().cast("float64") / 1e9,
    )
    # A time is the end of its interval, which belongs to the quarter that it ends.
    each = each.mutate(bucket=((each.time_ns - 1) // width).cast("int64"))
    own = each.group_by("host", "bucket").agg(
        used_bytes=(each.used * each.s).sum() / each.s.sum(),
        idle_5m_bytes=(each.idle * each.s).sum() / each.s.sum(),
        stall_ms_per_s=each.stall.sum() / 1e3 / each.s.sum(),
        refaults_per_s=each.refaults.sum() / each.s.sum(),
        swapins_per_s=each.swapins.sum() / each.s.sum(),
    )
    s = fleet.tables["sessions"]
    s = s.mutate(bucket=((s.time_ns - 1) // width).cast("int64"))
    machine = s.group_by("host", "bucket").agg(
        machine_used_bytes=(s.mem_total - s.mem_available).mean(),
        acting=s.acting.fill_null(False).cast("int64").max(),
        node_class=s.node_class.max().fill_null("(none)"),
    )
    both = own.join(machine, ["host", "bucket"])
    return both.select("host", "bucket", "node_class", "acting", *METRICS)

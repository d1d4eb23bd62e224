"""How much memory is idle for 1, 5 and 30 minutes: by service, class, class of node, and node.

Bars are added as they are, not as independent errors: what makes one host's estimate too low, as a
method or a kernel, may make all of them too low. A row without a bar has that from 0 to its size.
"""

from __future__ import annotations

from typing import Any

from isotherm.fleet.engine import imported_ibis
from isotherm.fleet.fleet import Answer, Fleet
from isotherm.fleet.schema import AGES

NOTE = (
    "Means over the time for which each host was observed, added over hosts. lo and hi are the "
    "ends of the agents' intervals, added. seen is the share of the memory that was looked at."
)


def idle(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    each = fleet.cgroups().join(fleet.classes(), "host", how="left")
    each = each.mutate(node_class=each.node_class.fill_null("(none)"))
    by = {
        "service": ("owner", "Idle memory by service"),
        "class": ("kind", "Idle memory by class of cgroup"),
        "node_class": ("node_class", "Idle memory by class of node"),
        "node": ("host", "Idle memory by node"),
    }
    return [
        Answer(f"idle_by_{name}", title, _sums(each, column, name), NOTE)
        for name, (column, title) in by.items()
    ]


def _sums(each: Any, column: str, name: str) -> Any:
    ibis = imported_ibis()
    names = ["current_bytes"]
    for age in AGES:
        names += [f"idle_{age}_bytes", f"idle_{age}_lo_bytes", f"idle_{age}_hi_bytes"]
    groups = each.group_by(**{name: each[column]}).agg(
        hosts=each.host.nunique(),
        cgroups=each.weight.sum(),
        seen=each.seen_bytes.sum(),
        **{each_name: each[each_name].sum() for each_name in names},
    )
    return groups.select(
        name,
        "hosts",
        "cgroups",
        *names,
        idle_5m_share=groups.idle_5m_bytes / groups.current_bytes.nullif(0),
        seen_share=groups.seen / groups.current_bytes.nullif(0),
    ).order_by(ibis.desc("idle_5m_bytes"), name)

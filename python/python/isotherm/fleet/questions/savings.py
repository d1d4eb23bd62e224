"""Who would save most under which limit: the curves of ``isotherm plan``, added over hosts.

To page out what was idle for an age saves ``idle_AGE`` and brings back ``returns_AGE``. With the
time that a page costs which comes back, that is a slowdown of the processes, if each cgroup keeps
one CPU busy (a busier one is slowed down by less, since its other threads go on)::

    slowdown = returns per second / 4096 * price of a page / cgroups

What was not looked at may come back as often: both rates are divided by the share that was seen.
The worth of an age under a limit is its lower bar. The best age is the one that saves most while
slowdown and the share that comes back per minute are within the limit; if none is, nothing is
recommended.
"""

from __future__ import annotations

from typing import Any

from isotherm.fleet.engine import imported_ibis
from isotherm.fleet.fleet import Answer, Fleet
from isotherm.fleet.schema import AGE_SECONDS, AGES

PAGE = 4096
LIMITS = {"strict": (0.001, 0.0005), "normal": (0.01, 0.005), "loose": (0.05, 0.05)}
"""Slowdown, and share of the memory that comes back per minute."""


def savings(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    ibis = imported_ibis()
    tiers = [best(fleet, name, *limits) for name, limits in LIMITS.items()]
    every = ibis.union(*tiers) if len(tiers) > 1 else tiers[0]
    order = ["max_slowdown_share", ibis.desc("saves_lo_bytes"), "service"]
    cost = fleet.options.refault_us
    return [
        Answer(
            "savings",
            "Who would save most under which limit",
            every.order_by(*order),
            "strict: 0.1 % slowdown and 0.05 % of the memory back per minute; normal: 1 % and "
            f"0.5 %; loose: 5 % and 5 %. A page that comes back costs {cost:g} us "
            "(--refault-cost). Services for which no age is within the limit are not in the table.",
        ),
        Answer(
            "curves",
            "What each age would save and bring back, by service",
            kept_curves(fleet).order_by("service", "age_s"),
            "Added over hosts. A slowdown is told as if each cgroup kept one CPU busy.",
        ),
    ]


def kept_curves(fleet: Fleet) -> Any:
    """A row per service and age, computed once."""
    return fleet.keep("curves", lambda: curves(fleet))


def curves(fleet: Fleet) -> Any:
    """The same as an expression."""
    ibis = imported_ibis()
    each = fleet.cgroups()
    names = [f"{name}_bytes" for name in ("current", "seen")]
    names += [f"idle_{age}{end}_bytes" for age in AGES for end in ("", "_lo", "_hi")]
    names += [f"returns_{age}_per_s" for age in AGES]
    sums = each.group_by(service=each.owner, kind=each.kind).agg(
        hosts=each.host.nunique(),
        cgroups=each.weight.sum(),
        **{name: each[name].sum() for name in names},
    )
    cost_s = fleet.options.refault_us * 1e-6
    rows = []
    for age in AGES:
        seen = sums.seen_bytes / sums.current_bytes.nullif(0)
        back = sums[f"returns_{age}_per_s"] / seen.nullif(0)
        rows.append(
            sums.select(
                "service",
                "kind",
                "hosts",
                "cgroups",
                "current_bytes",
                age_s=ibis.literal(AGE_SECONDS[age], type="int64"),
                saves_bytes=sums[f"idle_{age}_bytes"],
                saves_lo_bytes=sums[f"idle_{age}_lo_bytes"],
                saves_hi_bytes=sums[f"idle_{age}_hi_bytes"],
                back_bytes_per_min=back * 60,
                back_share_per_min=back * 60 / sums.current_bytes.nullif(0),
                slowdown_share=back / PAGE * cost_s / sums.cgroups.nullif(0),
                seen_share=seen,
            )
        )
    return ibis.union(*rows)


def best(fleet: Fleet, limit: str, max_slowdown: float, max_refaults: float | None) -> Any:
    """For each service the age that saves most within the limit."""
    ibis = imported_ibis()
    each = kept_curves(fleet)
    within = each.slowdown_share <= max_slowdown
    if max_refaults is not None:
        within = within & (each.back_share_per_min <= max_refaults)
    each = each.filter(within & (each.saves_bytes > 0))
    window = ibis.window(
        group_by="service",
        order_by=[ibis.desc("saves_lo_bytes"), ibis.desc("saves_bytes"), "age_s"],
    )
    first = each.mutate(nth=ibis.row_number().over(window))
    first = first.filter(first.nth == 0).drop("nth")
    return first.select(
        limit=ibis.literal(limit),
        max_slowdown_share=ibis.literal(max_slowdown, type="float64"),
        **{name: first[name] for name in first.columns},
    )

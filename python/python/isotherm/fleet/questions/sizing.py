"""Working set against requests and limits: who asks for more, or less, than is used.

What a cgroup needs is the 95th percentile, over its intervals, of its working set of a minute, with
headroom (``--headroom``, 15 %). Where that is not known, it is what is not idle for a minute, else
its size. A request above that is paid for and not used. One below is at the mercy of its
neighbours.
"""

from __future__ import annotations

from typing import Any

from isotherm.fleet.engine import imported_ibis
from isotherm.fleet.fleet import GIB, Answer, Fleet


def sizing(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    ibis = imported_ibis()
    each = fleet.keep_by_hosts("needs", lambda rows: needs(fleet, rows))
    headroom = 1 + fleet.options.headroom
    each = each.mutate(need=each.need_bytes * headroom)
    asked = ~each.request_bytes.isnull()
    # Of a service of which no request is known, nothing is over or under: not zero.
    unknown = ibis.null("float64")
    over = ibis.ifelse(asked, ibis.greatest(each.request_bytes - each.need, 0.0), unknown)
    under = ibis.ifelse(asked, ibis.greatest(each.need - each.request_bytes, 0.0), unknown)
    each = each.mutate(
        over=over * each.weight,
        under=under * each.weight,
        tight=ibis.ifelse(
            each.limit_bytes.isnull(), False, each.peak_bytes > 0.9 * each.limit_bytes
        ).cast("int64"),
        asked=each.request_bytes * each.weight,
        needed=each.need * each.weight,
    )
    price = fleet.options.price
    sums = each.group_by(service=each.owner).agg(
        hosts=each.host.nunique(),
        cgroups=each.weight.sum(),
        request_bytes=each.asked.sum(),
        limit_bytes=(each.limit_bytes * each.weight).sum(),
        need_bytes=each.needed.sum(),
        over_bytes=each.over.sum(),
        under_bytes=each.under.sum(),
        near_limit=each.tight.sum().cast("int64"),
        oom_kills=each.oom.sum().cast("int64"),
        each_request_bytes=each.need.quantile(0.95),
    )
    if price is not None:
        sums = sums.mutate(
            request_per_month_money=sums.request_bytes / GIB * price,
            over_per_month_money=sums.over_bytes / GIB * price,
        )
    return [
        Answer(
            "sizing",
            "Working set against requests and limits, by service",
            sums.order_by(ibis.desc("over_bytes"), "service"),
            "need: 95th percentile of the working set of a minute, with headroom. over: requested "
            "and not needed. under: needed and not requested. near limit: cgroups that came within "
            "10 % of their limit. each request: what to request per instance, so that 95 % of the "
            "instances get what they need.",
        )
    ]


def needs(fleet: Fleet, t: Any) -> Any:
    """What each cgroup needs, asks for and may have, by these rows."""
    ibis = imported_ibis()
    # `least` leaves out what is missing, so that has to be told apart.
    idle = ibis.ifelse(t.idle_1m.isnull(), ibis.null("int64"), ibis.least(t.idle_1m, t.current))
    inferred = t.current - idle
    t = t.mutate(
        set=ibis.coalesce(t.ws_1m, inferred, t.current).cast("float64"),
        s=t.interval_ns.cast("float64") / 1e9,
        owner=ibis.ifelse(
            t.namespace.isnull(), t.service, t.namespace.concat("/").concat(t.service)
        ).fill_null("(none)"),
    )
    # A limit of "max" reads as an amount that no machine has.
    limited = ibis.ifelse(t["limit"] < (1 << 60), t["limit"], ibis.null("int64"))
    each = t.group_by("host", "cgroup", "owner").agg(
        need_bytes=t.set.quantile(0.95),
        peak_bytes=t.current.max().cast("float64"),
        request_bytes=t.request.max().cast("float64"),
        limit_bytes=limited.max().cast("float64"),
        oom=t.oom.sum().fill_null(0).cast("int64"),
        lived_s=t.s.sum(),
    )
    each = each.join(fleet.observed(), "host")
    return each.mutate(weight=each.lived_s / each.host_s).drop("lived_s", "host_s")

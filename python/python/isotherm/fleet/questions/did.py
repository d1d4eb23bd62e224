"""Difference in differences over hosts, with an interval by bootstrap.

For a host that begins to act in quarter ``b``, the change is its mean after ``b`` less its mean
before. Its peers are hosts that never act, of the same class of node and the same third by memory
used before; where there are none, of the same class. Their change is over the same quarters. The
effect is the mean, over acting hosts that have peers, of the own change less the mean change of the
peers::

    effect = mean(own after - own before - mean(peers after - peers before))

So a day's rhythm, which both share, is no effect. What only acting hosts went through, as a release
at the same hour, is taken for one. The interval has 95 % of 1000 draws, with replacement, of acting
hosts and of peers (a host is the unit, since its quarters are not independent). The placebo is the
same effect between the first and the second half of the time before, when nobody acted: it should
be near 0.

Input is one row per host and quarter. Fewer than 3 hosts on either side give no interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray

DRAWS = 1000
SEED = 20260131
ENOUGH = 3
Floats = NDArray[np.float64]


@dataclass
class Result:
    """Rows of the answer, and what has to be said about them."""

    rows: list[dict[str, Any]]
    note: str


@dataclass
class Hosts:
    """Acting hosts and others, and who is compared with whom."""

    begin: NDArray[np.int64]
    """In which quarter each host began to act; -1 for never, -2 for always."""
    strata: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    """Acting hosts and their peers."""
    alone: int
    """Acting hosts without peers."""


def effects(table: Any, metrics: list[str]) -> Result:
    """The effects on these metrics: columns of ``table``, as host, bucket, node_class, acting."""
    if not table.num_rows:
        return Result([], "There is no host with both cgroups and sessions.")
    names, host = _coded(table["host"])
    buckets, bucket = np.unique(table["bucket"].to_numpy(), return_inverse=True)
    shape = (len(names), len(buckets))
    grids = {}
    for metric in metrics:
        grid = np.full(shape, np.nan)
        grid[host, bucket] = table[metric].to_numpy(zero_copy_only=False).astype(float)
        grids[metric] = grid
    acting = np.full(shape, -1, np.int64)
    acting[host, bucket] = table["acting"].to_numpy()
    kinds = np.empty(len(names), object)
    kinds[host] = table["node_class"].to_pylist()
    hosts = _matched(acting, kinds, grids[metrics[0]])
    count = sum(len(own) for own, _ in hosts.strata)
    peers = {int(i) for _, others in hosts.strata for i in others}
    always = int((hosts.begin == -2).sum())
    note = (
        f"{count} hosts began to act and are compared with {len(peers)} that never did, of the "
        f"same class and third by memory used; {hosts.alone} have no peers, {always} acted from "
        "their first row on. 95 % interval by bootstrap over hosts. placebo: the same between the halves "
        "of the time before; it should be near 0."
    )
    if not count:
        return Result([], note)
    return Result([_effect(name, grids[name], hosts) for name in metrics], note)


def _coded(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    names, codes = np.unique(np.array(column.to_pylist(), dtype=str), return_inverse=True)
    return names.tolist(), codes


def _matched(acting: NDArray[np.int64], kinds: Any, level: Floats) -> Hosts:
    """Who is compared with whom."""
    acts = acting == 1
    known = acting >= 0
    begin = np.where(acts.any(axis=1), acts.argmax(axis=1), -1)
    first = known.argmax(axis=1)
    begin = np.where((begin >= 0) & (begin <= first), -2, begin)
    own, never = np.flatnonzero(begin >= 0), np.flatnonzero(begin == -1)
    if not len(own):
        return Hosts(begin, [], 0)
    before = _mean(level[:, : max(1, int(begin[own].min()))])
    strata, alone = [], 0
    for kind in sorted(set(kinds[own])):
        mine, others = own[kinds[own] == kind], never[kinds[never] == kind]
        if not len(others):
            alone += len(mine)
            continue
        cuts = np.nanquantile(before[mine], [1 / 3, 2 / 3]) if len(mine) >= 9 else np.array([])
        third, third_of = np.digitize(before[mine], cuts), np.digitize(before[others], cuts)
        for n in np.unique(third):
            peers = others[third_of == n]
            strata.append((mine[third == n], peers if len(peers) >= ENOUGH else others))
    return Hosts(begin, strata, alone)


def _mean(grid: Floats) -> Floats:
    """The mean of each row, without what is missing."""
    there = ~np.isnan(grid)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = np.where(there, grid, 0).sum(axis=1) / there.sum(axis=1)
    return means


def _spans(grid: Floats, begin: int, placebo: bool) -> tuple[Floats, Floats]:
    """Means before and after a quarter, which itself is in neither."""
    if placebo:
        half = begin // 2
        return _mean(grid[:, :half]), _mean(grid[:, half:begin])
    return _mean(grid[:, :begin]), _mean(grid[:, begin + 1 :])


def _effect(metric: str, grid: Floats, hosts: Hosts) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    sums = {"before": 0.0, "after": 0.0, "others_before": 0.0, "others_after": 0.0}
    total, draws, drawn, count, peers_seen = 0.0, np.zeros(DRAWS), np.zeros(DRAWS), 0, set[int]()
    placebo, placebos = 0.0, 0
    for own, others in hosts.strata:
        cohorts = np.unique(hosts.begin[own])
        again = rng.multinomial(len(others), np.full(len(others), 1 / len(others)), DRAWS)
        for cohort in cohorts.tolist():
            mine = own[hosts.begin[own] == cohort]
            before, after = _spans(grid, cohort, False)
            mine = mine[~np.isnan(after[mine] - before[mine])]
            there = ~np.isnan(after[others] - before[others])
            if not len(mine) or not there.any():
                continue
            peers, change = others[there], after - before
            weights = again[:, there]
            size = np.maximum(weights.sum(axis=1), 1)
            taken = rng.multinomial(len(mine), np.full(len(mine), 1 / len(mine)), DRAWS)
            draws += taken @ change[mine] - len(mine) * (weights @ change[peers]) / size
            drawn += len(mine)
            total += change[mine].sum() - len(mine) * change[peers].mean()
            count += len(mine)
            peers_seen.update(peers.tolist())
            sums["before"] += before[mine].sum()
            sums["after"] += after[mine].sum()
            sums["others_before"] += len(mine) * before[peers].mean()
            sums["others_after"] += len(mine) * after[peers].mean()
            early, late = _spans(grid, cohort, True)
            trend = late - early
            if not np.isnan(trend[mine]).any() and not np.isnan(trend[peers]).all():
                placebo += trend[mine].sum() - len(mine) * float(np.nanmean(trend[peers]))
                placebos += len(mine)
    row: dict[str, Any] = {"metric": metric, "acting": count, "others": len(peers_seen)}
    enough = min(count, len(peers_seen)) >= ENOUGH
    lo, hi = np.quantile(draws / np.maximum(drawn, 1), [0.025, 0.975])
    for name, value in sums.items():
        row[name] = value / count if count else None
    row["effect"] = total / count if count else None
    row["lo"], row["hi"] = (float(lo), float(hi)) if enough and count else (None, None)
    level: Optional[float] = row["before"]
    row["effect_share"] = row["effect"] / level if count and level else None
    row["placebo"] = placebo / placebos if placebos else None
    row["unit"] = "bytes" if metric.endswith("_bytes") else ""
    return row

"""What a simulated host does: sizes, idle bytes and returns of its cgroups over time.

A column is an array of intervals by cgroups. Sizes are multiples of a page, as the kernel's are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = 4096
MIB = 1 << 20
GIB = 1 << 30

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]
AGES = ("1m", "5m", "30m")
AGE_S = (60.0, 300.0, 1800.0)
EFFECT = 0.8
"""An acting host takes this share of what was idle for 30 minutes."""
ROLLOUT = 0.5
"""Acting begins after this share of the time."""


@dataclass(frozen=True)
class Service:
    """What the instances of a service have in common."""

    name: str
    kind: str
    namespace: str | None
    size: float
    idle: tuple[float, float, float]
    returns: tuple[float, float, float]
    """Share of the idle bytes that come back per hour."""
    request: float | None
    """Request as a multiple of the size; none outside of Kubernetes."""


def services(rng: np.random.Generator, count: int = 24) -> list[Service]:
    """Makes the services of a fleet: a third systemd units, two thirds workloads of Kubernetes."""
    made = []
    for i in range(count):
        unit = i % 3 == 0
        first = rng.uniform(0.15, 0.85)
        second = first * rng.uniform(0.6, 0.95)
        idle = (first, second, second * rng.uniform(0.5, 0.95))
        busy = float(np.exp(rng.uniform(np.log(0.002), np.log(3.0))))
        made.append(
            Service(
                name=f"{'unit' if unit else 'work'}-{i:02}",
                kind="service" if unit else "kubepods",
                namespace=None if unit else ("shop", "search")[i % 2],
                size=float(np.exp(rng.uniform(np.log(64 * MIB), np.log(2 * GIB)))),
                idle=idle,
                returns=(busy, busy * 0.3, busy * 0.05),
                request=None if unit else float(rng.uniform(0.7, 2.5)),
            )
        )
    return made


def pages(values: Floats) -> Ints:
    """Rounds bytes to whole pages."""
    return (values / PAGE).astype(np.int64) * PAGE


@dataclass
class Host:
    """One host's numbers."""

    name: str
    node_class: str
    acting: bool
    mem_total: int
    of: NDArray[np.int64]
    """Which service each cgroup is an instance of."""
    columns: dict[str, Ints]
    without: Ints
    """What ``current`` would be had the host not acted."""
    request: Ints
    limit: Ints


def host(
    rng: np.random.Generator, number: int, made: list[Service], cgroups: int, times: int
) -> Host:
    """Makes a host. ``times`` is the number of its intervals."""
    of = np.sort(rng.integers(0, len(made), cgroups))
    table = np.array([(s.size, *s.idle, *s.returns) for s in made])[of].T
    base = table[0] * np.exp(rng.normal(0, 0.2, cgroups))
    rhythm = 1 + 0.15 * np.sin(np.linspace(0, 2 * np.pi, times, endpoint=False))
    noise = 1 + 0.02 * rng.standard_normal((times, cgroups), dtype=np.float32)
    without = base * rhythm[:, None] * np.clip(noise, 0.8, 1.2)
    wobble = np.clip(1 + 0.02 * rng.standard_normal((times, cgroups), dtype=np.float32), 0.9, 1.1)
    idle = [np.minimum(table[1 + i] * wobble, 0.95) * without for i in range(3)]
    acting = bool(rng.random() < 0.3)
    taken = np.zeros_like(without)
    if acting:
        taken[int(times * ROLLOUT) :] = EFFECT * idle[2][int(times * ROLLOUT) :]
    columns = {"current": pages(without - taken), "paged_out": pages(taken * 0.02)}
    left = [np.maximum(each - taken, 0.0) for each in idle]
    for i, age in enumerate(AGES):
        columns[f"idle_{age}"] = pages(left[i])
        columns[f"idle_{age}_lo"] = pages(left[i] * 0.95)
        columns[f"idle_{age}_hi"] = pages(left[i] * 1.04)
        columns[f"returns_{age}"] = pages(idle[i] * table[4 + i] * (300.0 / 3600.0) * wobble)
    now = columns["current"].astype(np.float64)
    columns["anon"] = pages(now * 0.7)
    columns["file"] = columns["current"] - columns["anon"]
    columns["shared"] = pages(now * 0.03)
    columns["watched"] = pages(now * 0.9)
    columns["ws_1m"] = columns["current"] - columns["idle_1m"]
    columns["ws_10s"] = pages(columns["ws_1m"] * 0.8)
    columns["ws_1s"] = pages(columns["ws_1m"] * 0.5)
    columns["ws_100ms"] = pages(columns["ws_1m"] * 0.3)
    columns["psi_some_us"] = (np.abs(wobble - 1) * 1e5 + 100.0 * (taken > 0)).astype(np.int64)
    columns["refaults"] = columns["returns_30m"] // PAGE * (taken > 0)
    request = pages(np.array([made[s].size * (made[s].request or 0) for s in of]))
    total = float(without.sum(axis=1).max()) * 1.4
    size = 1 << int(np.ceil(np.log2(total)))
    return Host(
        name=f"node-{number:05}",
        node_class=f"c{size // GIB}",
        acting=acting,
        mem_total=size,
        of=of,
        columns=columns,
        without=pages(without),
        request=request,
        limit=pages(base * 1.6),
    )

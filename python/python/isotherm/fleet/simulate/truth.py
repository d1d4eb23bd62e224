"""What the questions should answer about a simulated fleet, added up host by host."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from isotherm.fleet.simulate import model
from isotherm.fleet.simulate.tables import FILES, file_size

LOST = ("truncated", "impossible", "future")
"""Faults with which a host's cgroups have to be left out."""

BARS = [f"idle_{age}{end}" for age in model.AGES for end in ("", "_lo", "_hi")]
RETURNS = [f"returns_{age}" for age in model.AGES]
HEADROOM = 1.15


class Truth:
    """Sums over hosts."""

    def __init__(self, made: list[model.Service]):
        self.made = made
        width = len(made)
        names = ["current", *BARS, *RETURNS, "cgroups", "hosts", "need", "request"]
        self.services = {name: np.zeros(width) for name in names}
        self.nodes: dict[str, float] = {}
        self.faults: dict[str, str] = {}
        self.effect: list[float] = []
        self.rows, self.bytes, self.waste = 0, 0, 0.0

    def add(self, host: model.Host, times: int, fault: str | None, size: int) -> None:
        """Counts a host of which so many intervals were written, in ``size`` bytes."""
        self.rows += times * len(host.of)
        self.bytes += size
        if fault:
            self.faults[host.name] = fault
        if fault != "old":
            self.waste += sum(k % 3 * (file_size(k) // 2) for k in range(FILES))
        if fault in LOST:
            return
        width = len(self.made)
        for name in ("current", *BARS, *RETURNS):
            values = host.columns[name][:times]
            if fault == "old" and name.endswith("_lo"):
                values = np.zeros_like(values)
            elif fault == "old" and name.endswith("_hi"):
                values = host.columns["current"][:times]
            means = values.mean(axis=0)
            if name in RETURNS:
                means = means / 5.0
            self.services[name] += np.bincount(host.of, means, width)
        self.nodes[host.name] = float(host.columns["idle_5m"][:times].sum(axis=1).mean())
        count = np.bincount(host.of, minlength=width)
        self.services["cgroups"] += count
        self.services["hosts"] += count > 0
        need = np.quantile(host.columns["ws_1m"][:times], 0.95, axis=0) * HEADROOM
        self.services["need"] += np.bincount(host.of, need, width)
        self.services["request"] += np.bincount(host.of, host.request.astype(float), width)
        half = int(host.columns["current"].shape[0] * model.ROLLOUT)
        if host.acting and times > half:
            took = host.without[half:times] - host.columns["current"][half:times]
            self.effect.append(float(took.sum(axis=1).mean()))


def joined(found: Sequence[Truth]) -> dict[str, Any]:
    """The answers of all hosts."""
    made = found[0].made
    services = {}
    for i, service in enumerate(made):
        name = service.name if service.namespace is None else f"{service.namespace}/{service.name}"
        values = {key: float(sum(t.services[key][i] for t in found)) for key in found[0].services}
        services[name] = {"class": service.kind, **values}
    effect = [value for t in found for value in t.effect]
    return {
        "services": services,
        "nodes": {name: value for t in found for name, value in t.nodes.items()},
        "faults": {name: fault for t in found for name, fault in t.faults.items()},
        "effect": {"hosts": len(effect), "mean": float(np.mean(effect)) if effect else None},
        "waste": sum(t.waste for t in found),
        "rows": sum(t.rows for t in found),
        "bytes": sum(t.bytes for t in found),
    }

"""Writes the simulated hosts as Parquet, makes some of them faulty, and adds up the truth."""

from __future__ import annotations

import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np

from isotherm.fleet.simulate import model, tables, truth

FAULTS = (
    "truncated",
    "duplicate",
    "impossible",
    "future",
    "offset",
    "late",
    "old",
    "copied",
)
"""Ways in which a host is faulty. Eight faulty hosts in a row have one each."""

INTERVAL_S = 300


@dataclass(frozen=True)
class Plan:
    """What is to be made."""

    root: str
    hosts: int
    cgroups: int
    days: float
    seed: int
    start: int
    """Seconds since 1970."""
    parts: int
    """Parts per host and day."""
    faults: float

    @property
    def times(self) -> int:
        return max(2, round(self.days * 86400 / INTERVAL_S))

    def fault(self, number: int) -> str | None:
        """The fault of this host. Faulty hosts are spread evenly."""
        if self.faults <= 0:
            return None
        before, after = int(number * self.faults), int((number + 1) * self.faults)
        return FAULTS[before % len(FAULTS)] if after > before else None


def simulate(
    root: str | os.PathLike[str],
    *,
    hosts: int = 100,
    cgroups: int = 50,
    days: float = 1.0,
    seed: int = 1,
    start: str = "2026-01-31",
    parts: int = 1,
    faults: float = 0.02,
    workers: int | None = None,
) -> dict[str, Any]:
    """Makes a fleet below ``root`` and returns the truth, which is also in ``answers.json`` there.

    :param parts: files per host, table and day, as if the site had merged what the agents closed.
    :param faults: share of the hosts that are faulty.
    :param workers: processes that write; one per CPU if not given.
    """
    day = datetime.fromisoformat(start).replace(tzinfo=timezone.utc)
    first = int(day.timestamp())
    plan = Plan(os.fspath(root), hosts, cgroups, days, seed, first, parts, faults)
    Path(plan.root).mkdir(parents=True, exist_ok=True)
    size = 50
    chunks = [(plan, i, min(i + size, hosts)) for i in range(0, hosts, size)]
    if len(chunks) == 1 or workers == 1:
        found = [_chunk(chunk) for chunk in chunks]
    else:
        with ProcessPoolExecutor(workers) as pool:
            found = list(pool.map(_chunk, chunks))
    end = day + timedelta(seconds=plan.times * INTERVAL_S + 60)
    answers = truth.joined(found)
    answers |= {
        "now": end.isoformat(),
        "hosts": hosts,
        "cgroups": cgroups,
        "hours": plan.times * INTERVAL_S / 3600,
        "seed": seed,
    }
    text = json.dumps(answers, indent=1, sort_keys=True)
    Path(plan.root, "answers.json").write_text(text + "\n")
    return answers


def _chunk(chunk: tuple[Plan, int, int]) -> truth.Truth:
    """Makes the hosts from ``first`` up to ``last``."""
    plan, first, last = chunk
    made = model.services(np.random.default_rng(plan.seed))
    known = truth.Truth(made)
    for number in range(first, last):
        rng = np.random.default_rng([plan.seed, number])
        host = model.host(rng, number, made, plan.cgroups, plan.times)
        fault = plan.fault(number)
        times = plan.times
        if fault == "late":
            times = max(1, times - 3 * 3600 // INTERVAL_S if times > 36 else times // 2)
        offset = {"future": 2 * 86400, "offset": 5400}.get(fault or "", 0)
        if fault == "impossible":
            host.columns["idle_1m"] = 3 * host.columns["current"] + (1 << 30)
        written = _write(plan, host, made, number, times, offset, fault)
        known.add(host, times, fault, sum(path.stat().st_size for path in written))
        _spoil(host, written, fault)
    return known


def _write(
    plan: Plan,
    host: model.Host,
    made: list[model.Service],
    number: int,
    times: int,
    offset: int,
    fault: str | None,
) -> list[Path]:
    """Writes a host's parts. Returns their paths."""
    build = tables.Builder(host, made, session=f"{plan.seed:08x}{number:08x}", old=fault == "old")
    ends = (plan.start + offset + INTERVAL_S * np.arange(1, times + 1)) * 1_000_000_000
    per_day = 86400 // INTERVAL_S
    step = max(1, per_day // plan.parts)
    known = offset * 1_000_000_000 if fault == "offset" else (None if offset else 0)
    paths = []
    for begin in range(0, times, step):
        part = slice(begin, min(begin + step, times))
        made_here = {
            "cgroups": build.cgroups(part, ends[part], INTERVAL_S),
            "sessions": build.sessions(part, ends[part], known, plan.times),
        }
        if part.stop == times and fault != "old":
            made_here["files"] = build.files(ends[part][-1])
        for table, rows in made_here.items():
            paths.append(tables.write(plan.root, table, host.name, rows, begin))
    return paths


def _spoil(host: model.Host, paths: list[Path], fault: str | None) -> None:
    """Damages what was written, in the way of this fault."""
    cgroups = [path for path in paths if "/cgroups/" in str(path)]
    if fault == "truncated":
        for path in cgroups:
            path.write_bytes(path.read_bytes()[: path.stat().st_size * 2 // 3])
    elif fault == "duplicate":
        for path in paths:
            shutil.copyfile(path, path.with_name(path.stem + "-again.parquet"))
    elif fault == "copied":
        for path in paths:
            other = path.parent.parent / (path.parent.name + "-copy") / path.name
            other.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, other)

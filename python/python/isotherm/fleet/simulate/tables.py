"""Arrow tables of a simulated host, with the types of docs/FLEET.md."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isotherm.fleet.schema import VERSION
from isotherm.fleet.simulate import model

LATER = ("idle_1m_lo", "idle_1m_hi", "idle_5m_lo", "idle_5m_hi", "idle_30m_lo", "idle_30m_hi")
"""Columns that an old agent does not write."""

FILES = 12
"""How many files each host maps. File ``k`` lies there in ``1 + k % 3`` copies."""


def file_size(k: int) -> int:
    """Bytes of a file."""
    return (k + 1) * model.MIB


class Builder:
    """Makes the tables of one host."""

    def __init__(self, host: model.Host, made: list[model.Service], session: str, old: bool):
        self.host, self.made, self.session, self.old = host, made, session, old
        self.paths, seen = [], dict[int, int]()
        for s in host.of.tolist():
            service, nth = made[s], seen.get(s, 0)
            seen[s] = nth + 1
            if service.kind == "service":
                self.paths.append(f"/system.slice/{service.name}@{nth}.service")
            else:
                pod = f"{service.name}-{host.name[5:]}-{nth}"
                self.paths.append(f"/kubepods.slice/{service.namespace}-{pod}/app")

    def cgroups(self, part: slice, ends: Any, interval_s: int) -> pa.Table:
        """The rows of the intervals that end at ``ends``, in the order of time."""
        host, (times, width) = self.host, (len(ends), len(self.paths))
        of = [self.made[s] for s in host.of.tolist()]
        acting = np.zeros(times, bool)
        if host.acting:
            half = int(host.columns["current"].shape[0] * model.ROLLOUT)
            acting = np.arange(part.start, part.start + times) >= half
        columns: dict[str, Any] = {
            "time": pa.array(np.repeat(ends, width), pa.timestamp("ns", "UTC")),
            "session": _same(self.session, times * width),
            "cgroup": _tiled(self.paths, times),
            "class": _tiled([s.kind for s in of], times),
            "service": _tiled([s.name for s in of], times),
            "namespace": _tiled([s.namespace for s in of], times),
            "interval_ns": _unsigned(np.full(times * width, interval_s * 1_000_000_000)),
            "age_ns": _unsigned(np.full(times * width, 30_000_000_000)),
            "coverage": pa.array(np.full(times * width, 0.96), pa.float32()),
            "limit": _unsigned(np.tile(host.limit, times)),
        }
        request = np.tile(host.request, times)
        columns["request"] = pa.array(request.astype(np.uint64), mask=request == 0)
        for name, values in host.columns.items():
            if not (self.old and name in LATER):
                columns[name] = _unsigned(values[part].ravel())
        policy = np.repeat(acting, width)
        names = pa.DictionaryArray.from_arrays(np.zeros(len(policy), np.int32), ["reclaim"])
        columns["policy"] = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(policy), np.int32), mask=~policy), names.dictionary
        )
        return pa.table(columns)

    def sessions(self, part: slice, ends: Any, offset: int | None, times: int) -> pa.Table:
        """A heartbeat for each interval. ``offset`` is the error of the clock where it is known."""
        host, n = self.host, len(ends)
        used = host.columns["current"][part].sum(axis=1)
        stalled = host.columns["psi_some_us"].sum(axis=1).cumsum()[part]
        acting = np.zeros(n, bool)
        if host.acting:
            acting = np.arange(part.start, part.start + n) >= int(times * model.ROLLOUT)
        return pa.table(
            {
                "time": pa.array(ends, pa.timestamp("ns", "UTC")),
                "session": _same(self.session, n),
                "started": pa.array(np.full(n, ends[0]), pa.timestamp("ns", "UTC")),
                "kernel": _same("6.12.0", n),
                "version": _same("0.1.0", n),
                "cpus": pa.array(np.full(n, 16), pa.uint32()),
                "mem_total": _unsigned(np.full(n, host.mem_total)),
                "mem_available": _unsigned(host.mem_total - used),
                "swap_total": _unsigned(np.full(n, host.mem_total // 4)),
                "swap_used": _unsigned(np.zeros(n)),
                "page_size": pa.array(np.full(n, model.PAGE), pa.uint32()),
                "node_class": _same(host.node_class, n),
                "clock_synced": pa.array(np.full(n, offset == 0)),
                "clock_offset_ns": pa.array([offset] * n, pa.int64()),
                "budget": pa.array(np.full(n, 0.01)),
                "own_cpu": pa.array(np.full(n, 0.006)),
                "own_rss": _unsigned(np.full(n, 20 * model.MIB)),
                "psi_some_us": _unsigned(stalled),
                "acting": pa.array(acting),
                "killed": pa.array(np.zeros(n, bool)),
                "canary": pa.array(np.zeros(n, bool)),
                "rows": _unsigned(np.arange(part.start + 1, part.start + n + 1) * len(self.paths)),
                "late_windows": _unsigned(np.zeros(n)),
            }
        )

    def files(self, end: int) -> pa.Table:
        """Files that cgroups map. Every copy is mapped by two cgroups, if there are so many."""
        rows = []
        for k in range(FILES):
            name = hashlib.sha256(f"file-{k}".encode()).hexdigest()[:16]
            for copy in range(1 + k % 3):
                for nth in range(min(2, len(self.paths))):
                    at = (k + copy + nth) % len(self.paths)
                    rows.append((self.paths[at], name, f"{copy}:{1000 + k}", file_size(k)))
        n = len(rows)
        size = np.array([row[3] for row in rows])
        return pa.table(
            {
                "time": pa.array(np.full(n, end), pa.timestamp("ns", "UTC")),
                "session": _same(self.session, n),
                "cgroup": [row[0] for row in rows],
                "file": [row[1] for row in rows],
                "dev_ino": [row[2] for row in rows],
                "size": _unsigned(size),
                "mapped": _unsigned(size),
                "resident": _unsigned(size // 2),
                "mappers": pa.array(np.full(n, 2), pa.uint32()),
                "idle_1m": _unsigned(size // 4),
                "idle_5m": _unsigned(size // 8),
                "idle_30m": pa.nulls(n, pa.uint64()),
            }
        )


def write(root: str, table: str, host: str, rows: pa.Table, sequence: int) -> Path:
    """Writes a part where the agents would. Returns its path."""
    start = rows["time"][0].value
    date = datetime.fromtimestamp(start / 1e9, timezone.utc).date()
    folder = Path(root, "isotherm", "v1", table, f"date={date}", f"host={host}")
    folder.mkdir(parents=True, exist_ok=True)
    meta = {"isotherm.schema": VERSION, "isotherm.table": table, "isotherm.version": "simulated"}
    path = folder / f"part-{start}-{sequence}.parquet"
    hidden = folder / f".{path.name}"
    pq.write_table(rows.replace_schema_metadata(meta), hidden, compression="lz4")
    hidden.rename(path)
    return path


def _unsigned(values: Any) -> pa.Array:
    return pa.array(np.asarray(values).astype(np.uint64))


def _same(value: str, n: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(np.zeros(n, np.int32), [value])


def _tiled(values: Sequence[str | None], times: int) -> pa.Array:
    """These values, once per interval."""
    coded = pa.array(values, pa.string()).dictionary_encode()
    indices = coded.indices.to_numpy(zero_copy_only=False)
    mask = np.isnan(indices) if indices.dtype.kind == "f" else None
    whole = np.tile(np.nan_to_num(indices).astype(np.int32), times)
    masked = None if mask is None else np.tile(mask, times)
    return pa.DictionaryArray.from_arrays(pa.array(whole, mask=masked), coded.dictionary)

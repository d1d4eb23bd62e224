"""How long it takes to make an Arrow table of a record: ``python bench.py RECORD``."""

from __future__ import annotations

import sys
import time

import pyarrow as pa

import isotherm

rec = isotherm.read(sys.argv[1])
spans = []
for _ in range(5):
    start = time.perf_counter()
    table = pa.table(rec.regions)
    spans.append(time.perf_counter() - start)
windows = pa.table(rec.snapshots).num_rows
print(
    f"regions of {windows} windows to an Arrow table: {table.num_rows} rows, "
    f"{table.nbytes / 2**20:.0f} MiB, {min(spans):.2f} s at best of {len(spans)} "
    f"({', '.join(f'{span:.2f}' for span in spans)})"
)

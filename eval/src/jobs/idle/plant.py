"""Memory of known use: plant.py IDLE HOT MAPPED UNMAPPED HUGE FILE, sizes in MiB, HUGE 0 or 1.

Writes all of it once, says "ready", and then touches every page of HOT over and over.
"""

import mmap
import os
import sys
import time

MIB = 1 << 20
idle, hot, mapped, unmapped, huge = (int(word) for word in sys.argv[1:6])


def area(mib):
    """Anonymous memory, all written."""
    if mib == 0:
        return None
    memory = mmap.mmap(-1, mib * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE if huge else mmap.MADV_NOHUGEPAGE)
    for at in range(0, mib * MIB, 4096):
        memory[at] = 1
    return memory


with open(sys.argv[6], "wb+") as file:
    for _ in range(mapped + unmapped):
        file.write(b"x" * MIB)
    file.flush()
    os.fsync(file.fileno())
    cache = mmap.mmap(file.fileno(), mapped * MIB, prot=mmap.PROT_READ) if mapped else None
    total = sum(cache[at] for at in range(0, mapped * MIB, 4096)) if cache else 0

cold, used = area(idle), area(hot)
print("ready", flush=True)
while True:
    for at in range(0, hot * MIB, 4096):
        used[at] = 2
    time.sleep(0.05)

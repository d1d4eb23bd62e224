"""Programs with big arrays: arrays.py NAME MIB."""

import sys

import numpy as np

from steps import once, serve, steps


def phases(mib, seconds):
    """A fixed amount of work, of about so many seconds: makes data, sums up all of it once, and then
    iterates over a working set of an eighth; at the end it looks at a thousandth of the rest."""
    n = mib * (1 << 20) // 8
    raw = np.empty(n * 7 // 8)
    raw[:] = np.round(np.sin(np.arange(raw.size) * 1e-3), 4)
    total = raw.sum()
    state = np.linspace(0, 1, n // 8)
    for _ in range(int(seconds * 6)):
        state *= 0.999
        state += 1e-3
        total += np.sqrt(state).sum()
    total += raw[:: raw.size // 1000].sum()
    assert np.isfinite(total)


def gather(mib):
    """Random reads over everything."""
    data = np.arange(2 * mib * (1 << 20) // 8)
    random = np.random.default_rng(1)

    def step():
        return data[random.integers(0, data.size, 100_000)].sum()

    return lambda seconds: steps(seconds, step)


def sparse(mib):
    """One page of 16 in use, one of 16 of these all the time."""
    data = np.zeros(2 * mib << 20, dtype=np.uint8)
    data[:: 16 * 4096] = 1
    hot = data[: data.size // 16 : 16 * 4096]

    def step():
        for _ in range(100):
            hot[:] += 1

    return lambda seconds: steps(seconds, step)


def sweeper(mib):
    """Goes over its memory in order, again and again, as a simulation goes over its cells: one line
    of each page, in three pages of five, and then much work on what it read. A page is hot for a
    moment in each round, and takes one walk of the page table in it."""
    pages = mib * 5 // 8 * 256
    data = np.empty(pages * 4096, dtype=np.uint8)
    cells = np.arange(pages)
    cells = cells[cells % 5 < 3]
    lines = cells * 4096 + cells * 7 % 64 * 64
    data[lines] = 1
    at = 0

    def step():
        nonlocal at
        block = lines[at : at + 300]
        at = (at + 300) % lines.size
        state = data[block] + 0.5
        for _ in range(600):
            state = np.sqrt(state) + 0.1
        data[block] = 1
        return state.sum()

    return lambda seconds: steps(seconds, step)


def main():
    name, mib = sys.argv[1], int(sys.argv[2])
    if name == "numpy":
        work = lambda seconds: once(lambda: phases(mib, seconds))
    else:
        work = {"gather": gather, "sparse": sparse, "sweeper": sweeper}[name](mib)
    serve(work)


main()

"""What the scripts share: a conversation by lines, and steps whose time is taken.

A script says "ready", then reads a number of seconds per line, works, and answers: units of work
per second, and where there are steps also the median and 99th percentile of a step in us.
"""

import sys
import time


def serve(work):
    """Answers with what `work` makes of so many seconds."""
    print("ready", flush=True)
    for line in sys.stdin:
        print(work(float(line)), flush=True)


def steps(seconds, step):
    """Steps for so many seconds."""
    begin = before = time.perf_counter()
    took = []
    while before < begin + seconds:
        step()
        now = time.perf_counter()
        took.append(now - before)
        before = now
    n = len(took)
    took.sort()
    p50, p99 = took[n // 2] * 1e6, took[n * 99 // 100] * 1e6
    return f"{n / (before - begin):.6f} {p50:.3f} {p99:.3f}"


def once(work):
    """A fixed amount of work; the inverse of its runtime."""
    begin = time.perf_counter()
    work()
    return f"{1 / (time.perf_counter() - begin):.6f}"

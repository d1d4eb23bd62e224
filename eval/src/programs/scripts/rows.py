"""A table in a SQLite file, with the cache of one connection over it: rows.py NAME MIB.

A step is a transaction: 16 rows of the newest tenth are read, and one of them is counted up. The
count of a row must be what was counted here.
"""

import os
import random
import sqlite3
import sys

from steps import serve, steps

# Bytes of a row with what SQLite adds.
ROW = 512
READS = 16
FIELD = '{"id":%d,"name":"%016x","state":"active","n":0},'

mib = int(sys.argv[2])
n = (mib << 20) // ROW
counts = {}
random.seed(1)


def row(key):
    """A row, and its text of about 470 bytes."""
    x = key * 0x9E3779B97F4A7C15 % (1 << 64) | 1
    return key, 0, "".join(FIELD % (key, x ^ i << 40) for i in range(8))


def fill():
    # Beside this script: the directory goes with the job.
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows.db")
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=OFF")
    db.execute(f"PRAGMA cache_size=-{2 * mib << 10}")
    db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, n INTEGER, text TEXT)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO rows VALUES (?, ?, ?)", map(row, range(n)))
    db.execute("COMMIT")
    # All of it is in the cache then.
    (total,) = db.execute("SELECT sum(length(text)) FROM rows").fetchone()
    assert total > n * 300, total
    return db


db = fill()
hot = n // 10


def step():
    db.execute("BEGIN")
    for _ in range(READS):
        # The cube of a uniform number prefers the front.
        key = n - hot + int(random.random() ** 3 * hot)
        count, text = db.execute("SELECT n, text FROM rows WHERE id = ?", (key,)).fetchone()
        assert count == counts.get(key, 0) and text.startswith('{"id":%d,' % key), (key, count)
    db.execute("UPDATE rows SET n = n + 1 WHERE id = ?", (key,))
    counts[key] = count + 1
    db.execute("COMMIT")


serve(lambda seconds: steps(seconds, step))

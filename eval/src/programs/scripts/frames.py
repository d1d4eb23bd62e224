"""A report over a table of orders, with pandas: frames.py NAME MIB.

A fixed amount of work of about so many seconds: makes the table and one of customers, sums up all
of it once, and then again and again the last eighth of the days, joined with the customers. Each
sum is compared with the sum of the column.
"""

import sys

import numpy as np
import pandas as pd

from steps import once, serve

DAYS = 240
# Reports per second over the last days of a full table.
RATE = 0.9


def tables(mib):
    """Five columns of 8 bytes by day, and customers with names."""
    random = np.random.default_rng(1)
    n = mib * (1 << 20) // 40
    orders = pd.DataFrame({
        "day": np.sort(random.integers(0, DAYS, n)),
        "customer": random.zipf(1.3, n) % (n // 20),
        "product": random.integers(0, 1000, n),
        "price": np.round(random.gamma(2.0, 20.0, n), 2),
        "number": random.integers(1, 9, n),
    })
    ids = np.arange(n // 20)
    names = [f"customer {i:08}" for i in ids]
    customers = pd.DataFrame({"customer": ids, "name": names, "region": ids % 17})
    return orders, customers


def report(orders, customers, first):
    """Sales per region and product since a day."""
    recent = orders.iloc[np.searchsorted(orders["day"].values, first):]
    sales = (recent["price"] * recent["number"]).rename("sales")
    per_customer = sales.groupby(recent["customer"]).sum().reset_index()
    joined = per_customer.merge(customers, on="customer", how="inner")
    per_region = joined.groupby("region")["sales"].sum()
    per_product = sales.groupby(recent["product"]).sum().sort_values()
    total = sales.sum()
    for parts in (per_region.sum(), per_product.sum()):
        assert abs(parts - total) < 1e-9 * total, (parts, total)
    return total


def work(mib, seconds):
    orders, customers = tables(mib)
    report(orders, customers, 0)
    totals = {report(orders, customers, DAYS * 7 // 8) for _ in range(max(1, int(seconds * RATE)))}
    assert len(totals) == 1, totals


mib = int(sys.argv[2])
serve(lambda seconds: once(lambda: work(mib, seconds)))

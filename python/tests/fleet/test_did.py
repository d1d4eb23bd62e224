"""The statistics of a rollout, on made-up hosts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from isotherm.fleet.questions.did import effects


def fleet(
    effect: float, treated: int = 30, others: int = 60, begin: int = 20, seed: int = 1
) -> Any:
    """Hosts whose memory has a common rhythm, own level and noise."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {n: [] for n in ("host", "bucket", "node_class", "acting", "used")}
    for i in range(treated + others):
        level, acts = rng.normal(100, 20), i < treated
        start = begin + i % 3
        for bucket in range(48):
            on = acts and bucket >= start
            value = level + 15 * np.sin(bucket / 48 * 6.28) + rng.normal(0, 2) + effect * on
            rows["host"].append(f"h{i}")
            rows["bucket"].append(bucket)
            rows["node_class"].append("big")
            rows["acting"].append(int(on))
            rows["used"].append(value)
    return pa.table(rows)


def test_a_known_effect_is_in_the_interval() -> None:
    inside = 0
    for seed in range(20):
        (row,) = effects(fleet(-10, seed=seed), ["used"]).rows
        inside += row["lo"] <= -10 <= row["hi"]
        assert row["acting"] == 30 and row["others"] == 60
    assert inside >= 16


def test_no_effect_is_not_found_in_a_rhythm() -> None:
    wrong = 0
    for seed in range(20):
        (row,) = effects(fleet(0, seed=seed), ["used"]).rows
        wrong += not row["lo"] <= 0 <= row["hi"]
    assert wrong <= 4


def test_few_hosts_have_no_interval() -> None:
    (row,) = effects(fleet(-10, treated=2, others=5), ["used"]).rows
    assert row["lo"] is None and row["effect"] is not None


def test_nobody_to_compare_with() -> None:
    result = effects(fleet(-10, others=0), ["used"])
    assert result.rows == [] and "30 have no peers" in result.note


def test_hosts_that_always_acted_are_counted() -> None:
    result = effects(fleet(-10, begin=0), ["used"])
    assert "10 acted from their first row on" in result.note


def test_missing_quarters_and_other_classes() -> None:
    table = fleet(-10)
    keep = np.random.default_rng(3).random(table.num_rows) > 0.3
    (row,) = effects(table.filter(pa.array(keep)), ["used"]).rows
    assert row["lo"] <= row["effect"] <= row["hi"] and abs(row["effect"] + 10) < 3

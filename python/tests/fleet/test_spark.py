"""DuckDB and Spark give the same answers to every question, from the same code."""

from __future__ import annotations

import math
import os
import shutil
from datetime import datetime
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (pip install 'isotherm[spark]')")
if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
    pytest.skip("there is no Java virtual machine for Spark", allow_module_level=True)

from isotherm.fleet.fleet import Fleet, Options  # noqa: E402
from isotherm.fleet.questions import QUESTIONS  # noqa: E402

# Compiling each query costs more than running it, over so few rows.
QUICK = "--conf spark.sql.codegen.wholeStage=false --conf spark.sql.codegen.factoryMode=NO_CODEGEN"


@pytest.fixture(scope="module")
def both(faulty: Any) -> Any:
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f"{QUICK} pyspark-shell")
    now = datetime.fromisoformat(faulty[1]["now"])
    options = Options(price=2.5)
    with Fleet(faulty[0], "duckdb", None, now, options) as duck:
        with Fleet(faulty[0], "spark", None, now, options) as spark:
            yield duck, spark


@pytest.mark.parametrize("question", list(QUESTIONS))
def test_same_answers(question: str, both: Any) -> None:
    duck, spark = (fleet.ask(QUESTIONS[question]) for fleet in both)
    assert [a.name for a in duck] == [a.name for a in spark]
    for one, other in zip(duck, spark):
        assert one.rows.column_names == other.rows.column_names
        assert one.rows.num_rows == other.rows.num_rows > 0, one.name
        for ours, theirs in zip(_sorted(one), _sorted(other)):
            for name, value in ours.items():
                assert _same(value, theirs[name]), (one.name, name, ours, theirs)
        assert one.texts == other.texts


def _sorted(answer: Any) -> list[dict[str, Any]]:
    """The rows by their words, since sizes that are equal but for rounding may be in any order."""
    rows: list[dict[str, Any]] = answer.rows.to_pylist()
    words = [n for n, v in rows[0].items() if isinstance(v, str)] + ["age_s"]
    return sorted(rows, key=lambda row: tuple(str(row.get(name)) for name in words))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def test_explain_is_of_the_engine(both: Any) -> None:
    from isotherm.fleet.cli import explained

    duck, spark = both
    for fleet, mark in ((duck, "READ_PARQUET"), (spark, "TEMPORARY VIEW")):
        text = explained(fleet, ["idle", "sizing"])
        fleet.explained = False
        assert mark in text and "Idle memory by service" in text
    assert "PERCENTILE(" in explained(spark, ["sizing"]).upper()
    spark.explained = False


def test_broken_rows_are_left_out(both: Any, damaged: Any, opened: Any) -> None:
    part = sorted(damaged[0].glob("isotherm/v1/cgroups/*/*/*.parquet"))[0]
    text = bytearray(part.read_bytes())
    text[4 : len(text) // 2] = b"\xff" * (len(text) // 2 - 4)
    part.write_bytes(bytes(text))
    duck, spark = opened(damaged), opened(damaged, "spark")
    for fleet in (duck, spark):
        (problem,) = fleet.problems.found
        assert problem.kind == "truncated" and part.name in problem.where
    ours, theirs = (fleet.ask(QUESTIONS["idle"])[1].rows.to_pylist() for fleet in (duck, spark))
    assert all(_same(row[name], other[name]) for row, other in zip(ours, theirs) for name in row)
    # The other fleet in the same session still answers from its own data.
    other = both[1].ask(QUESTIONS["idle"])[1].rows.to_pylist()
    assert other[0]["current_bytes"] != theirs[0]["current_bytes"]

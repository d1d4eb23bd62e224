"""The command: output, files, and what it says when something is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from isotherm.fleet.cli import main


def test_report_page_parquet_and_policies(sound: Any, tmp_path: Path, capsys: Any) -> None:
    page, tables, policies = tmp_path / "f.html", tmp_path / "t", tmp_path / "p"
    words = ["report", str(sound[0]), "--now", sound[1]["now"], "--price", "3", "--html", str(page)]
    assert main([*words, "--parquet", str(tables), "--policies", str(policies), "--rows", "3"]) == 0
    out = capsys.readouterr().out
    for title in ("Idle memory by service", "Effect of acting", "Recommended policy"):
        assert title in out
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "http" not in text
    assert text.count("<section") == text.count("</section>") == len(list(tables.iterdir()))
    rows = pq.read_table(tables / "idle_by_service.parquet")
    assert rows.num_rows > 3 and "idle_5m_bytes" in rows.column_names
    toml = pytest.importorskip("tomllib", reason="Python is older than 3.11")
    policy = toml.loads((policies / "shop_work-08.toml").read_text())["context"][0]
    assert policy["targets"] == [{"pod": "shop/work-08-*"}]
    assert policy["scheme"][0]["action"] == "pageout"
    program = os.environ.get("ISOTHERM")
    for path in sorted(policies.iterdir())[:3] if program else []:
        done = subprocess.run(
            [program, "run", path, "--check", "--dry-run"], capture_output=True, text=True
        )
        # 3: this machine lacks what the policy needs, as swap. 2 would be a wrong policy.
        assert done.returncode in (0, 3), done.stderr


@pytest.mark.parametrize("engine", ["duckdb"])
def test_explain_prints_sql_that_runs(engine: str, sound: Any, capsys: Any) -> None:
    import duckdb

    assert main(["report", str(sound[0]), "--explain", "--now", sound[1]["now"]]) == 0
    sql = capsys.readouterr().out
    assert "more */" in sql and "CREATE OR REPLACE VIEW cgroups" in sql
    whole = re.sub(
        r"'([^']*/isotherm/v1/)(\w+)/[^']*' /\* and \d+ more \*/", r"'\1\2/*/*/*.parquet'", sql
    )
    con = duckdb.connect()
    ran = 0
    for statement in duckdb.extract_statements(whole):
        con.execute(statement.query)
        ran += 1
    assert ran > 12


def test_since_and_now(sound: Any, capsys: Any) -> None:
    words = ["report", str(sound[0]), "--question", "idle", "--now", sound[1]["now"]]
    assert main([*words, "--since", "2h"]) == 0
    assert main([*words, "--since", "yesterday"]) == 2
    assert "yesterday is no time" in capsys.readouterr().err


def test_strict_and_hostile_names(faulty: Any, capsys: Any) -> None:
    words = ["report", str(faulty[0]), "--question", "data", "--now", faulty[1]["now"]]
    assert main([*words, "--strict"]) == 6
    assert "truncated" in capsys.readouterr().out


def test_a_folder_without_data(tmp_path: Path, capsys: Any) -> None:
    assert main(["report", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "error: " in err and "hint:" in err


def test_a_fleet_of_which_nothing_can_be_used(sound: Any, tmp_path: Path, capsys: Any) -> None:
    root = tmp_path / "fleet"
    shutil.copytree(sound[0], root)
    for part in root.rglob("*.parquet"):
        os.truncate(part, 100)
    assert main(["report", str(root)]) == 2
    said = capsys.readouterr()
    assert said.out == "" and "nothing in it that can be used" in said.err
    assert "no usable footer" in said.err and "more" in said.err and "--question data" in said.err
    # Who asks what is wrong gets an answer.
    assert main(["report", str(root), "--question", "data", "--rows", "0"]) == 0
    assert "truncated" in capsys.readouterr().out
    empty = tmp_path / "empty" / "isotherm" / "v1" / "cgroups" / "date=2026-01-31" / "host=a"
    empty.mkdir(parents=True)
    assert main(["report", str(tmp_path / "empty")]) == 2
    assert "there are no parts" in capsys.readouterr().err
    # A clock that is wrong on every host leaves none.
    assert main(["report", str(sound[0]), "--now", "2025-01-01"]) == 2
    assert "left out" in capsys.readouterr().err


def test_too_little_memory_is_told_and_what_to_do(sound: Any, capsys: Any) -> None:
    words = ["report", str(sound[0]), "--question", "sizing", "--memory"]
    assert main([*words, "2MB"]) == 3
    said = capsys.readouterr().err
    assert "not enough memory" in said and "--memory 8GB" in said
    assert main([*words, "1G"]) == 0
    for wrong in ("much", "0GB", "8"):
        with pytest.raises(SystemExit):
            main([*words, wrong])
        assert "no amount of memory" in capsys.readouterr().err
    # It would be ignored there.
    assert main([*words, "8gb", "--engine", "spark"]) == 2
    assert "SPARK_MEMORY" in capsys.readouterr().err


def test_without_spark_it_says_how_to_get_it(sound: Any) -> None:
    code = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "sys.modules['pyspark.sql'] = None\n"
        "from isotherm.fleet.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = ["report", str(sound[0]), "--engine", "spark"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 3
    assert "engine spark is not installed" in done.stderr and "--engine duckdb" in done.stderr


def test_without_java_it_says_so(sound: Any) -> None:
    pytest.importorskip("pyspark")
    env = {key: value for key, value in os.environ.items() if key != "JAVA_HOME"}
    env["PATH"] = "/nonexistent"
    words = [sys.executable, "-m", "isotherm.fleet", "report", str(sound[0]), "--engine", "spark"]
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 3 and "Java virtual machine" in done.stderr


def test_without_ibis_it_says_how_to_get_it(sound: Any) -> None:
    code = (
        "import sys\n"
        "sys.modules['ibis'] = None\n"
        "from isotherm.fleet.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    words = [sys.executable, "-c", code, "report", str(sound[0])]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 3 and "pip install" in done.stderr


def test_the_same_seed_makes_the_same_fleet(tmp_path: Path, capsys: Any) -> None:
    for name in ("a", "b"):
        words = [
            "simulate",
            str(tmp_path / name),
            "--hosts",
            "3",
            "--cgroups",
            "4",
            "--days",
            "0.05",
        ]
        assert main([*words, "--seed", "9"]) == 0
    files = [
        sorted(p.relative_to(tmp_path / n) for p in (tmp_path / n).rglob("*.parquet")) for n in "ab"
    ]
    assert files[0] == files[1] and files[0]
    for name in files[0]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()

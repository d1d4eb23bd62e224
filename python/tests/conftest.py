"""Records for the tests, made by the program (ISOTHERM names it) over simulated workloads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def run(*args: str, cwd: Path) -> None:
    subprocess.run([os.environ["ISOTHERM"], *args], cwd=cwd, check=True, capture_output=True)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds ``isotherm.data``, a record of the method census, and what the program exports of it."""
    folder = tmp_path_factory.mktemp("records")
    run("sim", "stairs", "--scale", "8s", "-q", cwd=folder)
    for table in ["snapshots", "regions", "pages", "mappings", "events"]:
        run("export", "--table", table, "-o", f"{table}.parquet", cwd=folder)
    run("export", "-o", "damon.data", cwd=folder)
    return folder

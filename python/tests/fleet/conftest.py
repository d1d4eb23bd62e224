"""Simulated fleets. Each is made once, small, and copied where a test damages it."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any, Callable

import pytest

pytest.importorskip("ibis", reason="Ibis is not installed")

from isotherm.fleet.fleet import Fleet, Options  # noqa: E402
from isotherm.fleet.simulate import simulate  # noqa: E402

Made = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """24 hosts without a fault, six hours, four parts a day."""
    root = tmp_path_factory.mktemp("sound")
    return root, simulate(root, hosts=24, cgroups=8, days=0.25, faults=0, parts=12, workers=1)


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """16 hosts, half of which have each of the faults once."""
    root = tmp_path_factory.mktemp("faulty")
    return root, simulate(root, hosts=16, cgroups=8, days=0.25, faults=0.5, workers=1)


@pytest.fixture
def damaged(sound: Made, tmp_path: Path) -> Made:
    """A copy of the sound fleet to damage."""
    root = tmp_path / "fleet"
    shutil.copytree(sound[0], root)
    return root, sound[1]


@pytest.fixture
def opened() -> Any:
    """Opens fleets and closes them after the test."""
    fleets = []

    def opener(made: Made, engine: str = "duckdb", **options: Any) -> Fleet:
        since = options.pop("since", None)
        now = options.pop("now", None) or datetime.fromisoformat(made[1]["now"])
        fleets.append(Fleet(made[0], engine, since, now, Options(**options)))
        return fleets[-1]

    yield opener
    for fleet in fleets:
        fleet.close()


Opener = Callable[..., Fleet]

"""Live snapshots."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Iterator

import pyarrow as pa
import pytest

import isotherm


@pytest.fixture
def sleeper() -> Iterator[int]:
    """The pid of a process that sleeps. A monitor refuses to look at itself."""
    process = subprocess.Popen(["sleep", "600"])
    yield process.pid
    process.kill()
    process.wait()


def test_a_simulation() -> None:
    with isotherm.Monitor(sim="stairs", duration=3.0) as monitor:
        assert monitor.ops == "sim"
        snapshots = list(monitor)
    # A simulation waits for this loop, so no window is dropped.
    assert [snapshot.number for snapshot in snapshots] == list(range(len(snapshots)))
    assert len(snapshots) >= 29 and monitor.lost == 0
    last = snapshots[-1]
    assert last.window == pytest.approx(0.1, rel=0.5)
    assert 0 < last.working_set.size <= last.working_set.mapped
    assert last.working_set.low <= last.working_set.size <= last.working_set.high
    assert [target.name for target in last.targets] == ["workload"]
    regions = pa.table(last.regions)
    assert sum(regions["end"].to_pylist()) > sum(regions["start"].to_pylist())
    assert set(regions["target"].to_pylist()) == {"workload"}
    assert all(name is not None for name in regions["mapping"].to_pylist())


def test_census_tells_spans() -> None:
    with isotherm.Monitor(sim="stairs", duration=5.0, method="census") as monitor:
        last = list(monitor)[-1]
    assert sorted(last.touched_within)[:3] == pytest.approx([0.005, 0.1, 1.0])
    assert last.touched_within[1.0].size > 1 << 20


def test_a_process(tmp_path: Path) -> None:
    """smaps works wherever a process may look at its own children."""
    target = subprocess.Popen([sys.executable, "-c", "import time\nwhile True: time.sleep(0.01)"])
    try:
        with isotherm.Monitor(target.pid, ops="smaps", record=tmp_path / "r") as monitor:
            first, second = next(monitor), next(monitor)
            assert first.targets[0].pid == target.pid
            assert second.end > first.end
            assert first.working_set.mapped > 1 << 20
    finally:
        target.kill()
        target.wait()
    assert pa.table(isotherm.read(tmp_path / "r").snapshots).num_rows >= 2


def test_the_loop_ends_with_the_last_target() -> None:
    with isotherm.Monitor(command=["sleep", "3"], ops="smaps") as monitor:
        assert len(list(monitor)) >= 1


def test_wrong_arguments() -> None:
    with pytest.raises(isotherm.InvalidError, match="nothing to watch"):
        isotherm.Monitor()
    with pytest.raises(isotherm.InvalidError, match="too much to watch"):
        isotherm.Monitor(os.getpid(), sim="stairs")
    with pytest.raises(isotherm.GoneError) as gone:
        isotherm.Monitor(2**22 + 1, ops="smaps")
    assert isinstance(gone.value, ProcessLookupError)
    with pytest.raises(ValueError, match="pagewalk, idle"):
        isotherm.Monitor(os.getpid(), ops="magic")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a process id"):
        isotherm.Monitor("me")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="budget"):
        isotherm.Monitor(sim="stairs", budget=7)
    with pytest.raises(isotherm.InvalidError):
        isotherm.Monitor(sim="stairs", sample=1.0, aggregation=0.1)


def test_other_threads_run_while_one_waits(sleeper: int) -> None:
    """Python's lock is not held while a thread waits for a window."""
    with isotherm.Monitor(sleeper, ops="smaps", aggregation=1.0) as monitor:
        got: list[isotherm.Snapshot] = []
        waiting = threading.Thread(target=lambda: got.append(next(monitor)))
        waiting.start()
        turns = 0
        while waiting.is_alive():
            turns += 1
            time.sleep(0.001)
        waiting.join()
    assert got and turns > 20


def test_ctrl_c_interrupts_a_loop(sleeper: int) -> None:
    code = (
        "import isotherm\n"
        "try:\n"
        f"    monitor = isotherm.Monitor({sleeper}, ops='smaps', aggregation=60.0, sample=1.0)\n"
        "    for snapshot in monitor:\n"
        "        pass\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    ready = "import sys; print('ready', flush=True)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", ready + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        # The signal may come before the loop waits; then it is sent again.
        for _ in range(100):
            time.sleep(0.2)
            if child.poll() is not None:
                break
            # Not before the package is imported, or the import is interrupted.
            maps = Path(f"/proc/{child.pid}/maps").read_text()
            threads = len(os.listdir(f"/proc/{child.pid}/task"))
            if "_isotherm" in maps and threads > 1:
                child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
    assert out == "interrupted\n", err

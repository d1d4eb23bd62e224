"""Measures the fleet questions: time and memory of DuckDB, growth of Spark, and whether they are
right.

    python bench_fleet.py [--hosts 1000] [--dir DIR] [--engine duckdb|spark] [--scale 1,10]

A simulated fleet is made below ``--dir`` unless it is there. Each question runs in a process of its
own, so its time includes reading the footers and the audit, and its largest memory is its own
(``ru_maxrss``). Answers are compared with the truth of the simulation. Exits with 1 if one is wrong
or, with ``--check``, if a question takes more than 60 s or 4 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

QUESTIONS = ("idle", "savings", "sizing", "sharing", "data", "rollout", "policies")


def made(root: Path, hosts: int, days: float) -> dict[str, Any]:
    """The truth of a fleet of so many hosts, made now if it is not there."""
    from isotherm.fleet.simulate import simulate

    answers = root / "answers.json"
    if not answers.exists():
        begin = time.monotonic()
        simulate(root, hosts=hosts, days=days, seed=7)
        print(f"made {hosts} hosts in {time.monotonic() - begin:.0f} s", flush=True)
    truth: dict[str, Any] = json.loads(answers.read_text())
    per_hour = truth["bytes"] / truth["hosts"] / truth["hours"]
    print(
        f"{truth['hosts']} hosts: {truth['rows']:,} rows of cgroups, {truth['bytes'] / 1e9:.2f} GB, "
        f"{per_hour / 1e3:.0f} kB per host and hour, {truth['bytes'] / truth['rows']:.0f} bytes per row",
        flush=True,
    )
    return truth


def child(root: Path, engine: str, question: str) -> dict[str, Any]:
    """Asks one question in a process of its own."""
    words = [sys.executable, __file__, "--child", engine, question, "--dir", str(root)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{question}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def asked(root: Path, engine: str, question: str) -> dict[str, Any]:
    """Asks a question here, and says what it cost and whether it is right."""
    from datetime import datetime

    from isotherm.fleet.fleet import Fleet, Options
    from isotherm.fleet.questions import QUESTIONS as known

    truth = json.loads((root / "answers.json").read_text())
    begin = time.monotonic()
    with Fleet(
        root, engine, now=datetime.fromisoformat(truth["now"]), options=Options(price=3)
    ) as fleet:
        begun = time.monotonic()
        answers = {answer.name: answer.rows for answer in fleet.ask(known[question])}
        end = time.monotonic()
        wrong = compared(answers, truth, {p.where for p in fleet.problems.found})
        java_s, java_kb = java(fleet) if engine == "spark" else (0.0, 0)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "begin_s": begun - begin,
        "question_s": end - begun,
        "cpu_s": usage.ru_utime + usage.ru_stime + java_s,
        "rss_kb": usage.ru_maxrss + java_kb,
        "wrong": wrong,
    }


def java(fleet: Any) -> tuple[float, int]:
    """CPU seconds and largest memory, in kB, of a local Spark."""
    pid = fleet.engine.session.sparkContext._gateway.proc.pid
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    most = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK"), int(most)


def compared(answers: dict[str, Any], truth: dict[str, Any], accused: set[str]) -> list[str]:
    """What differs from the truth."""
    wrong = []

    def check(name: str, value: float, known: float, near: float = 1e-6) -> None:
        if abs(value - known) > near * max(abs(known), 1.0):
            wrong.append(f"{name}: {value} instead of {known}")

    services = truth["services"]
    if "idle_by_service" in answers:
        for row in answers["idle_by_service"].to_pylist():
            for age in ("1m", "5m", "30m"):
                known = services[row["service"]][f"idle_{age}"]
                check(f"{row['service']} idle {age}", row[f"idle_{age}_bytes"], known)
    if "curves" in answers:
        for row in answers["curves"].to_pylist():
            age = {60: "1m", 300: "5m", 1800: "30m"}[row["age_s"]]
            back = row["back_bytes_per_min"] * row["seen_share"]
            check(f"{row['service']} back {age}", back, services[row["service"]][f"returns_{age}"])
    if "sizing" in answers:
        for row in answers["sizing"].to_pylist():
            check(f"{row['service']} need", row["need_bytes"], services[row["service"]]["need"])
    if "rollout" in answers:
        row = answers["rollout"].to_pylist()[0]
        if not row["lo"] <= -truth["effect"]["mean"] <= row["hi"]:
            wrong.append(f"effect: [{row['lo']} .. {row['hi']}], truth {-truth['effect']['mean']}")
    for host, fault in truth["faults"].items():
        if fault != "late" and not any(host in where or "more" in where for where in accused):
            wrong.append(f"{host} is {fault}, and nobody says so")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--dir", type=Path, default=Path("fleet-bench"))
    parser.add_argument("--engine", default="duckdb", choices=["duckdb", "spark"])
    parser.add_argument("--scale", default="1", help="factors of --hosts, as 1,10")
    parser.add_argument("--questions", default=",".join(QUESTIONS))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(asked(args.dir, *args.child)))
        return 0
    failed = False
    for factor in (int(word) for word in args.scale.split(",")):
        root = args.dir / f"f{args.hosts * factor}"
        truth = made(root, args.hosts * factor, args.days)
        for question in args.questions.split(","):
            cost = child(root, args.engine, question)
            whole, gb = cost["begin_s"] + cost["question_s"], cost["rss_kb"] / 1e6
            failed |= bool(cost["wrong"]) or args.check and (whole > 60 or gb > 4)
            print(
                f"{args.engine} {truth['hosts']} hosts {question}: {whole:.1f} s "
                f"(footers and audit {cost['begin_s']:.1f}), CPU {cost['cpu_s']:.1f} s, {gb:.2f} GB, "
                f"{'right' if not cost['wrong'] else 'WRONG: ' + '; '.join(cost['wrong'][:3])}",
                flush=True,
            )
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""``isotherm-fleet``: reports over a fleet, simulated fleets, and merging the parts of a day.

Exit codes are those of ``isotherm``: 0 done, 1 unexpected, 2 usage or bad input, 3 not supported
(an engine or a package is missing), 6 partial (``--strict`` and the data has problems).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Optional, Sequence

from isotherm._errors import Error, InvalidError, MissingError, NotSupportedError

USAGE, NOT_SUPPORTED, PARTIAL = 2, 3, 6
NAMES = ("idle", "savings", "sizing", "sharing", "data", "rollout", "policies")

EXAMPLES = """\
examples:
  isotherm-fleet report /srv/fleet                            all questions, as text
  isotherm-fleet report /srv/fleet --question idle --since 7d
  isotherm-fleet report /srv/fleet --html fleet.html --price 3.50
  isotherm-fleet report /srv/fleet --question policies --policies ./policies
  isotherm-fleet report /srv/fleet --engine spark --explain   the SQL, without asking
  isotherm-fleet simulate ./fleet --hosts 200                 a fleet to try it on
  isotherm-fleet compact /srv/fleet                           one file per table, day and host

docs/FLEET-QUESTIONS.md says what each question means and how it is answered.
"""


def parser(program: str) -> argparse.ArgumentParser:
    """The arguments."""
    top = argparse.ArgumentParser(
        prog=program,
        description="Asks a fleet: what is idle, who would save most, what a rollout did.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="answer questions about a fleet")
    report.add_argument("dir", metavar="DIR", help="the folder that has isotherm/v1 in it")
    report.add_argument("--engine", choices=["duckdb", "spark"], default="duckdb")
    report.add_argument(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="what duckdb may use (default 3GB); what needs more goes to a file, if it can",
    )
    report.add_argument(
        "--question", action="append", choices=NAMES, help="only this one; may be repeated"
    )
    report.add_argument(
        "--since", metavar="TIME", help="only rows from then on: 7d, 12h, 2026-01-31"
    )
    report.add_argument("--now", metavar="TIME", help="take this for now, as 2026-01-31T12:00")
    report.add_argument(
        "--rows", type=int, default=20, help="rows per table; 0 for all (default 20)"
    )
    limits = report.add_argument_group("limits and prices")
    limits.add_argument("--price", type=_amount, help="money per GiB and month, for sizing")
    limits.add_argument(
        "--max-slowdown", type=_share, default=0.01, metavar="SHARE", help="default 1%%"
    )
    limits.add_argument(
        "--max-refaults",
        type=_share,
        default=0.002,
        metavar="SHARE",
        help="share of the memory that may come back per minute, default 0.2%%",
    )
    limits.add_argument(
        "--refault-cost", type=_amount, default=20.0, metavar="US", help="us per page, default 20"
    )
    limits.add_argument(
        "--headroom", type=_share, default=0.15, metavar="SHARE", help="for sizing, default 15%%"
    )
    output = report.add_argument_group("output")
    output.add_argument("--html", metavar="FILE", help="write one page for a browser")
    output.add_argument("--parquet", metavar="DIR", help="write a file per table")
    output.add_argument("--policies", metavar="DIR", help="write the recommended policies")
    output.add_argument("--explain", action="store_true", help="print the SQL and answer nothing")
    output.add_argument(
        "--strict", action="store_true", help=f"exit with {PARTIAL} if the data has problems"
    )
    make = commands.add_parser("simulate", help="make a fleet whose answers are known")
    make.add_argument("dir", metavar="DIR")
    make.add_argument("--hosts", type=int, default=100)
    make.add_argument("--cgroups", type=int, default=50, help="per host (default 50)")
    make.add_argument("--days", type=float, default=1.0)
    make.add_argument("--seed", type=int, default=1)
    make.add_argument("--start", default="2026-01-31", help="first day (default 2026-01-31)")
    make.add_argument(
        "--parts", type=int, default=1, help="files per host, table and day (default 1)"
    )
    make.add_argument(
        "--faults", type=_share, default=0.02, help="share of faulty hosts (default 2%%)"
    )
    merge = commands.add_parser("compact", help="merge the parts of a day: one file per host")
    merge.add_argument("dir", metavar="DIR", help="the folder that has isotherm/v1 in it")
    merge.add_argument(
        "--into",
        metavar="DIR",
        help="write the merged files there, and leave the parts as they are; for a folder that "
        "parts are copied to again and again",
    )
    merge.add_argument(
        "--before",
        type=_day,
        metavar="DATE",
        help="only days before this one, by UTC (default: that of two hours ago)",
    )
    merge.add_argument(
        "--strict", action="store_true", help=f"exit with {PARTIAL} if a file had to be left out"
    )
    return top


def main(words: Optional[Sequence[str]] = None, program: str = "isotherm-fleet") -> int:
    """Runs it. Returns the exit code."""
    program = os.environ.get("ISOTHERM_FLEET_NAME", program)
    args = parser(program).parse_args(words)
    try:
        commands = {"report": _report, "simulate": _simulate, "compact": _compact}
        return commands[args.command](args)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        if isinstance(error, NotSupportedError):
            return NOT_SUPPORTED
        return USAGE if isinstance(error, (InvalidError, MissingError)) else 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def _report(args: argparse.Namespace) -> int:
    from isotherm.fleet.engine import MEMORY, open_engine
    from isotherm.fleet.fleet import Fleet, Options
    from isotherm.fleet.questions import QUESTIONS
    from isotherm.fleet.show import to_html, to_text

    now = _time(args.now, None) if args.now else datetime.now(timezone.utc)
    since = _time(args.since, now) if args.since else None
    options = Options(
        price=args.price,
        max_slowdown=args.max_slowdown,
        max_refaults=args.max_refaults,
        refault_us=args.refault_cost,
        headroom=args.headroom,
    )
    names = args.question or list(NAMES)
    if args.memory and args.engine != "duckdb":
        raise InvalidError(
            f"--memory is of engine duckdb, and this is {args.engine}\n"
            "  hint:  SPARK_MEMORY=8g, for a local Spark"
        )
    engine = open_engine(args.engine, args.memory or MEMORY)
    with Fleet(args.dir, engine, since, now, options) as fleet:
        if args.explain:
            print(explained(fleet, names), end="")
            return 0
        if names != ["data"]:
            _check_usable(fleet, args)
        answers = [answer for name in names for answer in fleet.ask(QUESTIONS[name])]
        print(to_text(answers, fleet.problems, args.rows))
        about = f"{args.dir}, {now:%Y-%m-%d %H:%M} UTC, {len(fleet.audit.hosts)} hosts"
        if args.html:
            _write(Path(args.html), to_html(answers, fleet.problems, about))
        if args.parquet:
            _parquet(Path(args.parquet), answers)
        if args.policies:
            texts = [item for answer in answers for item in answer.texts.items()]
            for name, text in texts:
                _write(Path(args.policies, name), text)
            told = f"{len(texts)} policies are in {args.policies}"
            print(f"\n{told}; `isotherm run FILE --dry-run` tries one")
        return PARTIAL if args.strict and fleet.problems.found else 0


def _check_usable(fleet: Any, args: argparse.Namespace) -> None:
    """Refuses to ask a fleet of which no part can be used: empty answers would look like answers.

    :raises isotherm.Error: if it is so, with the first reasons.
    """
    parts = [part for own in fleet.catalog.parts.values() for part in own if part.rows]
    if {part.host for part in parts} - fleet.audit.out:
        return
    found = [problem for problem in fleet.problems.found if problem.kind != "missing"]
    why = [f"{p.where}: {p.what} ({p.done})" for p in found[:3]]
    if len(found) > 3:
        why.append(f"and {len(found) - 3} more")
    if not found:
        why = [f"no part is of the time since {args.since}" if args.since else "there are no parts"]
    raise InvalidError(
        f"{args.dir}: there is nothing in it that can be used\n"
        f"  tried: all parts below {fleet.catalog.base}\n"
        "  why:   " + "\n         ".join(why) + "\n"
        "  hint:  --question data tells all that is wrong"
    )


def explained(fleet: "object", names: Sequence[str]) -> str:
    """The SQL of the views and of the questions, for the fleet's engine."""
    from isotherm.fleet.fleet import Fleet
    from isotherm.fleet.questions import QUESTIONS

    assert isinstance(fleet, Fleet)
    fleet.explained = True
    parts = ["-- the files, each row once\n" + ";\n\n".join(fleet.engine.views()) + ";\n"]
    for name in names:
        for answer in QUESTIONS[name](fleet):
            head = f"\n-- {name}: {answer.title}\n"
            if hasattr(answer.expression, "to_pylist"):
                parts.append(head + "-- made of the footers and of the audit, not by SQL\n")
            else:
                parts.append(head + fleet.engine.sql(answer.expression) + ";\n")
    return "".join(parts)


def _simulate(args: argparse.Namespace) -> int:
    from isotherm.fleet.simulate import simulate

    if args.hosts < 1 or args.cgroups < 1 or args.days <= 0 or args.parts < 1:
        raise InvalidError("hosts, cgroups, days and parts are above 0")
    answers = simulate(
        args.dir,
        hosts=args.hosts,
        cgroups=args.cgroups,
        days=args.days,
        seed=args.seed,
        start=args.start,
        parts=args.parts,
        faults=args.faults,
    )
    per_hour = answers["bytes"] / args.hosts / answers["hours"] / 1024
    print(
        f"{args.dir}: {answers['rows']:,} rows of cgroups of {args.hosts:,} hosts, "
        f"{answers['bytes'] / 1e9:.2f} GB, {per_hour:.0f} KiB per host and hour\n"
        f"the answers are in {Path(args.dir, 'answers.json')}\n"
        f"isotherm-fleet report {args.dir} --now {answers['now']}"
    )
    return 0


def _compact(args: argparse.Namespace) -> int:
    from isotherm.fleet.compact import compact

    try:
        done = compact(args.dir, args.into, args.before)
    except OSError as error:
        if isinstance(error, Error):
            raise
        raise InvalidError(
            f"{args.dir}: parts cannot be merged\n  tried: {error.filename}: {error.strerror}"
        ) from error
    print(
        f"{done.files:,} files of {done.folders:,} folders are one file in each now: "
        f"{done.rows:,} rows, {done.bytes_before / 1e6:.2f} MB before, "
        f"{done.bytes_after / 1e6:.2f} MB now"
    )
    for where, why in done.kept:
        print(f"left as it is: {where}: {why}")
    return PARTIAL if args.strict and done.kept else 0


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidError(f"{path} cannot be written\n  tried: {error.strerror}") from error


def _parquet(folder: Path, answers: Sequence["object"]) -> None:
    import pyarrow.parquet as pq

    from isotherm.fleet.fleet import Answer

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for answer in answers:
            assert isinstance(answer, Answer)
            pq.write_table(answer.rows, folder / f"{answer.name}.parquet")
    except OSError as error:
        raise InvalidError(f"{folder} cannot be written\n  tried: {error.strerror}") from error


def _amount(text: str) -> float:
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number of 0 or more")
    return value


def _memory(text: str) -> str:
    """An amount of memory for DuckDB: ``3GB``, ``512MiB``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]i?)b?", text.strip(), re.IGNORECASE)
    if not found or not float(found.group(1)):
        raise argparse.ArgumentTypeError(f"{text} is no amount of memory, as 8GB")
    return found.group(1) + found.group(2) + "B"


def _share(text: str) -> float:
    """A share: ``1%``, or 0.01."""
    number = text.strip().removesuffix("/min")
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is not a share, as 1%") from error
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a share of 0 or more")
    return value


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no day, as 2026-01-31") from error


def _time(text: str, now: Optional[datetime]) -> datetime:
    """A time, or so long before now."""
    ago = re.fullmatch(r"(\d+)\s*([dhm])", text.strip())
    if ago and now is not None:
        units = {"d": "days", "h": "hours", "m": "minutes"}
        return now - timedelta(**{units[ago.group(2)]: int(ago.group(1))})
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError as error:
        raise InvalidError(
            f"{text} is no time\n  hint:  7d, 12h, 2026-01-31, 2026-01-31T12:00"
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)

"""Answers as text."""

from __future__ import annotations

import textwrap
from typing import Sequence

from isotherm.fleet.fleet import Answer
from isotherm.fleet.problems import Problems
from isotherm.fleet.show.cells import heading, is_number, merged, printable, told


def to_text(answers: Sequence[Answer], problems: Problems, rows: int = 20) -> str:
    """Tables of at most so many rows, 0 for all; at the end what is wrong with the data."""
    parts = [_table(answer, rows) for answer in answers]
    if problems.found and not any(answer.name == "problems" for answer in answers):
        parts.append(_problems(problems, rows))
    return "\n\n".join(parts)


def _table(answer: Answer, rows: int) -> str:
    table = answer.rows
    lines = [answer.title, "=" * len(answer.title)]
    if table.num_rows == 0:
        lines.append("(nothing)")
    else:
        lines += _lines(answer, rows)
    if answer.note:
        lines += textwrap.wrap(answer.note, 100)
    return "\n".join(lines)


def _lines(answer: Answer, rows: int) -> list[str]:
    table = answer.rows
    shown = (table.slice(0, rows) if rows else table).to_pylist()
    columns = []
    for name, bar in merged(table.column_names):
        cells = [heading(name), *[told(name, bar, row) for row in shown]]
        width = max(len(text) for text in cells)
        right = is_number([row[name] for row in shown])
        columns.append([text.rjust(width) if right else text.ljust(width) for text in cells])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns)]
    if table.num_rows > len(shown):
        more = table.num_rows - len(shown)
        lines.append(f"... and {more:,} more (--rows 0 shows all)")
    return lines


def _problems(problems: Problems, rows: int) -> str:
    found = problems.found
    title = f"The data has {len(found)} problems" if len(found) > 1 else "The data has a problem"
    lines = [title, "=" * len(title)]
    for problem in found[: rows or None]:
        told_in = f"{problem.kind}: {problem.where}: {problem.what} ({problem.done})"
        lines.append(printable(told_in))
    if len(found) > len(lines) - 2:
        lines.append(f"... and {len(found) - len(lines) + 2:,} more (--question data)")
    return "\n".join(lines)

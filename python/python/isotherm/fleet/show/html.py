"""Answers as one page for a browser: no other file is loaded, and no script is needed to read it.

A bar behind the first size of each row shows it against the largest of its column.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, Sequence

from isotherm.fleet.fleet import Answer
from isotherm.fleet.problems import Problems
from isotherm.fleet.show.cells import heading, is_number, merged, printable, told

MOST_ROWS = 500
BARRED = ("idle_5m_bytes", "saves_bytes", "over_bytes", "duplicate_bytes", "shared_bytes")


def to_html(answers: Sequence[Answer], problems: Problems, about: str) -> str:
    """The page. ``about`` says of what and when it is."""
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    links = "".join(f'<a href="#{a.name}">{escape(_short(a.name))}</a>' for a in answers)
    body = "".join(_section(answer) for answer in answers)
    if problems.found and not any(answer.name == "problems" for answer in answers):
        items = "".join(
            f"<li><b>{escape(p.kind)}</b> {escape(printable(p.where))}: "
            f"{escape(printable(p.what))} <i>({escape(p.done)})</i></li>"
            for p in problems.found[:MOST_ROWS]
        )
        body += (
            f'<section id="problems"><h2>What is wrong with the data</h2><ul>{items}</ul></section>'
        )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Isotherm fleet report</title><style>{style}</style></head><body>"
        f"<header><h1>Isotherm fleet report</h1><p>{escape(printable(about))}</p>"
        f"<nav>{links}</nav></header><main>{body}</main></body></html>\n"
    )


def _short(name: str) -> str:
    return name.replace("_", " ")


def _section(answer: Answer) -> str:
    table = answer.rows
    head = f'<section id="{escape(answer.name)}"><h2>{escape(answer.title)}</h2>'
    note = f"<p>{escape(answer.note)}</p>" if answer.note else ""
    if not table.num_rows:
        return f"{head}<p class=none>(nothing)</p>{note}</section>"
    rows = table.slice(0, MOST_ROWS).to_pylist()
    columns = merged(table.column_names)
    right = {name for name, _ in columns if is_number([row[name] for row in rows])}
    largest = {
        name: max((row[name] or 0 for row in rows), default=0)
        for name, _ in columns
        if name in BARRED
    }
    heads = "".join(
        f"<th{' class=n' if name in right else ''}>{escape(heading(name))}</th>"
        for name, _ in columns
    )
    lines = "".join(f"<tr>{_cells(row, columns, right, largest)}</tr>" for row in rows)
    more = table.num_rows - len(rows)
    rest = f"<p>and {more:,} more; --parquet has all</p>" if more else ""
    return (
        f"{head}{note}<div class=wide><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>{rest}{_texts(answer)}</section>"
    )


def _cells(row: dict[str, Any], columns: Any, right: set[str], largest: dict[str, float]) -> str:
    cells = []
    for name, bar in columns:
        text = escape(told(name, bar, row))
        if bar is not None and "[" in text:
            value, ends = text.split(" [", 1)
            text = f"{value} <small>[{ends}</small>"
        style = ""
        if largest.get(name):
            share = 100 * (row[name] or 0) / largest[name]
            style = f' style="--bar:{share:.1f}%"'
        kind = "n bar" if style else "n" if name in right else ""
        cells.append(f'<td class="{kind}"{style}>{text}</td>' if kind else f"<td>{text}</td>")
    return "".join(cells)


def _texts(answer: Answer) -> str:
    return "".join(
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in answer.texts.items()
    )

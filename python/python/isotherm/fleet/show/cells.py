"""How the values of an answer are told. The end of a column's name says what it is."""

from __future__ import annotations

from typing import Any, Optional

GIB = 1 << 30
ENDS = ("_bytes_per_min", "_share_per_min", "_per_month_money", "_bytes", "_share", "_money", "_s")
UNITS = {
    "_bytes_per_min": "GiB/min",
    "_share_per_min": "%/min",
    "_per_month_money": "per month",
    "_bytes": "GiB",
    "_share": "%",
    "_money": "",
    "_s": "",
}


def heading(name: str) -> str:
    """A column's title."""
    end = next((end for end in ENDS if name.endswith(end)), "")
    words = name[: len(name) - len(end)] if end else name
    unit = UNITS.get(end, "")
    return " ".join(f"{words.replace('_', ' ')} {unit}".split())


def cell(name: str, value: Any, row: dict[str, Any]) -> str:
    """A value. ``-`` is what is not known."""
    if value is None or value != value:
        return "-"
    if isinstance(value, str):
        return printable(value)
    if name.endswith(("_bytes", "_bytes_per_min")) or row.get("unit") == "bytes" and is_value(name):
        return digits(value / GIB)
    if name.endswith(("_share", "_share_per_min")):
        return f"{digits(100 * value)} %"
    if name.endswith("_s"):
        return span(float(value))
    return digits(float(value)) if isinstance(value, float) else f"{value:,}"


def is_value(name: str) -> bool:
    """Whether a column of ``rollout`` has the unit that its row says."""
    return name in (
        "before",
        "after",
        "others_before",
        "others_after",
        "effect",
        "lo",
        "hi",
        "placebo",
    )


def digits(value: float) -> str:
    """Three digits that count."""
    size = abs(value)
    if size >= 100 or size == 0:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.01 else f"{value:.2g}"


def span(seconds: float) -> str:
    """A time in its largest unit."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{digits(seconds / size).removesuffix('.00').removesuffix('.0')} {unit}"
    return f"{seconds:.0f} s"


def printable(text: str) -> str:
    """A text from the data without what a terminal would take for a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def is_number(values: list[Any]) -> bool:
    """Whether a column is of numbers."""
    return any(isinstance(value, (int, float)) for value in values)


def merged(columns: list[str]) -> list[tuple[str, Optional[tuple[str, str]]]]:
    """The columns to show. Ends of a bar are shown within the cell of their value."""
    shown: list[tuple[str, Optional[tuple[str, str]]]] = []
    inside: set[str] = set()
    for name in columns:
        stem = name.removesuffix("_bytes")
        bar = (f"{stem}_lo_bytes", f"{stem}_hi_bytes")
        if name == "effect":
            bar = ("lo", "hi")
        has = all(end in columns for end in bar)
        inside.update(bar if has else ())
        shown.append((name, bar if has else None))
    return [(name, bar) for name, bar in shown if name not in inside and name != "unit"]


def told(name: str, bar: Optional[tuple[str, str]], row: dict[str, Any]) -> str:
    """A cell, with its bar."""
    text = cell(name, row[name], row)
    if bar is None or row[bar[0]] is None or text == "-":
        return text
    return f"{text} [{cell(name, row[bar[0]], row)} .. {cell(name, row[bar[1]], row)}]"

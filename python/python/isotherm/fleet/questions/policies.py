"""A recommended policy for each service, with what it should save.

The age is the best one within ``--max-slowdown`` and ``--max-refaults`` (see ``savings``). The file
is what ``isotherm reclaim --print-policy`` prints for these targets, with that age. It is a
proposal for ``isotherm run POLICY --dry-run``, and then for a few hosts; the question ``rollout``
tells what it did.
"""

from __future__ import annotations

import re
from typing import Any

from isotherm.fleet.engine import imported_ibis
from isotherm.fleet.fleet import GIB, Answer, Fleet
from isotherm.fleet.questions.savings import best

QUOTA = 'size = "128M", time = "10ms", interval = "1s"'
WEIGHTS = "size = 0, frequency = 0, age = 1"
TEMPLATE = f"""\
# {{about}}
[[context]]
name = "reclaim"
targets = [{{targets}}]

[[context.scheme]]
name = "reclaim"
action = "pageout"
size = "4K.."
frequency = "0%"
age = "{{age}}.."
quota = {{{{ {QUOTA}, weights = {{{{ {WEIGHTS} }}}} }}}}
brake = {{{{ refaults = "2%" }}}}
refault_window = "60s"
evidence = {{{{ confirm = "60s" }}}}
"""


def policies(fleet: Fleet) -> list[Answer]:
    """Asks it."""
    ibis = imported_ibis()
    options = fleet.options
    rows = best(fleet, "asked", options.max_slowdown, options.max_refaults).drop(
        "limit", "max_slowdown_share"
    )
    rows = rows.filter(rows.service != "(none)").order_by(ibis.desc("saves_lo_bytes"), "service")
    limits = f"{options.max_slowdown:.2%} slowdown"
    if options.max_refaults is not None:
        limits += f", {options.max_refaults:.2%} of the memory back per minute"
    answer = Answer(
        "policies",
        "Recommended policy by service",
        rows,
        f"Within {limits}. --policies DIR writes a file for each service.",
    )
    if not fleet.explained:
        table = fleet.engine.run(rows)
        answer.expression = table
        for row in table.to_pylist():
            answer.texts[file_name(row["service"])] = policy(row, limits)
    return [answer]


def policy(row: dict[str, Any], limits: str) -> str:
    """The text of a policy."""
    about = (
        f"{row['service']}: saves {row['saves_bytes'] / GIB:.1f} GiB "
        f"[{row['saves_lo_bytes'] / GIB:.1f} .. {row['saves_hi_bytes'] / GIB:.1f}] "
        f"on {row['hosts']} hosts, within {limits}"
    )
    age = row["age_s"]
    told = f"{age // 60}m" if age % 60 == 0 else f"{age}s"
    targets = target(row["service"], row["kind"])
    return TEMPLATE.format(about=_line(about), targets=targets, age=told)


def target(service: str, kind: str) -> str:
    """How a policy names a service."""
    if kind == "kubepods" or "/" in service:
        namespace, _, workload = service.rpartition("/")
        pods = _quoted(f"{namespace or '*'}/{workload}-*")
        return f"{{ pod = {pods} }}"
    return f"{{ unit = {_quoted(service)} }}"


def file_name(service: str) -> str:
    """A file's name for a service, without anything that a folder could be left with."""
    return re.sub(r"[^A-Za-z0-9._@-]+", "_", service).lstrip(".") + ".toml"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'


def _line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)

"""Questions to many machines, by the Parquet that their agents write.

On a command line: ``isotherm-fleet report DIR``, or ``isotherm fleet report DIR``. From Python::

    from isotherm.fleet import QUESTIONS, Fleet

    with Fleet("/srv/fleet") as fleet:               # or engine="spark"
        for answer in fleet.ask(QUESTIONS["idle"]):
            print(answer.title, answer.rows)         # a pyarrow.Table

The way of the data: ``catalog`` finds the parts and reads their footers; ``engine`` (DuckDB) or
``spark`` shows them as views; ``audit`` looks at all rows and decides what cannot be believed;
``fleet`` adds up what several ``questions`` need; ``show`` prints. Questions are Ibis expressions,
written once for both engines. ``simulate`` makes fleets whose answers are known.

Nothing is left out silently: ``Fleet.problems`` has all findings. Nothing here writes to a fleet.

Needs ``pip install 'isotherm[fleet]'``. docs/FLEET-QUESTIONS.md says what each question means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotherm.fleet.fleet import Answer, Fleet, Options
    from isotherm.fleet.questions import QUESTIONS

__all__ = ["QUESTIONS", "Answer", "Fleet", "Options"]


def __getattr__(name: str) -> Any:
    """Loads pyarrow and Ibis when they are needed: the command can say that they are missing."""
    if name == "QUESTIONS":
        from isotherm.fleet.questions import QUESTIONS

        return QUESTIONS
    if name in __all__:
        from isotherm.fleet import fleet

        return getattr(fleet, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

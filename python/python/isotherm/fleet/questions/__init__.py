"""The questions. Each is a function of a fleet that returns answers (docs/FLEET-QUESTIONS.md)."""

from __future__ import annotations

from typing import Callable

from isotherm.fleet.fleet import Answer, Fleet
from isotherm.fleet.questions.data import data
from isotherm.fleet.questions.idle import idle
from isotherm.fleet.questions.policies import policies
from isotherm.fleet.questions.rollout import rollout
from isotherm.fleet.questions.savings import savings
from isotherm.fleet.questions.sharing import sharing
from isotherm.fleet.questions.sizing import sizing

QUESTIONS: dict[str, Callable[[Fleet], list[Answer]]] = {
    "idle": idle,
    "savings": savings,
    "sizing": sizing,
    "sharing": sharing,
    "data": data,
    "rollout": rollout,
    "policies": policies,
}
"""By the names that ``--question`` takes."""

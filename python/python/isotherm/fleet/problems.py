"""What was wrong with the data, and what was done about it. Nothing is left out without one."""

from __future__ import annotations

from dataclasses import dataclass, field

LEFT_OUT = "left out"
CORRECTED = "corrected"
KEPT = "kept"


@dataclass(frozen=True)
class Problem:
    """One finding."""

    kind: str
    """One word: ``truncated``, ``unreadable``, ``duplicate``, ``clock`` ..."""
    where: str
    """A host, or a file's path below the fleet's directory."""
    what: str
    done: str
    """:data:`LEFT_OUT`, :data:`CORRECTED` or :data:`KEPT`, perhaps with more words."""


@dataclass
class Problems:
    """All findings, in the order in which they were made."""

    found: list[Problem] = field(default_factory=list)

    def add(self, kind: str, where: str, what: str, done: str) -> None:
        """Notes a finding once."""
        problem = Problem(kind, where, what, done)
        if problem not in self.found:
            self.found.append(problem)

    def rows(self) -> dict[str, list[str]]:
        """As columns of a table."""
        names = ("kind", "where", "what", "done")
        return {name: [getattr(problem, name) for problem in self.found] for name in names}


def first_line(said: object) -> str:
    """The first line of an error or a text; of an error without words its kind."""
    lines = str(said).strip().splitlines()
    if lines:
        return lines[0]
    return type(said).__name__ if isinstance(said, BaseException) else ""

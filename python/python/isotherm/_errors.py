"""The exceptions of this package. Their texts are those that the program prints."""

from __future__ import annotations

from typing import Optional


class Error(Exception):
    """Something that could not be done: what, what was tried, why, and what to do.

    ``str(error)`` has all of it, in lines for people.
    """

    what: str
    """What could not be done, in one line."""
    tried: str
    """What was tried, with what the kernel said; empty if there was nothing to try."""
    why: str
    """The likely reason; may be empty."""
    hint: str
    """What to do about it; may be empty."""

    def __init__(
        self,
        text: str,
        what: str = "",
        tried: str = "",
        why: str = "",
        hint: str = "",
        errno: Optional[int] = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.what = what or text
        self.tried = tried
        self.why = why
        self.hint = hint
        if errno is not None and isinstance(self, OSError):
            # An assignment would declare the attribute for errors that have none.
            setattr(self, "errno", errno)

    def __str__(self) -> str:
        return self.text


class InvalidError(Error, ValueError):
    """What was asked for makes no sense."""


class NotSupportedError(Error):
    """This kernel or machine cannot do it."""


class AccessError(Error, PermissionError):
    """A privilege is missing."""


class GoneError(Error, ProcessLookupError):
    """A target is gone, or was never there."""


class NotWatchedError(Error):
    """There are targets, and the operations set can look at none of them."""


class BadRecordError(Error, ValueError):
    """A record cannot be understood."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class MissingError(FileError, FileNotFoundError):
    """A file that is not there."""

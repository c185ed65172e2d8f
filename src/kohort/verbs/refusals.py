"""Why something that was asked for cannot be: it is not there, the state of things forbids it, it is not so."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """The object of a command does not exist."""


class RefusedByState(KohortError):
    """The state of a group, topic or node forbids a change."""


class CheckNotMet(KohortError):
    """A check of a command failed."""

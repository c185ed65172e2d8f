"""Why something that was asked for cannot be: it is not there, the state of things forbids it, it is not so."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """What a command was to look at or to change is not there."""


class RefusedByState(KohortError):
    """What a command was to do is not possible as things are; the text says what stands against it."""


class CheckNotMet(KohortError):
    """What a command was asked to make sure of is not so; for commands that scripts go by."""

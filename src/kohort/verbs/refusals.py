"""Errors of commands that have an exit code of their own."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """A group, topic or node that a command names does not exist."""


class RefusedByState(KohortError):
    """The state of a group, topic or node forbids a change."""


class CheckNotMet(KohortError):
    """A check of a command failed."""

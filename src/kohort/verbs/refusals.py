"""Errors of commands that have an exit code of their own."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """The group, topic or node of a command is missing."""


class RefusedByState(KohortError):
    """The state of a group, topic or node forbids a change."""


class CheckNotMet(KohortError):
    """A check of a command failed."""

"""Errors of commands that have exit codes of their own."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """The object of a command does not exist."""


class RefusedByState(KohortError):
    """The state of a group, topic or node forbids a change."""


class CheckNotMet(KohortError):
    """A check of a command failed."""

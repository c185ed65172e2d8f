"""Error classes of commands. Each class has its own exit code."""

from __future__ import annotations

from kohort.errors import KohortError


class NothingThere(KohortError):
    """An object that a command names does not exist, such as a group, a topic or a node."""


class RefusedByState(KohortError):
    """The present state of a group, topic or node forbids the requested change."""


class CheckNotMet(KohortError):
    """A check that the command was asked to make has failed."""

"""The answers over one source: that of the console, or one narrowed to the rights of a user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kohort.console.answers import ConsoleAnswers
from kohort.console.asked_of_cluster import ChangesAtCluster
from kohort.console.changes import Changes
from kohort.console.routes import Routes
from kohort.console.sources import ConsoleSource


class ConsoleView:
    """A source with its answers and routes."""

    def __init__(
        self, source: ConsoleSource, pipelines: Sequence[Path], changes: Changes | None, *, is_whole: bool = True
    ) -> None:
        """``changes`` is None where nothing may be changed; ``is_whole`` is False for the rights of a user."""
        self.source, self.is_whole = source, is_whole
        self.answers = ConsoleAnswers(source)
        self.routes = Routes(self.answers, ChangesAtCluster(source, pipelines, is_whole=is_whole), changes)

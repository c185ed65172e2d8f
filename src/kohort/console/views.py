"""Views of the console: the routes of all parts, over one source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kohort.console.answers import ANSWERS, ConsoleAnswers
from kohort.console.asked_of_cluster import CLUSTER, ChangesAtCluster
from kohort.console.changes import CHANGES, Changes
from kohort.console.guard import Rejected
from kohort.console.routes import AskedRoute, Route
from kohort.console.sources import ConsoleSource
from kohort.verbs.refusals import NothingThere

ROUTES: Final[tuple[Route[Any], ...]] = (*ANSWERS, *CLUSTER, *CHANGES)


class ConsoleView:
    """A source with its answers and routes."""

    def __init__(
        self,
        source: ConsoleSource,
        pipelines: Sequence[Path] = (),
        changes: Changes | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        """``changes``: None if not allowed; ``is_whole``: False for the rights of one user."""
        self.source, self.is_whole = source, is_whole
        self.answers = ConsoleAnswers(source)
        self._cluster = ChangesAtCluster(source, pipelines, is_whole=is_whole)
        self._changes = changes

    def routes(self) -> Iterator[tuple[Route[Any], Any]]:
        """Yield each route with the part that answers it."""
        yield from ((route, self.answers) for route in ANSWERS)
        yield from ((route, self._cluster) for route in CLUSTER)
        yield from ((route, self._changes) for route in CHANGES)

    def answer(self, method: str, segments: Sequence[str], asked: AskedRoute) -> Any:
        """Return the answer at a path. Raises NothingThere, or Rejected for another method."""
        for route, part in self.routes():
            names = route.names_in(segments)
            if names is not None:
                if route.method != method:
                    raise Rejected(405, f"{method} is not for this", f"use {route.method}")
                return route.answer(part, asked, names)
        raise NothingThere("nothing is at that address")

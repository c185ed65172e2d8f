"""All routes of the console's API. They answer from one data source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from kohort.console.answers import ANSWERS, ConsoleAnswers
from kohort.console.changes import CHANGES, Changes
from kohort.console.cluster_queries import CLUSTER_ROUTES, ClusterQueries
from kohort.console.guard import Rejected
from kohort.console.routes import ApiQuery, Route
from kohort.console.sources import ConsoleSource
from kohort.console.topic_queries import TOPIC_ROUTES, TopicQueries
from kohort.verbs.refusals import NothingThere

ROUTES: Final[tuple[Route[Any], ...]] = (*ANSWERS, *CLUSTER_ROUTES, *TOPIC_ROUTES, *CHANGES)


class ConsoleView:
    """Answers to all API requests, with the rights of one user or of the console."""

    def __init__(
        self,
        source: ConsoleSource,
        pipelines: Sequence[Path] = (),
        changes: Changes | None = None,
        *,
        full_rights: bool = True,
    ) -> None:
        """``changes``: None if the console allows no changes; ``full_rights``: False for the rights of one user."""
        self.source, self.full_rights = source, full_rights
        self.answers = ConsoleAnswers(source)
        self._queries = ClusterQueries(source, pipelines, full_rights=full_rights)
        self._topics = TopicQueries(source)
        self._changes = changes

    def routes(self) -> Iterator[tuple[Route[Any], Any]]:
        yield from ((route, self.answers) for route in ANSWERS)
        yield from ((route, self._queries) for route in CLUSTER_ROUTES)
        yield from ((route, self._topics) for route in TOPIC_ROUTES)
        yield from ((route, self._changes) for route in CHANGES)

    def answer(self, method: str, segments: Sequence[str], query: ApiQuery) -> Any:
        """Return the answer to an API request. Raises NothingThere for an unknown path, Rejected for a wrong method."""
        for route, handler in self.routes():
            names = route.names_in(segments)
            if names is not None:
                if route.method != method:
                    raise Rejected(405, f"this address does not allow {method}", f"use {route.method}")
                return route.answer(handler, query, names)
        raise NothingThere("this address does not exist")

"""Which question is at which path, and how its parameters are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from kohort.console.answers import AskedSpan, ConsoleAnswers
from kohort.console.asked_of_cluster import ChangesAtCluster, WhatIfAsked
from kohort.console.changes import KINDS, ChangeAsked, Changes, Kind
from kohort.console.guard import Rejected
from kohort.console.reachability import ClusterUnreachable
from kohort.console.sources import ConsoleSource
from kohort.errors import UsageError
from kohort.model import TopicPartition
from kohort.verbs.explaining import explained
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.watch.opening import WatchClients


MOST_MS: Final = 2**53
MOST_PARAMETERS: Final = 20


@dataclass(frozen=True, slots=True)
class AskedRoute:
    """A request: parameters, body, clients (None: a recording), user, and the error of an outage."""

    params: Mapping[str, str]
    body: bytes
    clients: WatchClients | None
    user: str | None
    unreachable: ClusterUnreachable | None = None

    @property
    def span(self) -> AskedSpan:
        return AskedSpan(self.number("from"), self.number("until"), self.number("at"))

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return a number of 0 or more. Raises UsageError for other text."""
        text = self.params.get(name)
        if text is None or text == "":
            return default
        if not (text.isascii() and text.isdecimal() and len(text) < 17) or int(text) > MOST_MS:
            raise UsageError(f"{name}: {text[:40]!r} is no whole number of 0 or more")
        return int(text)

    def with_clients(self) -> WatchClients:
        """Return the clients. Raises Rejected for a recording, ClusterUnreachable during an outage."""
        clients = self.clients_or_none()
        if clients is None:
            raise Rejected(404, "a recording has no cluster to ask", "kohort console --bootstrap HOST:PORT has one")
        return clients

    def clients_or_none(self) -> WatchClients | None:
        """Return the clients, None for a recording. Raises ClusterUnreachable during an outage."""
        if self.unreachable is not None:
            raise self.unreachable
        return self.clients

    def told(self, kind: type[Any]) -> Any:
        """Return the body as a struct. Raises UsageError with the wrong field."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"the body: {error}") from error


Handler = Callable[[AskedRoute, Sequence[str]], Any]
GROUP: Final = "{}"


class Routes:
    """Handlers by path."""

    def __init__(self, answers: ConsoleAnswers, cluster: ChangesAtCluster, changes: Changes | None) -> None:
        """``changes``: None if not allowed."""
        self._answers, self._cluster, self._changes = answers, cluster, changes
        a, c = answers, cluster
        self._gets: dict[tuple[str, ...], Handler] = {
            ("groups", GROUP): lambda q, p: a.status(p[0], q.span),
            ("groups", GROUP, "timeline"): lambda q, p: a.timeline(p[0], q.span),
            ("groups", GROUP, "rebalances"): lambda q, p: a.rebalances(p[0], q.span),
            ("groups", GROUP, "events"): lambda q, p: a.events(p[0], q.span, _names(q.params.get("kinds"))),
            ("groups", GROUP, "fenced"): lambda q, p: a.fenced(p[0], q.span),
            ("groups", GROUP, "lag-history"): lambda q, p: a.lag_history(p[0], q.span),
            ("groups", GROUP, "describe"): lambda q, p: c.describe(q.with_clients(), p[0]),
            ("groups", GROUP, "clients"): lambda q, p: c.clients(q.clients_or_none(), p[0]),
            ("groups", GROUP, "causes"): lambda q, p: a.causes(q.number("from"), p[0], q.span),
            ("groups", GROUP, "peek"): self._peek,
            ("doctor",): lambda q, _: a.doctor(q.params.get("group") or None, q.span),
            ("causes",): lambda q, _: a.causes(q.number("since"), q.params.get("group") or None, q.span),
            ("causes", "software"): lambda q, _: c.software(
                q.clients_or_none(), q.number("since"), q.params.get("group") or None, q.span
            ),
            ("groups", GROUP, "causes", "software"): lambda q, p: c.software(
                q.clients_or_none(), q.number("from"), p[0], q.span
            ),
            ("nodes",): lambda q, _: c.nodes(q.with_clients()),
            ("topics",): lambda q, _: c.topics(q.with_clients()),
            ("topics", GROUP): lambda q, p: c.topic(q.with_clients(), p[0]),
            ("topics", GROUP, "peek"): self._peek_topic,
            ("pipelines",): lambda _, __: c.pipelines(),
            ("explain", GROUP): lambda _, p: explained(p[0]),
        }
        self._posts: dict[tuple[str, ...], Handler] = {
            ("groups", GROUP, "what-if"): lambda q, p: c.what_if(q.clients_or_none(), p[0], q.told(WhatIfAsked)),
        }
        for kind in KINDS:
            self._posts["groups", GROUP, f"{kind}:plan"] = self._plan_of(kind)
            self._posts["groups", GROUP, f"{kind}:apply"] = self._act_of(kind)

    def find(self, method: str, segments: Sequence[str]) -> tuple[Handler, list[str]]:
        """Return the handler and the names in the path. Raises NothingThere, or Rejected for another method."""
        if segments in (["groups"], ["groups", ""]) and method == "GET":
            return lambda q, _: self._answers.groups(q.span), []
        for table, of in ((self._gets, "GET"), (self._posts, "POST")):
            for pattern, handler in table.items():
                if _fits(pattern, segments):
                    if of != method:
                        raise Rejected(405, f"{method} is not for this", f"use {of}")
                    return handler, [s for p, s in zip(pattern, segments, strict=True) if p == GROUP]
        raise NothingThere("nothing is at that address")

    def _plan_of(self, kind: Kind) -> Handler:
        return lambda q, p: self._may_change().plan(q.with_clients(), kind, p[0], q.told(ChangeAsked), q.user)

    def _act_of(self, kind: Kind) -> Handler:
        return lambda q, p: self._may_change().apply(q.with_clients(), kind, p[0], q.told(ChangeAsked), q.user)

    def _may_change(self) -> Changes:
        if self._changes is None:
            raise Rejected(403, "this console changes nothing", "start it with --allow-changes")
        return self._changes

    def _peek(self, asked: AskedRoute, names: Sequence[str]) -> Any:
        around = asked.number("before", 3) or 0, asked.number("after", 3) or 0
        return self._cluster.peek(asked.with_clients(), names[0], _place(asked, asked.params.get("topic", "")), around)

    def _peek_topic(self, asked: AskedRoute, names: Sequence[str]) -> Any:
        place, many = _place(asked, names[0]), asked.number("count", 20) or 0
        return self._cluster.peek_topic(asked.with_clients(), place, asked.number("offset"), many)


def _fits(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    same = len(pattern) == len(segments)
    return same and all(p in (GROUP, s) for p, s in zip(pattern, segments, strict=True))


def _place(asked: AskedRoute, topic: str) -> TopicPartition:
    number = asked.number("partition")
    if not topic or number is None or number >= 2**31:
        raise UsageError("say which topic and which partition")
    return TopicPartition(topic, number)


def _names(text: str | None) -> list[str]:
    return [name for name in (text or "").split(",") if name]


def segments_of(raw_path: bytes) -> list[str]:
    """Return the decoded parts of a path: a name may hold a slash. Raises UsageError for invalid UTF-8."""
    parts = raw_path.decode("latin-1").strip("/").split("/")
    try:
        return [unquote(part, errors="strict") for part in parts]
    except UnicodeDecodeError as error:
        raise UsageError("the path is no UTF-8") from error


def params_of(query: bytes) -> dict[str, str]:
    """Return the parameters of a query. Raises UsageError for an invalid one."""
    try:
        pairs = parse_qsl(
            query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_PARAMETERS
        )
    except ValueError as error:
        raise UsageError("the query cannot be read") from error
    return dict(pairs)


class ConsoleView:
    """A source with its answers and routes."""

    def __init__(
        self, source: ConsoleSource, pipelines: Sequence[Path], changes: Changes | None, *, is_whole: bool = True
    ) -> None:
        """``changes``: None if not allowed; ``is_whole``: False for the rights of one user."""
        self.source, self.is_whole = source, is_whole
        self.answers = ConsoleAnswers(source)
        self.routes = Routes(self.answers, ChangesAtCluster(source, pipelines, is_whole=is_whole), changes)

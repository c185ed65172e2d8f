"""Takes operations one by one, as lines give them: who did it, then to whoever gathers operations of that kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort_lab.history.anomalies import Anomalies
from kohort_lab.history.facts import NEVER, GroupFacts, HistoryClient, HistoryFacts
from kohort_lab.history.fields import WrongField, choice, ended, flag, offset, text, when, whole
from kohort_lab.history.memberships import Memberships
from kohort_lab.history.reads import Reads
from kohort_lab.history.sends import Sends

Take = Callable[[int, dict[str, Any], HistoryClient], None]


class Intake:
    """Gathers the facts of a history; what one line alone shows to be wrong is noted at once."""

    def __init__(self, anomalies: Anomalies) -> None:
        self.facts = HistoryFacts(anomalies)
        self._clients: dict[str, HistoryClient] = {}
        reads, sends, members = Reads(self.facts), Sends(self.facts), Memberships(self.facts)
        self.finish = members.finish
        self._takes: dict[str, Take] = {
            "read": reads.read,
            "send": sends.send,
            "client": self._client,
            "topic": self._topic,
            "group": self._group,
            "cut": self._cut,
            "ends": self._ends,
            "seek": reads.seek,
            "begin": sends.begin,
            "end": sends.end,
            "assigned": members.assigned,
            "revoked": members.revoked,
            "lost": members.revoked,
            "commit": members.commit,
            "committed": members.committed,
            "gone": members.gone,
        }

    def take(self, line: int, operation: dict[str, Any]) -> None:
        """Take one operation. Raises WrongField."""
        kind = operation.get("op")
        take = self._takes.get(kind) if isinstance(kind, str) else None
        if take is None:
            raise WrongField(f"'op' has to be one of {', '.join(sorted(self._takes))}, not {kind!r}")
        name = operation.get("client")
        client = self._clients.get(name) if isinstance(name, str) else None
        if client is None:
            client = self._new_client(text(operation, "client"))
        take(line, operation, client)
        if (at := operation.get("done", operation.get("at"))) is not None:
            client.heard_at(whole(at, "done"))

    def _new_client(self, name: str) -> HistoryClient:
        made = self._clients[name] = HistoryClient(name, len(self.facts.clients))
        self.facts.clients.append(made)
        return made

    def _client(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        if client.declared or client.last_at >= 0:
            raise WrongField(f"client {client.name!r} has been introduced or has done something: each life has a name")
        client.declared = line
        client.clock = str(operation.get("clock", ""))
        client.idempotent = flag(operation, "idempotent")
        levels = ("read_committed", "read_uncommitted")
        client.committed_only = choice(operation, "isolation", levels, levels[1]) == levels[0]
        if operation.get("instance") is not None:
            client.instance = text(operation, "instance")
        if operation.get("session_us") is not None:
            client.session_us = whole(operation["session_us"], "session_us")

    def _topic(self, _line: int, operation: dict[str, Any], _client: HistoryClient) -> None:
        name = text(operation, "topic")
        if flag(operation, "compacted"):
            self.facts.logs.compacted.add(name)
        if flag(operation, "whole"):
            self.facts.logs.whole.add(name)

    def _group(self, _line: int, operation: dict[str, Any], _client: HistoryClient) -> None:
        name = text(operation, "group")
        group = self.facts.groups.setdefault(name, GroupFacts(name))
        group.classic = choice(operation, "protocol", ("classic", "consumer"), "classic") == "classic"
        group.forgets = flag(operation, "forgets")
        if operation.get("effects") is not None:
            group.effects = text(operation, "effects")

    def _cut(self, _line: int, operation: dict[str, Any], _client: HistoryClient) -> None:
        log = self.facts.logs.log(text(operation, "topic"), whole(operation.get("partition"), "partition"))
        log.begins = max(log.begins, offset(operation.get("offset")))

    def _ends(self, line: int, operation: dict[str, Any], _client: HistoryClient) -> None:
        log = self.facts.logs.log(text(operation, "topic"), whole(operation.get("partition"), "partition"))
        at = when(operation)
        ended(operation, at, NEVER)
        log.ends.append((at, offset(operation.get("offset")), line))


def gather(
    lines: Iterable[tuple[int, dict[str, Any]]], anomalies: Anomalies, wrong: Callable[[int, str], Exception]
) -> HistoryFacts:
    """Return the facts of a history. Raises what ``wrong`` makes of a line and of what is wrong with it."""
    intake = Intake(anomalies)
    for line, operation in lines:
        try:
            intake.take(line, operation)
        except WrongField as error:
            raise wrong(line, str(error)) from None
    intake.finish()
    return intake.facts

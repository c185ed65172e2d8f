"""Dispatch of history operations, by kind, to the classes that gather facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kohort_lab.history.anomalies import Anomalies
from kohort_lab.history.facts import NEVER, GroupFacts, HistoryClient, HistoryFacts, ReadingSession, SessionStart
from kohort_lab.history.fields import PARTITIONS_END, WrongField, choice, ended, flag, offset, text, when, whole
from kohort_lab.history.logs import OFFSETS_END, WITHIN, PassedStretch, SeenLog
from kohort_lab.history.memberships import Memberships
from kohort_lab.history.sends import Sends


class Reads:
    """Handler of ``read`` and ``seek``."""

    def __init__(self, facts: HistoryFacts) -> None:
        self._facts = facts

    def seek(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Set the position that the user or an offset reset chose; unknown without ``offset``."""
        log = self._facts.logs.log(text(operation, "topic"), whole(operation.get("partition"), "partition"))
        to = operation.get("offset")
        before = client.sessions.get(log.number, ReadingSession())
        session = ReadingSession(None if to is None else offset(to), line=line)
        session.highest_read = max(before.highest_read, -1 if before.position is None else before.position)
        session.seek_start = (line, before.begins[2]) if before.begins is not None else before.seek_start
        client.sessions[log.number] = session
        for key in [key for key in client.commits if key[1] == log.number]:
            del client.commits[key]

    def read(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record a batch of one partition, and the reader's position after it."""
        partition, records = operation.get("partition"), operation.get("records")
        log = self._facts.logs.log(text(operation, "topic"), whole(partition, "partition", PARTITIONS_END))
        if not isinstance(records, list):
            raise WrongField(f"'records' must be a list of [offset, value], not {records!r}")
        session = client.sessions.get(log.number)
        if session is None:
            session = client.sessions[log.number] = ReadingSession(line=line)
        at = when(operation)
        done = ended(operation, at, at)
        if session.begins is not None and (records or "position" in operation):
            self._begin(operation, client, log, session, (at, done))
        try:
            self._take(line, records, client.committed_only, log, session, done)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise WrongField("an entry of 'records' must be [offset, value] or [offset, value, leader epoch]") from None
        if operation.get("position") is not None:
            self._stand_at(line, offset(operation["position"], "position"), client, log, session)

    def _take(
        self, line: int, records: list[Any], committed_only: bool, log: SeenLog, session: ReadingSession, done: int
    ) -> None:
        values, second = self._facts.values, self._facts.second_places
        position, places = session.position, log.number << 44
        for record in records:
            at, value = record[0], values.index_of(record[1])
            if type(at) is not int or not 0 <= at < OFFSETS_END:
                raise ValueError(at)
            page, within = log.page(at), at & WITHIN
            if (stored := page.value[within]) < 0:
                page.value[within] = value
            elif stored != value:
                self._differs(line, log, at, value)
            if not page.line[within]:
                page.line[within] = line
            if committed_only and not page.committed_line[within]:
                page.committed_line[within], page.committed_done[within] = line, done
            if (place := values.place[value]) < 0:
                values.place[value] = places | at
            elif place != places | at:
                second.setdefault((value, places | at), line)
            if position is not None and at != position:
                self._jumps(line, log, session, (position, at), committed_only)
            position = at + 1
            if len(record) > 2:
                self._check_epoch(line, record[2], at, log, session)
        if records:
            session.position, session.line = position, line

    def _jumps(
        self, line: int, log: SeenLog, session: ReadingSession, way: tuple[int, int], committed_only: bool
    ) -> None:
        position, at = way
        if at > position:
            self._facts.logs.gaps.add(PassedStretch(log.number, position, at, line, committed_only))
        else:
            why = f"offset {at} of {log} is read by a reader whose position is {position}"
            self._facts.anomalies.add("non-monotonic-read", why, session.line, line)

    def _differs(self, line: int, log: SeenLog, at: int, value: int) -> None:
        page, values = log.page(at), self._facts.values
        stored = page.value[at & WITHIN]
        one, other = values.spelled(stored), values.spelled(value)
        first = page.line[at & WITHIN] or values.line[stored]
        why = f"offset {at} of {log} is {one!r} to one client and {other!r} to another"
        self._facts.anomalies.add("two-values-at-one-offset", why, first, line)

    def _check_epoch(self, line: int, epoch: Any, at: int, log: SeenLog, session: ReadingSession) -> None:
        if whole(epoch, "leader epoch", start=-1) < session.leader_epoch:
            why = f"offset {at} of {log} has leader epoch {epoch} after leader epoch {session.leader_epoch}"
            self._facts.anomalies.add("leader-epoch-went-back", why, session.line, line)
        session.leader_epoch = epoch

    def _stand_at(self, line: int, position: int, client: HistoryClient, log: SeenLog, session: ReadingSession) -> None:
        if session.position is not None and position != session.position:
            self._jumps(line, log, session, (session.position, position), client.committed_only)
        session.position, session.exact, session.line = position, True, line

    def _begin(
        self,
        operation: dict[str, Any],
        client: HistoryClient,
        log: SeenLog,
        session: ReadingSession,
        times: tuple[int, int],
    ) -> None:
        """Record the first offset as start position, if the assignment had no position."""
        assert session.begins is not None
        at, line, group = session.begins
        session.begins = None
        records = operation["records"]
        if records and isinstance(records[0], list) and records[0]:
            first = offset(records[0][0])
            start = SessionStart(at, times[1], first, False, line, client.number)
            self._facts.groups[group].starts.setdefault(log.number, []).append(start)


Take = Callable[[int, dict[str, Any], HistoryClient], None]


class Intake:
    """Gathers the facts of a history; reports anomalies of single lines at once."""

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
            "gone": members.client_ended,
        }

    def take(self, line: int, operation: dict[str, Any]) -> None:
        """Gather the facts of one history operation. Raises WrongField."""
        kind = operation.get("op")
        take = self._takes.get(kind) if isinstance(kind, str) else None
        if take is None:
            raise WrongField(f"'op' must be one of {', '.join(sorted(self._takes))}, not {kind!r}")
        name = operation.get("client")
        client = self._clients.get(name) if isinstance(name, str) else None
        if client is None:
            client = self._new_client(text(operation, "client"))
        take(line, operation, client)
        if (at := operation.get("done", operation.get("at"))) is not None:
            client.note_contact(whole(at, "done"))

    def _new_client(self, name: str) -> HistoryClient:
        made = self._clients[name] = HistoryClient(name, len(self.facts.clients))
        self.facts.clients.append(made)
        return made

    def _client(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        if client.declared or client.last_at >= 0:
            raise WrongField(f"client {client.name!r} already exists: use a new client name for each process")
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
    """Gather the facts of a history. Raises the error that ``wrong`` builds from a line and a message."""
    intake = Intake(anomalies)
    for line, operation in lines:
        try:
            intake.take(line, operation)
        except WrongField as error:
            raise wrong(line, str(error)) from None
    intake.finish()
    return intake.facts

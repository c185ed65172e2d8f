"""Gathering of assignments, revocations and commits of group members."""

from __future__ import annotations

from typing import Any, Final

from kohort_lab.history.facts import (
    NEVER,
    AssignmentReceived,
    CommitEntry,
    Doubt,
    GroupFacts,
    HistoryClient,
    HistoryFacts,
    Holding,
    ReadingSession,
    SessionStart,
)
from kohort_lab.history.fields import PARTITIONS_END, WrongField, choice, ended, listed, offset, text, when, whole
from kohort_lab.history.logs import SeenLog
from kohort_lab.history.sends import RESULTS

NO_GENERATION: Final = -1
LEAST_GENERATION: Final = -(1 << 31)
"""Lowest accepted generation; negative outside of a group, and for a static member that leaves temporarily."""


class Memberships:
    """Handler of ``assigned``, ``revoked``, ``lost``, ``client_ended``, ``commit`` and ``committed``."""

    def __init__(self, facts: HistoryFacts) -> None:
        self._facts = facts
        self._waiting: dict[tuple[int, int], list[tuple[GroupFacts, int, int]]] = {}
        """Commits in flight by client and id: (group, partition, index)."""
        self._unread: dict[tuple[int, int], list[Doubt]] = {}
        """Doubts about commits in flight, by client and id."""

    def _group(self, operation: dict[str, Any]) -> GroupFacts:
        name = text(operation, "group")
        found = self._facts.groups.get(name)
        if found is None:
            found = self._facts.groups[name] = GroupFacts(name)
        return found

    def _log(self, topic: Any, partition: Any) -> SeenLog:
        if not isinstance(topic, str):
            raise WrongField(f"a topic must be a string, not {topic!r}")
        return self._facts.logs.log(topic, whole(partition, "partition", PARTITIONS_END))

    def assigned(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record newly assigned partitions of a member."""
        group, at = self._group(operation), when(operation)
        done = ended(operation, at, at)
        generation = whole(operation.get("generation"), "generation", start=LEAST_GENERATION)
        group.assignments.append(AssignmentReceived(at, done, generation, client.number, line))
        for entry in listed(operation, "partitions", (2, 3)):
            log = self._log(entry[0], entry[1])
            position = offset(entry[2], "position") if len(entry) == 3 and entry[2] is not None else None
            holdings = group.holdings.setdefault(log.number, [])
            own_holdings = [h for h in holdings if h.client == client.number and h.until == NEVER]
            if own_holdings:
                own_holdings[-1].generation = generation
            else:
                holdings.append(Holding(client.number, generation, at, line))
            begins = (at, line, group.name) if position is None else None
            client.sessions[log.number] = ReadingSession(position, begins=begins, line=line)
            client.commits.pop((group.name, log.number), None)
            if position is not None:
                start = SessionStart(at, done, position, True, line, client.number)
                group.starts.setdefault(log.number, []).append(start)

    def revoked(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record revoked partitions: on request (``revoked``), or after removal from the group (``lost``)."""
        group, at = self._group(operation), when(operation)
        done = ended(operation, at, at)
        is_requested = operation["op"] == "revoked" and not operation.get("closing")
        for topic, partition in listed(operation, "partitions", (2,)):
            log = self._log(topic, partition)
            client.sessions.pop(log.number, None)
            for holding in group.holdings.get(log.number, ()):
                if holding.client == client.number and holding.until == NEVER:
                    holding.until, holding.end_line = done if is_requested else at, line
                    holding.revoked = at if is_requested else -1

    def client_ended(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record the end of a client, closed or killed."""
        at = when(operation)
        client.sessions.clear()
        for group in self._facts.groups.values():
            for holdings in group.holdings.values():
                for holding in holdings:
                    if holding.client == client.number and holding.until == NEVER:
                        holding.until, holding.end_line = at, line

    def commit(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record a commit, with or without transaction, and its result."""
        result, at = choice(operation, "result", RESULTS), when(operation)
        done = ended(operation, at, NEVER)
        commit_id = operation.get("id")
        key = (client.number, whole(commit_id, "id")) if commit_id is not None else None
        if key is not None and (entries := self._waiting.pop(key, None)) is not None:
            self._unread.pop(key, None)
            self._answer(line, entries, result, done)
            is_new = False
        else:
            is_new = True
        group = self._group(operation)
        if result == "ok" and group.classic and operation.get("txn") is None:
            client.contacts.append(at)  # in other cases only heartbeats renew the session
        if result == "fail":
            return
        noted, unread = [], []
        for entry in listed(operation, "offsets", (3, 4)):
            if entry[2] is None:
                continue
            log = self._log(entry[0], entry[1])
            made = self._entry(line, operation, client, entry, (at, done))
            if is_new:
                noted.append((group, log.number, group.entries(log.number).add(made)))
            if result != "begun":
                self._look(group, log, client, made)
            elif (doubt := self._past_what_was_read(log, client, made)) is not None:
                unread.append(doubt)
        if unread:
            self._unread[key or (-1, line)] = unread
        if result == "begun" and key is not None:
            self._waiting[key] = noted

    def finish(self) -> None:
        """Record the doubts about commits without response."""
        for doubts in self._unread.values():
            for doubt in doubts:
                self._note(doubt)

    def _answer(self, line: int, entries: list[tuple[GroupFacts, int, int]], result: str, done: int) -> None:
        acknowledged = {"ok": True, "fail": None}.get(result, False)
        for group, log, place in entries:
            group.entries(log).answered(place, done, line, acknowledged)

    def _entry(
        self, line: int, operation: dict[str, Any], client: HistoryClient, entry: list[Any], times: tuple[int, int]
    ) -> CommitEntry:
        generation = whole(operation.get("generation", NO_GENERATION), "generation", start=LEAST_GENERATION)
        begun_from = offset(entry[3], "from") if len(entry) == 4 and entry[3] is not None else -1
        transaction = self._transaction(operation)
        acknowledged = operation["result"] == "ok"
        at, done = times
        return CommitEntry(
            at, done, offset(entry[2]), line, client.number, generation, transaction, acknowledged, begun_from
        )

    def _transaction(self, operation: dict[str, Any]) -> int:
        """Return the transaction's number of a commit, or -1. Raises WrongField."""
        if operation.get("txn") is None:
            return -1
        number = self._facts.transaction_numbers.get(text(operation, "txn"))
        if number is None:
            raise WrongField(f"unknown transaction {operation['txn']!r}: expected a 'begin' or 'send' before")
        return number

    def _look(self, group: GroupFacts, log: SeenLog, client: HistoryClient, entry: CommitEntry) -> None:
        """Compare a commit with the position of the reader, and with the previous commit of the member."""
        doubt = self._past_what_was_read(log, client, entry)
        if doubt is not None:
            self._note(doubt)
        if not entry.acknowledged or entry.transaction >= 0:
            return
        before = client.commits.get((group.name, log.number))
        if before is not None and before[0] == entry.generation and before[2] <= entry.at and entry.offset < before[1]:
            why = f"{client.name} commits {entry.offset} of {log} after {before[1]}, both in generation {before[0]}"
            self._facts.anomalies.add("commit-went-back", why, before[3], entry.line)
        session = client.sessions.get(log.number)
        if session is not None and (entry.offset <= session.highest_read or (doubt is not None and session.seek_start)):
            return  # the commit may have been in flight during the seek
        client.commits[group.name, log.number] = (entry.generation, entry.offset, entry.done, entry.line)

    def _past_what_was_read(self, log: SeenLog, client: HistoryClient, entry: CommitEntry) -> Doubt | None:
        """Return a doubt if the commit is beyond the reader's position."""
        session = client.sessions.get(log.number)
        if session is None or session.position is None or entry.offset <= max(session.position, session.highest_read):
            return None
        return Doubt(
            log.number,
            session.position,
            entry.offset,
            entry.line,
            session.line,
            client.committed_only,
            session.exact,
            client.number,
            session.seek_start,
        )

    def _note(self, doubt: Doubt) -> None:
        if doubt.exact and doubt.seek_start is None:
            why = f"{doubt.offset} of {self._facts.logs.all[doubt.log]} is committed by a member whose position is "
            self._facts.anomalies.add("commit-beyond-read", f"{why}{doubt.position}", doubt.read_line, doubt.line)
        else:
            self._facts.doubts.append(doubt)

    def committed(self, line: int, operation: dict[str, Any], client: HistoryClient) -> None:
        """Record the committed offsets that a client fetched."""
        group, at = self._group(operation), when(operation)
        done = ended(operation, at, at)
        for entry in listed(operation, "offsets", (3,)):
            log = self._log(entry[0], entry[1])
            if entry[2] is not None:
                start = SessionStart(at, done, offset(entry[2]), True, line, client.number)
                group.starts.setdefault(log.number, []).append(start)

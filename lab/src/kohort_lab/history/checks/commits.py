"""Checks of committed offsets.

The next owner of a partition starts at the last commit; the coordinator rejects commits of fenced generations.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from kohort_lab.history.facts import NEVER, CommitEntry, Doubt, GroupFacts, HistoryFacts, SessionStart
from kohort_lab.history.logs import WITHIN


class EffectiveCommit(NamedTuple):
    """Commit with the time span in which it may have taken effect, in microseconds."""

    at: int
    done: int
    offset: int
    line: int
    acknowledged: bool


def check_commits(facts: HistoryFacts) -> None:
    """Check commits beyond the position, starts off the committed offset, and commits of fenced members."""
    _check_doubts(facts)
    for group in facts.groups.values():
        for log, starts in group.starts.items() if not group.forgets else ():
            _check_starts(facts, group, log, starts)
        _check_fenced(facts, group)


def _visible_between(facts: HistoryFacts, log: int, start: int, end: int, committed_only: bool) -> int:
    """Return a history line about a record in ``[start, end)`` that a reader must see; 0 if there is none."""
    for offset, value, page in facts.logs.all[log].known_values(start, end):
        if facts.may_be_removed(log, offset):
            continue
        transaction = facts.transaction_of(value)
        if transaction is None or not committed_only or transaction.took_effect:
            return facts.values.line[value] or page.line[offset & WITHIN]
    return 0


def _check_doubts(facts: HistoryFacts) -> None:
    for doubt in facts.doubts:
        if _stood_at_a_commit(facts, doubt):
            continue
        line = _visible_between(facts, doubt.log, doubt.position, doubt.offset, doubt.committed_only)
        if line:
            why = f"{doubt.offset} of {facts.logs.all[doubt.log]} is committed by a member whose position is "
            why += f"{doubt.position}: records lie between"
            facts.anomalies.add("commit-beyond-read", why, doubt.read_line, line, doubt.line)


def _stood_at_a_commit(facts: HistoryFacts, doubt: Doubt) -> bool:
    """True if the member started at this offset before its seek."""
    if doubt.seek_start is None:
        return False
    sought, group = doubt.seek_start
    return any(
        entry.offset == doubt.offset and (entry.client != doubt.client or entry.line < sought)
        for entry in facts.groups[group].entries(doubt.log)
    )


def effective(facts: HistoryFacts, entry: CommitEntry) -> EffectiveCommit | None:
    """Return the time span in which a commit may take effect; None if it never does."""
    if entry.transaction < 0:
        return EffectiveCommit(entry.at, entry.done, entry.offset, entry.line, entry.acknowledged)
    transaction = facts.transactions[entry.transaction]
    if transaction.cannot_be_committed:
        return None
    done = transaction.committed_done if transaction.committed else NEVER
    return EffectiveCommit(transaction.requested_at, done, entry.offset, entry.line, transaction.committed)


def _check_starts(facts: HistoryFacts, group: GroupFacts, log: int, starts: list[SessionStart]) -> None:
    """Compare the start position of each member with the commits that were current at that time, for each clock."""
    for clock in {facts.clients[start.client].clock for start in starts}:
        entries = [entry for entry in group.entries(log) if facts.clients[entry.client].clock == clock]
        found = [commit for entry in entries if (commit := effective(facts, entry)) is not None]
        of_clock = [start for start in starts if facts.clients[start.client].clock == clock]
        commits = CommitsInOrder(found)
        if proven := [proof for start in of_clock if (proof := _proven_by(facts, log, start, commits)) is not None]:
            commits = CommitsInOrder(found + proven)
        for start in of_clock:
            if standing := commits.standing_at(start):
                _judge_start(facts, log, start, standing)


def _proven_by(facts: HistoryFacts, log: int, start: SessionStart, commits: CommitsInOrder) -> EffectiveCommit | None:
    """Return an unanswered commit whose success is proven by a start position.

    Only if no acknowledged commit explains the position; earlier commits count as overwritten then.
    """
    if not commits.any_unanswered or facts.logs.all[log].begins >= start.position:
        return None  # at the log start offset, members start regardless of commits
    behind = [commit for commit in commits.standing_at(start) if _leads_to(facts, log, start, commit)]
    if not behind or any(commit.acknowledged or commit.offset != behind[0].offset for commit in behind):
        return None
    return EffectiveCommit(start.at, start.done, behind[0].offset, behind[0].line, True)


def _leads_to(facts: HistoryFacts, log: int, start: SessionStart, commit: EffectiveCommit) -> bool:
    """Return True if a member that fetches this commit may start at this position."""
    if start.strict or commit.offset >= start.position:
        return commit.offset == start.position
    only = facts.clients[start.client].committed_only
    return not _visible_between(facts, log, commit.offset, start.position, only)


class CommitsInOrder:
    """Commits of one partition in send order."""

    def __init__(self, found: list[EffectiveCommit]) -> None:
        commits = sorted(found)
        self._unanswered = [commit for commit in commits if not commit.acknowledged]
        self._answered = [commit for commit in commits if commit.acknowledged]
        self._latest_done = list(accumulate((commit.done for commit in self._answered), max))

    @property
    def any_unanswered(self) -> bool:
        return bool(self._unanswered)

    def standing_at(self, start: SessionStart) -> list[EffectiveCommit]:
        """Return the commits that may be current when a member starts; empty if the first commit is uncertain."""
        standing = [commit for commit in self._unanswered if commit.at <= start.done]
        overwritten_before = -1
        for at in range(bisect_right(self._answered, (start.done, NEVER)) - 1, -1, -1):
            if self._latest_done[at] < overwritten_before:
                break
            commit = self._answered[at]
            if commit.done >= overwritten_before:
                standing.append(commit)
            if overwritten_before < 0 and commit.done < start.at:
                overwritten_before = commit.at
        return standing if overwritten_before >= 0 else []


def _judge_start(facts: HistoryFacts, log: int, start: SessionStart, standing: list[EffectiveCommit]) -> None:
    """Check that the start position of a member equals one of the commits that may be current."""
    if any(commit.offset == start.position for commit in standing):
        return
    low, high = min(standing, key=lambda c: c.offset), max(standing, key=lambda c: c.offset)
    who, where = facts.clients[start.client].name, facts.logs.all[log]
    if start.position < low.offset:
        if not facts.logs.all[log].begins > start.position:
            why = f"{who} starts at {start.position} of {where}; the committed offset is {low.offset}"
            facts.anomalies.add("started-behind-commit", why, low.line, start.line)
    elif start.position > high.offset:
        only = facts.clients[start.client].committed_only
        passed = _visible_between(facts, log, high.offset, start.position, only)
        if start.strict or passed:
            why = f"{who} starts at {start.position} of {where}; the committed offset is at most {high.offset}"
            facts.anomalies.add("started-ahead-of-commit", why, high.line, passed, start.line)
    elif start.strict:
        why = f"{who} starts at {start.position} of {where}; the committed offset is {low.offset} or {high.offset}"
        facts.anomalies.add("started-behind-commit", why, low.line, high.line, start.line)


def _check_fenced(facts: HistoryFacts, group: GroupFacts) -> None:
    """Check that no commit succeeds after its generation was replaced.

    In a classic group a generation ends for all members at once. A member of a consumer group may commit its remaining
    partitions with an earlier epoch (KIP-848), so only a later owner of the partition counts.
    """
    ends = sorted((a.done, a.generation, a.client, a.line) for a in group.assignments if a.generation >= 0)
    newest: list[tuple[int, int, int, int]] = []
    for end in ends:
        newest.append(end if not newest or end[1] > newest[-1][1] else newest[-1])
    for log, entries in group.commits.items():
        holdings = sorted((h.since, h.generation, h.client, h.line) for h in group.holdings.get(log, ()))
        for entry in entries:
            if not entry.acknowledged or entry.generation < 0:
                continue
            if group.classic:
                at = bisect_right(ends, (entry.at - 1, NEVER)) - 1
                later = newest[at] if at >= 0 else None
            else:
                at = bisect_right(holdings, (entry.at - 1, NEVER)) - 1
                later = holdings[at] if at >= 0 else None
            if later is not None and later[1] > entry.generation and later[2] != entry.client:
                _judge_fenced(facts, group, log, entry, later)


def _judge_fenced(
    facts: HistoryFacts, group: GroupFacts, log: int, entry: CommitEntry, later: tuple[int, int, int, int]
) -> None:
    when, generation, client, line = later
    own = [
        assignment
        for assignment in group.assignments
        if (assignment.client, assignment.generation) == (entry.client, entry.generation) and assignment.at <= entry.at
    ]
    if not own or max(assignment.at for assignment in own) > when or not facts.same_clock(client, entry.client):
        return  # a deleted and recreated group restarts its generations
    why = f"a commit of {facts.logs.all[log]} with generation {entry.generation} by {facts.clients[entry.client].name} "
    why += f"succeeds after {facts.clients[client].name} received generation {generation}"
    facts.anomalies.add("fenced-commit-acknowledged", why, own[-1].line, line, entry.line)

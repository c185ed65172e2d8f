"""Findings about rejected requests of clients, and about accepted commits of non-members.

A coordinator checks instance id, member id, generation and state in this order: the error shows the first failed
check.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from kohort.coordinator.journal import ClientIdentity, JournalEntry, MemberRemoved, RequestFenced
from kohort.coordinator.journal_events import CommitUnfenced, JoinRejected, OffsetMove
from kohort.insight.events import GROUP_FULL, assignors_text
from kohort.insight.findings.model import MemberRef, member_ref
from kohort.insight.names import count, kind_text, name_of, printable, seconds

COMMITS: Final = frozenset({"OffsetCommit", "TxnOffsetCommit"})
ZOMBIE: Final = frozenset({"UNKNOWN_MEMBER_ID"})
BEHIND: Final = frozenset({"ILLEGAL_GENERATION", "FENCED_MEMBER_EPOCH"})
DUPLICATE: Final = frozenset({"FENCED_INSTANCE_ID", "UNRELEASED_INSTANCE_ID"})
BENIGN: Final = frozenset({"REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH"})


class TriedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """Offset of a rejected commit; ``committed`` is the committed offset of the partition, None if it has none."""

    topic: str
    partition: int
    offset: int
    committed: int | None


class FencedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """All rejected requests of one member with the same error, or all accepted commits of one non-member."""

    group: str
    member: MemberRef
    error: str
    verdict: str
    """Meaning of the member's requests.

    ``zombie``: a removed member that still sends requests; ``behind``: a member with an older generation;
    ``duplicate``: two processes with one instance id; ``unfenced``: an accepted commit of a non-member; ``refused``: a
    client with a rejected JoinGroup; ``benign``: normal during a rebalance; ``unknown``.
    """
    sentence: str
    noted: int
    """Number of journal entries about these requests; equal requests in one generation have only one entry."""
    by_api: dict[str, int]
    first_at_ms: int
    last_at_ms: int
    generation: int
    """Generation in the member's last rejected request; ``current`` is the generation of the group at that time."""
    current: int
    commits: int
    """Number of rejected offset commits. The new owners of the partitions consume the records again.

    For the verdict ``unfenced``: number of accepted offset commits.
    """
    tried: tuple[TriedOffset, ...] = ()
    removed_at_ms: int | None = None
    removed_why: str | None = None
    others: tuple[MemberRef, ...] = ()
    """Other clients that use the instance id of this member."""


def is_observed_only(entries: Sequence[JournalEntry]) -> bool:
    """Return True if all journal entries are from a watcher, which sees no rejected requests."""
    return all(entry.observed for entry in entries)


class _Journal:
    """Removals of members, and members of each instance id, in the journal."""

    def __init__(self, entries: Iterable[JournalEntry]) -> None:
        self.removed: dict[tuple[str, str], list[tuple[int, MemberRemoved]]] = {}
        self.instances: dict[tuple[str, str], dict[str, ClientIdentity]] = {}
        for place, entry in enumerate(entries):
            member = getattr(entry, "member", None)
            if not isinstance(member, ClientIdentity):
                continue
            if isinstance(entry, MemberRemoved) and member.member_id:
                self.removed.setdefault((entry.group, member.member_id), []).append((place, entry))
            if member.instance_id is not None:
                self.instances.setdefault((entry.group, member.instance_id), {})[_identity(member)] = member

    def removal(self, request: RequestFenced, place: int) -> MemberRemoved | None:
        known = self.removed.get((request.group, request.member.member_id), [])
        return next((entry for at, entry in reversed(known) if at < place), None)

    def same_instance(self, request: RequestFenced) -> tuple[ClientIdentity, ...]:
        """Return the other members with the instance id of the rejected request: one for each client id and host."""
        member = request.member
        known = self.instances.get((request.group, member.instance_id or ""), {})
        found = {
            (other.client_host, other.client_id): other for name, other in known.items() if name != _identity(member)
        }
        return tuple(found.values())


def find_fenced(entries: Sequence[JournalEntry]) -> list[FencedFinding]:
    """Return findings about rejected requests and about commits of non-members, those with the most requests first."""
    senders: dict[tuple[str, str, str], list[RequestFenced]] = {}
    places: dict[tuple[str, str, str], int] = {}
    for place, entry in enumerate(entries):
        if isinstance(entry, RequestFenced):
            key = (entry.group, _identity(entry.member), entry.error)
            senders.setdefault(key, []).append(entry)
            places[key] = place
    others = _Journal(entries)
    found = [_finding(requests, others, places[key]) for key, requests in senders.items()]
    non_members: dict[tuple[str, str], list[CommitUnfenced]] = {}
    for entry in entries:
        if isinstance(entry, CommitUnfenced):
            non_members.setdefault((entry.group, _identity(entry.member)), []).append(entry)
    found += [_unfenced(commits) for commits in non_members.values()]
    found += _refused_joins(entries)
    return sorted(found, key=lambda finding: (-finding.noted, finding.first_at_ms))


def _identity(member: ClientIdentity) -> str:
    return member.member_id or f"\0{member.client_id}\0{member.client_host}\0{member.instance_id}"


def _finding(requests: list[RequestFenced], journal: _Journal, place: int) -> FencedFinding:
    first, last = requests[0], requests[-1]
    removal = journal.removal(last, place)
    by_api: dict[str, int] = {}
    for request in requests:
        by_api[request.api] = by_api.get(request.api, 0) + 1
    verdict = _verdict(last.error)
    others = journal.same_instance(last) if verdict == "duplicate" else ()
    commits = sum(number for api, number in by_api.items() if api in COMMITS)
    return FencedFinding(
        group=last.group,
        member=member_ref(last.member),
        error=last.error,
        verdict=verdict,
        sentence=_sentence(verdict, requests, removal, others, commits),
        noted=len(requests),
        by_api=dict(sorted(by_api.items(), key=lambda pair: (-pair[1], pair[0]))),
        first_at_ms=first.at_ms,
        last_at_ms=last.at_ms,
        generation=last.generation,
        current=last.current,
        commits=commits,
        tried=_tried(next((r.offsets for r in reversed(requests) if r.offsets), ())),
        removed_at_ms=None if removal is None else removal.at_ms,
        removed_why=None if removal is None else removal.why,
        others=tuple(member_ref(member) for member in others),
    )


def _unfenced(commits: Sequence[CommitUnfenced]) -> FencedFinding:
    first, last = commits[0], commits[-1]
    back = sum(commit.backwards for commit in commits)
    api = "TxnOffsetCommit" if last.in_transaction else "OffsetCommit"
    went = f"; {count(back, 'offset')} moved back: records are read again" if back else ""
    return FencedFinding(
        group=last.group,
        member=member_ref(last.member),
        error="",
        verdict="unfenced",
        sentence=(
            f"{name_of(last.member)} is no member and committed offsets of the group, which is allowed: a tool, or a "
            f"consumer with assign() and the same group id{went}"
        ),
        noted=len(commits),
        by_api={api: len(commits)},
        first_at_ms=first.at_ms,
        last_at_ms=last.at_ms,
        generation=-1,
        current=-1,
        commits=len(commits),
        tried=_tried(last.offsets),
    )


def _refused_joins(entries: Iterable[JournalEntry]) -> list[FencedFinding]:
    clients: dict[tuple[str, str, str, str], list[JoinRejected]] = {}
    for entry in entries:
        if isinstance(entry, JoinRejected):
            member = entry.member
            clients.setdefault((entry.group, member.client_id, member.client_host, entry.error), []).append(entry)
    return [_refused_join(refusals) for refusals in clients.values()]


def _refused_join(refusals: Sequence[JoinRejected]) -> FencedFinding:
    first, last = refusals[0], refusals[-1]
    if last.error == GROUP_FULL:
        why = f"the group has {count(last.members, 'member')}, the most that group.max.size allows"
    else:
        why = f"{assignors_text(last)}; give every member a common entry in partition.assignment.strategy"
    return FencedFinding(
        group=last.group,
        member=member_ref(last.member),
        error=last.error,
        verdict="refused",
        sentence=f"{name_of(last.member)} could not join: {why}",
        noted=len(refusals),
        by_api={"JoinGroup": len(refusals)},
        first_at_ms=first.at_ms,
        last_at_ms=last.at_ms,
        generation=-1,
        current=-1,
        commits=0,
    )


def _tried(offsets: Sequence[OffsetMove]) -> tuple[TriedOffset, ...]:
    return tuple(TriedOffset(topic=m.topic, partition=m.partition, offset=m.after, committed=m.before) for m in offsets)


def _verdict(error: str) -> str:
    kinds = (("zombie", ZOMBIE), ("behind", BEHIND), ("duplicate", DUPLICATE), ("benign", BENIGN))
    return next((verdict for verdict, errors in kinds if error in errors), "unknown")


def _sentence(
    verdict: str,
    requests: Sequence[RequestFenced],
    removal: MemberRemoved | None,
    others: Sequence[ClientIdentity],
    commits: int,
) -> str:
    last = requests[-1]
    name = name_of(last.member)
    apis = " and ".join(sorted({printable(request.api) for request in requests}))
    took = last.at_ms - requests[0].at_ms
    over = f" for {seconds(took)}" if took else ""
    lost = "; records since its last accepted commit are read again by other members" if commits else ""
    if verdict == "zombie":
        since = "" if removal is None else f" ({kind_text(removal.why)}, {seconds(last.at_ms - removal.at_ms)} before)"
        return f"{name} is no longer a member{since} but continued to send {apis}{over}{lost}"
    if verdict == "behind":
        return (
            f"{name} is a member and sent {apis} for generation {last.generation} while the group was at "
            f"{last.current}: its handling took longer than a rebalance{lost}"
        )
    if verdict == "duplicate":
        hosts = sorted({printable(member.client_host) for member in (last.member, *others) if member.client_host})
        where = f", seen at {' and '.join(hosts)}" if len(hosts) > 1 else ""
        return (
            f"two processes have the instance id {printable(last.member.instance_id or '')}{where}: {apis} of {name} "
            f"was rejected{over}; give each process its own group.instance.id"
        )
    if verdict == "benign":
        return f"{name} sent {apis} during a rebalance, which is normal: it retries afterwards"
    return f"{apis} of {name} was rejected{over}: {printable(last.error)}"

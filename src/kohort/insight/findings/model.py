"""Findings: data classes for both group protocols and any cluster; field names are those of the JSON.

An unknown value is None, never 0. Times are in milliseconds since 1970, durations in milliseconds. Client-supplied text
is unescaped: escape it before showing it. Fields may be added with a default, but not renamed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kohort.coordinator.journal import ClientIdentity
from kohort.insight.evidence import Confidence, Evidence
from kohort.insight.names import name_of

Origin = Literal["journal", "inferred"]
"""Source of a finding: ``journal`` (entries of the coordinator) or ``inferred`` (observations of a watcher)."""


class MemberRef(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None


class EvidenceFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Fact that supports a finding: its kind, its value as text, and its time."""

    kind: str
    value: str
    at_ms: int | None = None


class MoveFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Partition whose owner changed, with its old (``from``) and new owner (``to``).

    None as an owner means no owner. If ``unowned_ms`` is None, too, the owner may also be unknown.
    """

    topic: str
    partition: int
    before: str | None = msgspec.field(name="from")
    after: str | None = msgspec.field(name="to")
    unowned_since_ms: int | None = None
    unowned_ms: int | None = None
    lag_before: int | None = None
    lag_after: int | None = None
    redelivered: int | None = None
    """Number of records that the new owner of the partition consumed again."""


class BlockerFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Member that delayed a rebalance, the length of the delay, and the reason if known."""

    member: MemberRef
    waited_ms: int
    because: str | None = None


class MemberAssignmentFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Assignment and target assignment of a consumer group's member (KIP-848); partitions look like ``topic-3``."""

    member: MemberRef
    epoch: int | None
    state: str
    known: bool
    """False if ``assignment`` may be incomplete because older journal entries have expired."""
    assignment_before: tuple[str, ...] = ()
    assignment: tuple[str, ...] = ()
    target: tuple[str, ...] | None = None
    to_revoke: tuple[str, ...] = ()
    to_revoke_since_ms: int | None = None
    still_to_get: tuple[str, ...] = ()
    awaited_from: dict[str, str] = {}
    """Partitions that the member waits for. Key: partition (``topic-3``); value: member id of its present owner."""


class RebalanceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One rebalance: cause with confidence and evidence, duration, members and moves.

    ``generation`` is the group epoch in a consumer group, and None if the rebalance did not complete. An event without
    a rebalance, such as a static takeover, is also stored in this class: its ``end`` is ``no_rebalance``.
    """

    id: str
    """``GROUP/GENERATION``; ``GROUP/after-GENERATION`` if unfinished; ``GROUP/at-MS`` for an event, not a rebalance."""
    group: str
    protocol: Literal["classic", "consumer"]
    origin: Origin = "journal"
    opened_at_ms: int
    end: str
    cause: str
    confidence: Confidence
    sentence: str
    advice: str | None = None
    evidence: tuple[EvidenceFinding, ...]
    from_generation: int | None = None
    generation: int | None = None
    target_epoch: int | None = None
    parent: int | None = None
    """Generation of the previous rebalance, if this rebalance is its follow-up (cooperative assignors)."""
    follows: str | None = None
    """Id of the earlier rebalance in which the now rejoining member was removed."""
    trigger: MemberRef | None = None
    also: tuple[str, ...] = ()
    blocker: BlockerFinding | None = None
    took_ms: int | None = None
    phases_ms: dict[str, int] = {}
    assignor: str | None = None
    leader: str | None = None
    members_before: tuple[MemberRef, ...] = ()
    members: tuple[MemberRef, ...] = ()
    departures: dict[str, str] = {}
    """Departed members. Key: member id; value: kind of departure. Kinds are ``left``, ``removed``,
    ``max_poll_exceeded``, ``session_expired``, ``join_timeout`` and others; ``departed`` if unknown.
    """
    standing: tuple[MemberAssignmentFinding, ...] = ()
    """Members of a consumer group and their assignments: at the end of the rebalance, or now if it is in flight."""
    moves: tuple[MoveFinding, ...] = ()
    unowned_partition_ms: int | None = None
    """Milliseconds without an owner, added up over all partitions."""
    stale_requests: int = 0
    """Number of requests with an old generation or member id that were rejected before the next rebalance."""

    @property
    def is_in_flight(self) -> bool:
        return self.end in ("open", "assigning", "reconciling")

    @property
    def key(self) -> tuple[str, int]:
        """Id and start time of the rebalance; several failed rebalances after one generation have the same id."""
        return self.id, self.opened_at_ms


class PatternFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Pattern that several rebalances of a group form."""

    pattern: str
    group: str
    confidence: Confidence
    sentence: str
    advice: str | None = None
    evidence: tuple[EvidenceFinding, ...]
    rebalances: tuple[str, ...]
    from_ms: int
    until_ms: int
    """End of the last rebalance in the pattern, or start of this rebalance if its end is unknown."""


def member_ref(member: ClientIdentity) -> MemberRef:
    return MemberRef(
        member_id=member.member_id, client_id=member.client_id, host=member.client_host, instance_id=member.instance_id
    )


def evidence_finding(fact: Evidence) -> EvidenceFinding:
    return EvidenceFinding(kind=fact.kind, value=fact.value, at_ms=fact.at_ms)


def name_of_member(member: MemberRef) -> str:
    return name_of(ClientIdentity(member.member_id, member.client_id, member.host, member.instance_id))

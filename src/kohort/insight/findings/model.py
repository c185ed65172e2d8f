"""The findings: plain values, the same for both group protocols and for any cluster; their fields are the JSON's.

Unknown is None, never 0. Times are milliseconds since 1970 (``at_ms``) or durations (``_ms``). What came from clients
is kept as it came: code that shows it has to escape it. A field may be added, with a default; none may be renamed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kohort.coordinator.journal import Who
from kohort.insight.evidence import Confidence, Evidence
from kohort.insight.names import name_of

Origin = Literal["journal", "inferred"]
"""Where a finding comes from: the coordinator's own journal, or what could be seen of a cluster from the outside."""
PlaceName = tuple[str, int]
"""A topic and a partition of it."""


class MemberRef(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member as people know it."""

    member_id: str
    client_id: str = ""
    host: str = ""
    instance_id: str | None = None


class EvidenceFinding(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One fact: what kind it is, its value in words, and when it was so."""

    kind: str
    value: str
    at_ms: int | None = None


class MoveFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that changed hands; None is nobody, or unknown where ``unowned_ms`` is."""

    topic: str
    partition: int
    before: str | None = msgspec.field(name="from")
    after: str | None = msgspec.field(name="to")
    unowned_since_ms: int | None = None
    unowned_ms: int | None = None
    """How long nobody had it."""
    lag_before: int | None = None
    lag_after: int | None = None
    redelivered: int | None = None
    """Records that its new owner read again."""


class BlockerFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Whom all others waited for, for how long, and why if that is known."""

    who: MemberRef
    waited_ms: int
    because: str | None = None


class StandingFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a modern group (KIP-848): what it has against what it is to have; partitions as ``topic-3``."""

    who: MemberRef
    epoch: int | None
    state: str
    known: bool
    """False where ``has`` may be more than the journal told."""
    had: tuple[str, ...] = ()
    has: tuple[str, ...] = ()
    target: tuple[str, ...] | None = None
    to_revoke: tuple[str, ...] = ()
    to_revoke_since_ms: int | None = None
    still_to_get: tuple[str, ...] = ()
    awaited_from: dict[str, str] = {}
    """Partitions that another member still has: its member id."""


class RebalanceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One rebalance: what happened, why, how sure that is and on what evidence, how long it took, what moved.

    A ``generation`` of a modern group is its epoch; None is one that did not come about. A static member that was
    replaced without a rebalance (``end`` is ``no_rebalance``) is told in the same way.
    """

    id: str
    """``GROUP/GENERATION``; ``GROUP/after-GENERATION`` where the next did not come about, ``GROUP/at-MS`` of none."""
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
    """The generation whose rebalance this one completes, as the second round of a cooperative one."""
    follows: str | None = None
    """The id of the rebalance in which the member that joins anew had been put out."""
    trigger: MemberRef | None = None
    also: tuple[str, ...] = ()
    """Further causes that fell into the same rebalance."""
    blocker: BlockerFinding | None = None
    took_ms: int | None = None
    phases_ms: dict[str, int] = {}
    assignor: str | None = None
    leader: str | None = None
    """A member id; of classic groups."""
    members_before: tuple[MemberRef, ...] = ()
    members: tuple[MemberRef, ...] = ()
    gone: dict[str, str] = {}
    """Members that went, by their ids, and how: ``left``, ``removed``, ``max_poll_exceeded``, ``session_expired``,
    ``join_timeout``, ...; ``gone`` where that is not known."""
    standing: tuple[StandingFinding, ...] = ()
    """Of modern groups: each member at the end of it, or now."""
    moves: tuple[MoveFinding, ...] = ()
    unowned_partition_ms: int | None = None
    """How long partitions had no owner, added up."""
    stale_requests: int = 0
    """Refused, of members that were out of date, until the next rebalance."""


class PatternFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What several rebalances of a group mean together."""

    pattern: str
    group: str
    confidence: Confidence
    sentence: str
    advice: str | None = None
    evidence: tuple[EvidenceFinding, ...]
    rebalances: tuple[str, ...]
    """Their ids, oldest first."""
    from_ms: int
    """When the first of them opened."""
    until_ms: int
    """When the last of them was done, as far as is known."""


def member_ref(who: Who) -> MemberRef:
    return MemberRef(
        member_id=who.member_id, client_id=who.client_id, host=who.client_host, instance_id=who.instance_id
    )


def evidence_finding(fact: Evidence) -> EvidenceFinding:
    return EvidenceFinding(kind=fact.kind, value=fact.value, at_ms=fact.at_ms)


def name_of_member(member: MemberRef) -> str:
    return name_of(Who(member.member_id, member.client_id, member.host, member.instance_id))

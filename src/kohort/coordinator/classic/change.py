"""How a rejoining member differs from what it was: the evidence for why it asked for a rebalance."""

from __future__ import annotations

from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.round import Round
from kohort.coordinator.journal import Change
from kohort.coordinator.outcome import TopicsView
from kohort.errors import ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_subscription


def change_of(this: Round, member: Member, protocols: Protocols, topics: TopicsView) -> Change:
    """Compare what ``member`` said for the selected protocol with what it says now, and the topics then and now."""
    before = after = None
    if this.protocol_type == PROTOCOL_TYPE:
        before = _subscription(member.metadata_of(this.protocol_name))
        after = _subscription(dict(protocols).get(this.protocol_name or "", b""))
    was, now = set(before.topics if before else ()), set(after.topics if after else ())
    known = before is not None and after is not None
    counts = {topic: (count, topics.partition_count(topic)) for topic, count in this.partition_counts.items()}
    return Change(
        was_leader=this.leader == member.member_id,
        protocols_before=tuple(name for name, _ in member.protocols),
        protocols_after=tuple(name for name, _ in protocols),
        topics_added=tuple(sorted(now - was)) if known else (),
        topics_removed=tuple(sorted(was - now)) if known else (),
        owned_changed=before is not None
        and after is not None
        and sorted(before.owned_partitions) != sorted(after.owned_partitions),
        partitions_changed={topic: (was, now or 0) for topic, (was, now) in counts.items() if was != now},
    )


def _subscription(blob: bytes) -> Subscription | None:
    try:
        return parse_subscription(blob)
    except ProtocolError:
        return None

"""How a rejoining member differs from what it was: the evidence for why it asked for a rebalance."""

from __future__ import annotations

from kohort.coordinator.classic.member import Member, Protocols
from kohort.coordinator.classic.round import Round
from kohort.coordinator.context import Context
from kohort.coordinator.journal import Change
from kohort.errors import ProtocolError
from kohort.wire.consumer_protocol import PROTOCOL_TYPE, Subscription, parse_subscription


def change_of(this: Round, member: Member, protocols: Protocols, ctx: Context) -> Change:
    """Compare what ``member`` said for the selected protocol with what it says now, and the topics then and now."""
    before = after = None
    topics = ctx.topics
    if this.protocol_type == PROTOCOL_TYPE:
        before = _subscription(member.metadata_of(this.protocol_name))
        after = _subscription(dict(protocols).get(this.protocol_name or "", b""))
    was, now = set(before.topics if before else ()), set(after.topics if after else ())
    known = before is not None and after is not None
    counts = {topic: (count, topics.partition_count(topic) or 0) for topic, count in this.partition_counts.items()}
    added, removed = (sorted(now - was), sorted(was - now)) if known else ([], [])
    racks = (before.rack_id, after.rack_id) if before is not None and after is not None else (None, None)
    return Change(
        was_leader=this.leader == member.member_id,
        protocols_before=tuple(name for name, _ in member.protocols),
        protocols_after=tuple(name for name, _ in protocols),
        topics_added=tuple(added),
        topics_removed=tuple(removed),
        owned_changed=before is not None
        and after is not None
        and sorted(before.owned_partitions) != sorted(after.owned_partitions),
        partitions_changed={topic: (was, now) for topic, (was, now) in counts.items() if was != now},
        topics_made=tuple(t for t in added if (at := topics.made_at_ms(t)) is not None and at >= this.opened_at_ms),
        topics_gone=tuple(t for t in removed if topics.partition_count(t) is None),
        racks=racks if racks[0] != racks[1] else None,
    )


def _subscription(blob: bytes) -> Subscription | None:
    try:
        return parse_subscription(blob)
    except ProtocolError:
        return None

"""What the leader of a classic group does: it computes everybody's assignment, and watches for what would change it.

It needs the metadata of every topic that anybody in the group reads, so the computation waits until that is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, ErrorCode
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import Assignment, build_assignment, parse_subscription
from kohort.wire.messages.group_classic import JoinGroupResponseMember, SyncGroupRequestAssignment

METADATA_WAIT_MS: Final = 10_000
"""How long the rest of the group is kept waiting for metadata; then topics that are not known get no owner."""


class GroupLeader:
    """One member's time as leader, from its election to the next join."""

    def __init__(self, assignors: Mapping[str, Assignor], metadata: Metadata, subscription: SubscriptionState) -> None:
        self._assignors = assignors
        self._metadata = metadata
        self._subscription = subscription
        self._assignor: Assignor | None = None
        self._members: list[MemberSubscription] = []
        self._deadline_ms = 0
        self._seen: SubscribedTopics | None = None
        self._seen_version = -1

    def elect(
        self, protocol_name: str, members: Sequence[JoinGroupResponseMember], *, skip_assignment: bool, now_ms: int
    ) -> None:
        """Lead the generation. Raises ApiError for a protocol that this member did not offer."""
        assignor = self._assignors.get(protocol_name)
        if assignor is None:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the group chose {protocol_name!r}")
        self._assignor = None if skip_assignment else assignor
        self._members = [_member(m) for m in members]
        self._deadline_ms = now_ms + METADATA_WAIT_MS
        self._subscription.lead({topic for member in self._members for topic in member.topics})

    def resign(self) -> None:
        """Lead no more: another generation begins, or none."""
        self._members = []
        self._assignor = self._seen = None
        self._seen_version = -1
        if self._subscription.group_topics:
            self._subscription.lead(())

    def assignments(self, now_ms: int) -> list[SyncGroupRequestAssignment] | None:
        """Return what SyncGroup carries; None while metadata is still to come. Nothing where the coordinator said to
        skip."""
        if self._lacks_metadata() and now_ms < self._deadline_ms:
            return None
        self._seen = self._topics()
        if self._assignor is None:
            return []
        assignment = self._assignor.assign(self._seen, self._members)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=build_assignment(Assignment(partitions)))
            for member_id, partitions in assignment.items()
        ]

    @property
    def wake_at_ms(self) -> int:
        """Until when metadata is waited for."""
        return self._deadline_ms

    def is_out_of_date(self) -> bool:
        """Tell whether the partitions of the group's topics, or their racks, changed since the assignment was made."""
        if self._seen is None or self._seen_version == self._metadata.version:
            return False
        self._seen_version = self._metadata.version
        return self._topics() != self._seen

    def _lacks_metadata(self) -> bool:
        metadata = self._metadata
        return any(metadata.topic(t) is None and metadata.error(t) is None for t in self._subscription.group_topics)

    def _topics(self) -> SubscribedTopics:
        counts: dict[str, int] = {}
        for name in self._subscription.group_topics:
            count = self._metadata.partition_count(name)
            if count is not None:
                counts[name] = count
        return SubscribedTopics(counts, self._racks(counts) if any(m.rack for m in self._members) else {})

    def _racks(self, counts: Mapping[str, int]) -> dict[TopicPartition, frozenset[str]]:
        racks: dict[TopicPartition, frozenset[str]] = {}
        for name in counts:
            info = self._metadata.topic(name)
            for number, partition in (info.partitions if info is not None else {}).items():
                nodes = [self._metadata.node(node_id) for node_id in partition.replicas]
                racks[TopicPartition(name, number)] = frozenset(n.rack for n in nodes if n is not None and n.rack)
        return racks


def _member(member: JoinGroupResponseMember) -> MemberSubscription:
    said = parse_subscription(member.metadata)
    return MemberSubscription(
        member_id=member.member_id,
        topics=tuple(said.topics),
        instance_id=member.group_instance_id,
        owned=tuple(said.owned_partitions),
        generation=None if said.generation_id < 0 else said.generation_id,
        rack=said.rack_id or "",
        user_data=said.user_data,
    )

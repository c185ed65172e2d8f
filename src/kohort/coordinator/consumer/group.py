"""State of a consumer group (KIP-848): persisted records, indices over them, and volatile state.

The rules: protocol/consumer-groups.md#group-epoch. Replay changes the persisted state (``replaying.py``). Decisions
change only ``presence`` and ``volatile``.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from kohort.assignors.server.spec import MemberSpec
from kohort.coordinator.classic.group import ClassicGroups
from kohort.coordinator.consumer.member import ConsumerMember, ConsumerPresence
from kohort.coordinator.consumer.reconcile import NO_TARGET, ReconciliationState, Target
from kohort.coordinator.consumer.subscribed_topics import TopicSearch, TopicsOfGroup
from kohort.coordinator.journal import Move
from kohort.coordinator.outcome import MayDescribe, may_describe_all
from kohort.errors import ApiError, ErrorCode
from kohort.steps import Steps
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue as ConsumerMetadata
from kohort.wire.messages.consumer_group_records import ConsumerGroupRegularExpressionValue

FIRST_EPOCH: Final = 1
"""Group epoch of a new consumer group. The first subscription raises it to 2."""
NO_OWNER: Final = -1


class ConsumerGroupState(Enum):
    """State of a consumer group, derived from its members, never persisted. The enum value is its name in responses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ComputedTarget(NamedTuple):
    """Result of the assignor for one epoch of a consumer group."""

    epoch: int
    specs: Mapping[str, MemberSpec]
    targets: Mapping[str, Target]
    changed: Sequence[str]
    """Ids of the members whose target assignment changed, in the order in which Kafka writes their records."""
    assignor: str
    moves: tuple[Move, ...]


@dataclass(slots=True)
class PendingTarget:
    """Target assignment of a large group, while it is computed and persisted in steps. A timer starts each step."""

    epoch: int = sys.maxsize
    steps: Steps[ComputedTarget] | None = None
    computed: ComputedTarget | None = None
    written: int = 0
    """Number of members in ``computed.changed`` whose target assignments are already persisted."""
    error: ApiError | None = None


@dataclass(slots=True)
class VolatileState:
    """Volatile state of a consumer group. It is never persisted, so it is empty after the load of the group."""

    checked_topics_version: int = -1
    """``TopicsView.version`` at the last heartbeat that found the group's topic hash unchanged."""
    topics: TopicsOfGroup | None = None
    """Existing topics to which the group subscribes. None after the group was loaded, until its next heartbeat."""
    subscriptions: dict[str, Any] = field(default_factory=dict)
    """Subscriptions used for the last target assignment, as a dict: member id -> ``ResolvedSubscription``."""
    pending_target: PendingTarget | None = None
    converted_amid_rebalance: bool = False
    """True if the group was converted from a classic group during a rebalance. Its members have no assignment yet."""
    regexes_refreshed_ms: int | None = None
    regexes_topics_version: int = -1
    regex_may_describe: MayDescribe = may_describe_all
    """Function that returns True if the client that began the topic search may describe a topic (ACL)."""
    resolving: TopicSearch | None = None
    fenced: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """Keys of this epoch's refused requests that have a journal entry: (member id or client, API, error)."""
    fenced_in_epoch: int = 0
    epoch_raised_ms: int | None = None
    revoking_since_ms: dict[str, int] = field(default_factory=dict)
    """Start of each member's revocations, as a dict: member id -> time in ms."""
    released_ms: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """Time at which each partition became unowned, as a dict: (topic id, partition number) -> time in ms."""

    def note_released(self, held: Iterable[tuple[bytes, int, int]], now_ms: int) -> None:
        for topic_id, partition, _ in held:
            self.released_ms[topic_id, partition] = now_ms


class ModernGroup:
    """Consumer group (KIP-848; Kafka's ModernGroup): persisted state, and indices that keep heartbeats cheap."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_at_ms = 0
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        # Indices of the persisted state, updated by replay.
        self.most_members = 0
        """Largest number of members that the group ever had.

        Kafka's member table never shrinks, so this number determines its order.
        """
        self.instances: dict[str, str] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        """Owner of each partition, as a dict: (topic id, number) -> member id.

        The owner changes only after its revocation.
        """
        self.subscribers: Counter[str] = Counter()
        """For each topic: number of members that subscribe to it by its name."""
        self.regex_users: Counter[str] = Counter()
        """For each subscription pattern: number of members that use it."""
        self.matched: Counter[str] = Counter()
        """For each topic: number of subscription patterns that match it."""
        self.assignor_votes: Counter[str] = Counter()
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        """For each protocol name: number of classic members that offer it."""
        # Volatile state: replay does not restore it.
        self.presence: dict[str, ConsumerPresence] = {}
        self.volatile = VolatileState()

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if any(not self.is_settled(member) for member in self.members.values()):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def is_settled(self, member: ConsumerMember) -> bool:
        return member.current.state is ReconciliationState.STABLE and member.epoch == self.target_epoch

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        member_id = self.owners.get((topic_id, partition))
        return NO_OWNER if member_id is None else self.members[member_id].epoch

    def target(self, member_id: str) -> Target:
        return self.targets.get(member_id, NO_TARGET)

    def subscribes_to(self, topic: str) -> bool:
        return topic in self.subscribers or topic in self.matched

    def subscribed_names(self) -> Collection[str]:
        if not self.matched:
            return self.subscribers.keys()
        return self.subscribers.keys() | self.matched.keys()

    def topics_of(self, metadata: ConsumerMetadata) -> set[str]:
        return {*metadata.subscribed_topic_names, *self.matches_of(metadata)}

    def matches_of(self, metadata: ConsumerMetadata) -> tuple[str, ...]:
        """Return the topics that match the subscription pattern in ``metadata``."""
        resolved = self.regexes.get(metadata.subscribed_topic_regex or "")
        return () if resolved is None else tuple(resolved.topics)

    def check_member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Return the member with this member id and, if given, instance id.

        Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            static_member = self.static_member(instance_id)
            if static_member is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if static_member.member_id != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"Static member {member_id} with instance id {instance_id} was fenced by member "
                    f"{static_member.member_id}.",
                )
            return static_member
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    @property
    def is_blank(self) -> bool:
        return not self.members and self.epoch == self.target_epoch == FIRST_EPOCH and not self.regexes


class ConsumerGroups(ClassicGroups):
    """Groups of a ``__consumer_offsets`` partition: consumer groups in ``consumer``, classic ones in ``by_id``."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: dict[str, ModernGroup] = {}


def check_consumer_group(groups: ConsumerGroups, group_id: str) -> ModernGroup:
    group = groups.consumer.get(group_id)
    if group is not None:
        return group
    if group_id in groups.by_id:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

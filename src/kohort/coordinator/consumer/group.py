"""State of a consumer group (KIP-848): persisted records, indices over them, and volatile state.

The rules: protocol/consumer-groups.md#group-epoch. Replay changes the persisted state (``replaying.py``); decisions
change ``presence`` and ``volatile`` alone.
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
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)

FIRST_EPOCH: Final = 1
"""Epoch of a group without records. The first subscription makes it 2: the first epoch that a member sees."""
NO_OWNER: Final = -1


class ConsumerGroupState(Enum):
    """The value is the name on the wire. A state is derived, and never written."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ComputedTarget(NamedTuple):
    """A target assignment for one epoch of a group."""

    epoch: int
    specs: Mapping[str, MemberSpec]
    targets: Mapping[str, Target]
    changed: Sequence[str]
    """Members whose target is another than before, in Kafka's order."""
    assignor: str
    moves: tuple[Move, ...]


@dataclass(slots=True)
class PendingTarget:
    """Target of a large group that a timer computes and writes in steps."""

    epoch: int = sys.maxsize
    steps: Steps[ComputedTarget] | None = None
    computed: ComputedTarget | None = None
    written: int = 0
    """How many of ``computed.changed`` are written."""
    error: ApiError | None = None


@dataclass(slots=True)
class VolatileState:
    """What a broker that takes over finds out anew."""

    checked_topics_version: int = -1
    """Version of all topics at the last comparison of the hash (``TopicsView.version``)."""
    topics: TopicsOfGroup | None = None
    """Existing topics that members subscribe to; None where the group was loaded and no heartbeat needed them yet."""
    subscriptions: dict[str, Any] = field(default_factory=dict)
    """Resolved subscription of each member as of the last target."""
    pending_target: PendingTarget | None = None
    converted_amid_rebalance: bool = False
    """Converted from a classic group amid a rebalance: the members have no assignment yet."""
    regexes_refreshed_ms: int | None = None
    regexes_topics_version: int = -1
    regex_may_describe: MayDescribe = may_describe_all
    """Topics that the sender of the heartbeat may describe that made a resolution due."""
    resolving: TopicSearch | None = None
    fenced: set[tuple[str, str, str]] = field(default_factory=set)
    """Refusals of this epoch in the journal: client or member, API, error."""
    fenced_in_epoch: int = 0
    epoch_raised_ms: int | None = None
    """When the epoch of the group rose."""
    revoking_since_ms: dict[str, int] = field(default_factory=dict)
    """When each member began to revoke."""
    released_ms: dict[tuple[bytes, int], int] = field(default_factory=dict)
    """When each partition became unowned."""

    def note_released(self, held: Iterable[tuple[bytes, int, int]], now_ms: int) -> None:
        """Note that nobody has these any more: topic id, partition, epoch."""
        for topic_id, partition, _ in held:
            self.released_ms[topic_id, partition] = now_ms


class ModernGroup:
    """What is written, by kind of record; and indices over it, kept by replay, so that a heartbeat costs the same in a
    group of a thousand as in a group of two."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.target_epoch = FIRST_EPOCH
        self.target_at_ms = 0
        self.targets: dict[str, Target] = {}
        self.regexes: dict[str, ConsumerGroupRegularExpressionValue] = {}
        # Indices over what is written.
        self.most_members = 0
        """Most members at a time: Kafka's table of members, whose order matters, never shrinks."""
        self.instances: dict[str, str] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        """Topic id and partition to the member that it is assigned to, or that is yet to revoke it."""
        self.subscribers: Counter[str] = Counter()
        """How many members name a topic."""
        self.regex_users: Counter[str] = Counter()
        """How many members subscribe by an expression."""
        self.matched: Counter[str] = Counter()
        """How many expressions were found to match a topic."""
        self.assignor_votes: Counter[str] = Counter()
        self.classic_members = 0
        self.classic_protocols: Counter[str] = Counter()
        """How many classic members offer each protocol."""
        # What is not written.
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
        """Tell whether the assignment of a member is its target."""
        return member.current.state is ReconciliationState.STABLE and member.epoch == self.target_epoch

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """Return the epoch of the member that has a partition, or ``NO_OWNER`` if it may be given to anybody."""
        member_id = self.owners.get((topic_id, partition))
        return NO_OWNER if member_id is None else self.members[member_id].epoch

    def target(self, member_id: str) -> Target:
        """Return the target assignment of a member."""
        return self.targets.get(member_id, NO_TARGET)

    def subscribes_to(self, topic: str) -> bool:
        """Tell whether a member does, by name or by an expression."""
        return topic in self.subscribers or topic in self.matched

    def subscribed_names(self) -> Collection[str]:
        """Return all names that members subscribe to, by name or by an expression."""
        if not self.matched:
            return self.subscribers.keys()
        return self.subscribers.keys() | self.matched.keys()

    def topics_of(self, metadata: ConsumerGroupMemberMetadataValue) -> set[str]:
        """Return the topic names of a member's subscription, with the matches of its pattern."""
        return {*metadata.subscribed_topic_names, *self.matches_of(metadata)}

    def matches_of(self, metadata: ConsumerGroupMemberMetadataValue) -> tuple[str, ...]:
        """Return the topics that the expression was found to match of a member that says ``metadata``, in order."""
        resolved = self.regexes.get(metadata.subscribed_topic_regex or "")
        return () if resolved is None else tuple(resolved.topics)

    def check_member(self, member_id: str) -> ConsumerMember:
        """Return a member. Raises UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the static member with an instance id."""
        member_id = None if instance_id is None else self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def check_static(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Return a static member. Raises UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID for the id of another member."""
        static_member = self.static_member(instance_id)
        if static_member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if static_member.member_id != member_id:
            fenced = f"Static member {member_id} with instance id {instance_id} was fenced"
            raise ApiError(ErrorCode.FENCED_INSTANCE_ID, f"{fenced} by member {static_member.member_id}.")
        return static_member

    @property
    def is_blank(self) -> bool:
        """Nothing is written of it: it need not be remembered."""
        return not self.members and self.epoch == self.target_epoch == FIRST_EPOCH and not self.regexes


class ConsumerGroups(ClassicGroups):
    """A group is either in ``consumer`` or in ``by_id``, which has the classic groups, and those that only hold
    offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: dict[str, ModernGroup] = {}


def check_consumer_group(groups: ConsumerGroups, group_id: str) -> ModernGroup:
    """Return a consumer group. Raises GROUP_ID_NOT_FOUND."""
    group = groups.consumer.get(group_id)
    if group is None:
        raise not_found(other_kind(group_id) if group_id in groups.by_id else f"Group {group_id} not found.")
    return group


def other_kind(group_id: str) -> str:
    """Return the message for a classic group."""
    return f"Group {group_id} is not a consumer group."


def not_found(problem: str) -> ApiError:
    """Return GROUP_ID_NOT_FOUND with these words."""
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, problem)

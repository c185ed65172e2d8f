"""Subscription and assigned partitions of a consumer, for all modes: topics, a pattern, manual assignment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, Literal, NamedTuple

import msgspec

from kohort.client.requests.metadata import LeaderAndEpoch, Metadata
from kohort.client.user_input import is_topic_name
from kohort.errors import UsageError
from kohort.model import NO_EPOCH, OffsetAndMetadata, SubscriptionPattern, TopicPartition


class FetchState(Enum):
    INITIALIZING = auto()
    AWAIT_RESET = auto()
    AWAIT_VALIDATION = auto()
    FETCHING = auto()


FETCHING: Final = FetchState.FETCHING
"""FetchState.FETCHING as a constant, read for every record: in Python 3.11 an Enum lookup takes ten times as long."""


class Position(msgspec.Struct, frozen=True, gc=False):
    """Offset of the next record, and leader epoch of the batch that precedes it (-1: unknown)."""

    offset: int
    offset_epoch: int = NO_EPOCH


class TransitionCount:
    """Number of state changes of all partitions. When it increases, results computed from the states are outdated."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class DamagedBatch(NamedTuple):
    """Damaged bytes in a partition: offset, checksum, and number of damaged fetches at that offset."""

    offset: int
    checksum: int
    times: int


@dataclass(slots=True, eq=False)
class PartitionState:
    """Position of one partition, and whether the consumer may fetch there (protocol/fetching.md#positions).

        INITIALIZING ──committed offset──▶ AWAIT_VALIDATION ──same history──▶ FETCHING
             │                                   │ truncated                      │ newer leader epoch,
             └──nothing committed──▶ AWAIT_RESET ◀┘ ◀───── offset out of range ───┘ back to AWAIT_VALIDATION

    ``position`` is the next record to return, ``fetch_offset`` the next to fetch; records between them are buffered.
    Seek, reset and truncation increase the position number ``run``; fetches with a lower number are dropped.
    """

    transitions: TransitionCount = field(default_factory=TransitionCount)
    state: FetchState = FetchState.INITIALIZING
    position: Position | None = None
    topic_id: bytes | None = None
    """Id of the topic to which ``position`` refers: a recreated topic has another id.

    None between a seek and the next fetch, and if the cluster has no topic ids.
    """
    fetch_offset: int = 0
    run: int = 0
    paused: bool = False
    pending_revocation: bool = False
    reset_to: str = ""
    """Policy of the offset reset in flight: ``earliest``, ``latest``, or ``by_duration:`` and a duration."""
    leader: LeaderAndEpoch | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    log_start_offset: int | None = None
    preferred_replica: int = -1
    preferred_until_ms: int = 0
    retry_at_ms: int = 0
    refusals: int = 0
    looking_up: bool = False
    stuck: bool = False
    """True if fetches wait for a seek by the user: the log is corrupt, or the offset is out of range."""
    damage: DamagedBatch | None = None

    @property
    def fetchable(self) -> bool:
        return self.state is FETCHING and not self.paused and not self.pending_revocation

    @property
    def has_position(self) -> bool:
        return self.position is not None and self.state in (FetchState.FETCHING, FetchState.AWAIT_VALIDATION)

    def seek(self, position: Position, leader: LeaderAndEpoch | None = None, *, trusted: bool = False) -> None:
        """Move to ``position``. Its leader epoch is validated before the next fetch.

        ``trusted``: the current leader returned the position, so no validation is needed.
        """
        self._start_run()
        self.position = position
        self.fetch_offset = position.offset
        self.leader = leader
        needs_validation = position.offset_epoch != NO_EPOCH and not trusted
        self._go(FetchState.AWAIT_VALIDATION if needs_validation else FetchState.FETCHING)

    def await_reset(self, policy: str) -> None:
        self._start_run()
        self.position = None
        self.reset_to = policy
        self._go(FetchState.AWAIT_RESET)

    def await_validation(self) -> None:
        """Validate the position with a new leader. Drop buffered records: the new leader's log may lack them."""
        assert self.position is not None
        self._start_run()
        self.fetch_offset = self.position.offset
        self._go(FetchState.AWAIT_VALIDATION)

    def validated(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        self._go(FetchState.FETCHING)

    def advance(self, offset: int, epoch: int) -> None:
        self.position = Position(offset, epoch)

    def to_commit(self) -> OffsetAndMetadata | None:
        if self.position is None or not self.has_position:
            return None
        return OffsetAndMetadata(self.position.offset, "", self.position.offset_epoch)

    def lag(self, *, read_committed: bool) -> int | None:
        end = self.last_stable_offset if read_committed else self.high_watermark
        return None if self.position is None or end is None else max(0, end - self.position.offset)

    def _go(self, state: FetchState) -> None:
        self.state = state
        self.transitions.count += 1

    def _start_run(self) -> None:
        self.run += 1
        self.retry_at_ms = 0
        self.looking_up = False
        self.stuck = False


class Mode(Enum):
    NONE = "nothing", False
    TOPICS = "topics", True
    PATTERN = "a pattern", True
    SERVER_PATTERN = "a SubscriptionPattern", True
    PARTITIONS = "partitions", False

    def __init__(self, text: str, is_group: bool) -> None:
        self.text = text
        self.is_group = is_group


class SubscriptionState:
    def __init__(self, metadata: Metadata, *, exclude_internal_topics: bool = True) -> None:
        self.mode = Mode.NONE
        self.topics: frozenset[str] = frozenset()
        self.group_topics: frozenset[str] = frozenset()
        """Topics that the group's members subscribe to, if this member is the group leader; otherwise empty."""
        self.read_from_start: frozenset[str] = frozenset()
        """Topics that start at the log start without a committed offset, regardless of ``auto.offset.reset``."""
        self.assigned: dict[TopicPartition, PartitionState] = {}
        self._transitions = TransitionCount()
        self._not_fetching: list[tuple[TopicPartition, PartitionState]] = []
        self._not_fetching_of: tuple[object, int] = (None, 0)
        self._metadata = metadata
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: SubscriptionPattern | None = None
        self._topic_ids: frozenset[bytes] = frozenset()
        self._exclude_internal = exclude_internal_topics
        self._matched_version = -1
        self._pattern_version = -1

    def subscribe(self, topics: Iterable[str]) -> None:
        names = frozenset(topics)
        bad = [name for name in names if not is_topic_name(name)]
        if bad:
            raise UsageError(f"subscribe: topic names must be text that is not blank, not {', '.join(map(repr, bad))}")
        self._set_mode(Mode.TOPICS)
        self.topics = names
        self.track_topics()

    def subscribe_pattern(self, pattern: re.Pattern[str]) -> None:
        self._set_mode(Mode.PATTERN)
        self.pattern = pattern
        self._matched_version = -1
        self._pattern_version = self._metadata.version
        self.track_topics()
        self.match_pattern()

    def subscribe_server_pattern(self, pattern: SubscriptionPattern) -> None:
        """Subscribe with a pattern that the coordinator evaluates. The client learns the topics from its assignment."""
        self._set_mode(Mode.SERVER_PATTERN)
        self.server_pattern = pattern
        self.track_topics()

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = dict.fromkeys(partitions)
        self._set_mode(Mode.PARTITIONS)
        self._replace(chosen)
        self.topics = frozenset(p.topic for p in chosen)
        self.track_topics()

    def unsubscribe(self) -> None:
        self.mode = Mode.NONE
        self.topics = self.group_topics = frozenset()
        self.pattern = self.server_pattern = None
        self._topic_ids = frozenset()
        self.assigned.clear()
        self._transitions.count += 1
        self.track_topics()

    def match_pattern(self) -> None:
        pattern, metadata = self.pattern, self._metadata
        if pattern is not None and self._matched_version != metadata.version:
            self._matched_version = metadata.version
            self.topics = frozenset(
                name
                for name in metadata.topics()
                if pattern.fullmatch(name) and not (self._exclude_internal and metadata.is_internal(name))
            )

    @property
    def pattern_was_matched(self) -> bool:
        answered = self._metadata.version > self._pattern_version or not self._metadata.refresh_pending
        return bool(self.topics) or answered

    def matches(self, partitions: Iterable[TopicPartition]) -> bool:
        """True if the partitions match the present subscription, which may have changed since the member's join."""
        if self.pattern is not None:
            return all(self.pattern.fullmatch(p.topic) for p in partitions)
        return all(p.topic in self.topics for p in partitions)

    def set_group_topics(self, topics: Iterable[str]) -> None:
        self.group_topics = frozenset(topics)
        self.track_topics()

    def track_ids(self, topic_ids: Iterable[bytes]) -> None:
        """Track metadata of assigned topics by id, if the subscription is a pattern that the coordinator matches."""
        self._topic_ids = frozenset(topic_ids)
        if self.mode is Mode.SERVER_PATTERN:
            self.track_topics()

    def track_topics(self) -> None:
        if self.mode is Mode.PATTERN:
            self._metadata.track_all()
        elif self.mode is Mode.SERVER_PATTERN:
            self._metadata.track_ids(self._topic_ids)
        else:
            self._metadata.track(self.topics | self.group_topics)

    def _set_mode(self, mode: Mode) -> None:
        if self.mode not in (Mode.NONE, mode):
            raise UsageError(f"subscribed to {self.mode.text}: call unsubscribe() before changing to {mode.text}")
        self.mode = mode

    def assign_from_group(self, partitions: Iterable[TopicPartition]) -> None:
        chosen = dict.fromkeys(partitions)
        self._replace(chosen)
        if self.mode is Mode.PATTERN:
            self.topics |= {p.topic for p in chosen}
        elif self.mode is Mode.SERVER_PATTERN:
            self.topics = frozenset(p.topic for p in chosen)

    def _replace(self, partitions: Mapping[TopicPartition, None]) -> None:
        self.assigned = {p: self.assigned.get(p) or PartitionState(self._transitions) for p in partitions}

    @property
    def not_fetching(self) -> Sequence[tuple[TopicPartition, PartitionState]]:
        """Assigned partitions without a valid position, and their states.

        The request engine reads this list after every read of bytes, so it is cached until a partition's state changes.
        """
        assigned, count = self.assigned, self._transitions.count
        if self._not_fetching_of[0] is not assigned or self._not_fetching_of[1] != count:
            self._not_fetching = [(p, s) for p, s in assigned.items() if s.state is not FetchState.FETCHING]
            self._not_fetching_of = (assigned, count)
        return self._not_fetching

    def state(self, partition: TopicPartition) -> PartitionState:
        state = self.assigned.get(partition)
        if state is None:
            raise UsageError(f"{TopicPartition(*partition)} is not assigned to this consumer")
        return state

    def seek(self, partition: TopicPartition, position: Position) -> None:
        if position.offset < 0:
            raise UsageError(f"seek: offset {position.offset} of {TopicPartition(*partition)} is negative")
        state = self.state(partition)
        state.seek(position)
        state.topic_id = None

    def seek_to(self, partitions: Iterable[TopicPartition], reset: Literal["earliest", "latest"]) -> None:
        for state in [self.state(p) for p in list(partitions) or list(self.assigned)]:
            state.await_reset(reset)

    def set_paused(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        for state in [self.state(p) for p in partitions]:
            state.paused = paused

    def recreated(self) -> list[TopicPartition]:
        return [
            partition
            for partition, state in self.assigned.items()
            if state.topic_id is not None
            and state.position is not None
            and self._metadata.topic_id(partition.topic) not in (None, state.topic_id)
        ]

    def restart(self, partition: TopicPartition) -> PartitionState:
        before = self.assigned[partition]
        state = PartitionState(self._transitions, paused=before.paused, pending_revocation=before.pending_revocation)
        self.assigned = {**self.assigned, partition: state}
        return state

    def check_leaders(self) -> None:
        """Start the validation of positions whose partition has another leader or leader epoch (KIP-320)."""
        for partition, state in self.assigned.items():
            if state.state is not FetchState.FETCHING or state.leader is None or state.position is None:
                continue
            leader = self._metadata.leader(partition)
            if leader is None or leader.epoch <= state.leader.epoch:
                continue
            if state.position.offset_epoch < 0:
                state.leader = leader
            else:
                state.await_validation()

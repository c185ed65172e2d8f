"""What the group committed: for the user who asks, and as the start of newly assigned partitions.

The rules: protocol/offsets.md#where-a-partition-starts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kohort.client.group.membership_classic import COORDINATOR_MOVED
from kohort.client.group.offset_messages import BY_NAME_FETCH, FetchedOffset, build_fetch, fetched_offsets, shape_fetch
from kohort.client.reading.positions import FetchState, PartitionState, Position
from kohort.client.reading.subscription import SubscriptionState
from kohort.client.requests.backoff import Backoff
from kohort.client.requests.find_coordinator import COORDINATOR_LANE, CoordinatorLookup
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.promise import Promise
from kohort.client.requests.source import IDLE, Poll, Unsent
from kohort.client.requests.troubles import Troubles
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ApiTimeout, ErrorCode, KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.wire.messages.offsets import OffsetFetchResponse
from kohort.wire.schema import Message

Committed = dict[TopicPartition, OffsetAndMetadata | None]

COMMITTED: Final = "committed"


@dataclass(slots=True, eq=False)
class _Ask:
    """Offsets asked for: by the user (``promise``), or for the start of partitions (``starts``, with their runs)."""

    partitions: list[TopicPartition]
    promise: Promise[Committed] | None = None
    starts: dict[TopicPartition, tuple[PartitionState, int]] = field(default_factory=dict)
    deadline_ms: int | None = None
    retry_at_ms: int = 0
    failures: int = 0


class CommittedOffsets:
    """The source that reads offsets."""

    def __init__(
        self,
        config: ConsumerConfig,
        lookup: CoordinatorLookup,
        subscription: SubscriptionState,
        metadata: Metadata,
        rng: Rng,
        raise_later: Callable[[KohortError], None],
        no_offset: Callable[[TopicPartition, PartitionState], None],
        troubles: Troubles,
    ) -> None:
        assert config.group_id is not None
        self._group_id: str = config.group_id
        self._config = config
        self._lookup = lookup
        self._subscription = subscription
        self._metadata = metadata
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._raise_later = raise_later
        self._no_offset = no_offset
        self._troubles = troubles
        self._waiting: list[_Ask] = []

    def committed(self, partitions: Collection[TopicPartition], deadline_ms: int) -> Promise[Committed]:
        """What the group committed for these partitions; None where nothing."""
        promise: Promise[Committed] = Promise()
        if partitions:
            self._waiting.append(_Ask(list(partitions), promise, deadline_ms=deadline_ms))
        else:
            promise.resolve({})
        return promise

    # The source

    def poll(self, now_ms: int) -> Poll:
        self._start_partitions(now_ms)
        if not self._waiting:
            return IDLE
        self._expire(now_ms)
        node_id = self._lookup.require()
        wakes = [a.deadline_ms for a in self._waiting if a.deadline_ms is not None]
        if node_id is None:
            return Poll(wake_at_ms=min(wakes, default=None))
        due = [a for a in self._waiting if a.retry_at_ms <= now_ms]
        self._waiting = [a for a in self._waiting if a.retry_at_ms > now_ms]
        wakes += [a.retry_at_ms for a in self._waiting]
        return Poll([self._send(node_id, ask) for ask in due], min(wakes, default=None))

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, OffsetFetchResponse)
        code, found = fetched_offsets(response, self._metadata.topic_name)
        failed = {p: f.code for p, f in found.items() if f.code is not ErrorCode.NONE}
        if code is ErrorCode.NONE and not failed:
            self._troubles.mended(COMMITTED, f"the committed offsets of group {self._group_id!r} are known", now_ms)
            self._settle(sent.context, found)
            return
        what = f"the committed offsets of group {self._group_id!r}"
        if code is ErrorCode.NONE:
            partition, code = next(iter(failed.items()))
            what = f"the committed offset of {partition} in group {self._group_id!r}"
        if code in COORDINATOR_MOVED:
            self._lookup.mark_unknown()
        if code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._metadata.request_refresh()
        # An unknown partition is the user's mistake, although the code is retriable elsewhere.
        lasting = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or not (code.retriable or code in COORDINATOR_MOVED)
        if not lasting:
            self._troubles.refused(COMMITTED, code, what, now_ms)
        self._failed(sent.context, ApiError(code, what), now_ms, lasting=lasting)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if error.retriable:
            self._lookup.mark_unknown()
        self._failed(sent.context, error, now_ms, lasting=not error.retriable)

    def _expire(self, now_ms: int) -> None:
        late = [a for a in self._waiting if a.deadline_ms is not None and a.deadline_ms <= now_ms]
        for ask in late:
            self._waiting.remove(ask)
            if ask.promise is not None:
                ask.promise.fail(ApiTimeout(f"the offsets of group {self._group_id!r} could not be read in time"))

    def _start_partitions(self, now_ms: int) -> None:
        """Ask for the committed offsets of partitions that have no position yet."""
        starts = {
            p: (s, s.run)
            for p, s in self._subscription.unsettled
            if s.state is FetchState.INITIALIZING and not s.looking_up and s.retry_at_ms <= now_ms
        }
        if starts:
            for state, _ in starts.values():
                state.looking_up = True
            self._waiting.append(_Ask(list(starts), starts=starts))

    def _send(self, node_id: int, ask: _Ask) -> Unsent:
        ids = {topic: self._metadata.topic_id(topic) for topic in {p.topic for p in ask.partitions}}
        return Unsent(
            node_id,
            build_fetch(self._group_id, ask.partitions, ids),
            self._config.request_timeout_ms,
            lane=COORDINATOR_LANE,
            max_version=None if all(ids.values()) else BY_NAME_FETCH,
            context=ask,
            shape=shape_fetch,
        )

    def _failed(self, ask: _Ask, error: KohortError, now_ms: int, *, lasting: bool) -> None:
        ask.failures += 1
        ask.retry_at_ms = now_ms + self._backoff.delay_ms(ask.failures)
        if not lasting:
            self._waiting.append(ask)
        elif ask.promise is not None:
            ask.promise.fail(error)
        else:
            for state, run in ask.starts.values():
                if state.run == run:
                    state.looking_up = False
                    state.retry_at_ms = ask.retry_at_ms
            self._raise_later(error)

    def _settle(self, ask: _Ask, found: Mapping[TopicPartition, FetchedOffset]) -> None:
        if ask.promise is not None:
            ask.promise.resolve({p: found[p].committed if p in found else None for p in ask.partitions})
            return
        for partition, (state, run) in ask.starts.items():
            if state.run != run or state.state is not FetchState.INITIALIZING:
                continue  # the user has sought meanwhile
            state.looking_up = False
            committed = found[partition].committed if partition in found else None
            if committed is None:
                self._no_offset(partition, state)
            else:
                state.seek(Position(committed.offset, committed.leader_epoch), self._metadata.leader(partition))

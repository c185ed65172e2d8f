"""Consumer logic without I/O, shared by the blocking and the asyncio consumer.

The caller holds its lock during each method call. It releases the lock to run listeners, decode records and wait.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kohort.client.group.commits import Offsets
from kohort.client.group.committed import Committed
from kohort.client.group.group import Group, group_of
from kohort.client.group.membership import NO_GENERATION, CallbackNeeded
from kohort.client.metrics.counts import ReadingMetrics, SampleWindows
from kohort.client.reading.context import ConsumerContext, Failures
from kohort.client.reading.fetched import Fetched
from kohort.client.reading.fetcher import PREFETCH_BYTES, Fetcher, PartitionFilter
from kohort.client.reading.list_offsets import Listed, OffsetQueries
from kohort.client.reading.resets import Resets, Validation
from kohort.client.reading.subscription import DamagedBatch, Mode, Position, SubscriptionState
from kohort.client.reading.topic_watch import TopicWatch
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Notes, Outages
from kohort.client.requests.source import Promise, RequestSource
from kohort.client.user_input import (
    checked_partitions,
    is_text,
    known_partitions,
    offsets_to_commit,
    refused_topic,
    shown,
)
from kohort.clock import Rng
from kohort.config.client import ConsumerConfig
from kohort.errors import ErrorCode, UndecodableValue, UsageError
from kohort.model import GroupMetadata, OffsetAndMetadata, Record, SubscriptionPattern, TopicPartition

TopicsOrPattern = Iterable[str] | re.Pattern[str] | SubscriptionPattern
DeniedTopic = tuple[str, ErrorCode]
MAX_DAMAGED_FETCHES: Final = 5
"""Maximum number of damaged fetches at one offset. The next damaged fetch raises the error.

It applies if the checksum differs each time; an equal checksum raises the error at once.
"""
DEFAULT_REASON: Final = "rebalance enforced by user"


class ConsumerMachine:
    """Consumer logic without sockets, threads and clock, run by the blocking and by the asyncio consumer."""

    def __init__(self, config: ConsumerConfig, rng: Rng, *, prefetch_bytes: int = PREFETCH_BYTES) -> None:
        self.config = config
        self.metadata = Metadata(config, rng, allow_auto_create=config.allow_auto_create_topics)
        self.metadata.track(())
        self.subscription = SubscriptionState(self.metadata, exclude_internal_topics=config.exclude_internal_topics)
        self.failures = Failures(self.subscription)
        self.notes = Notes()
        outages = Outages(self.notes)
        self.metrics = ReadingMetrics(SampleWindows.of(config))
        context = ConsumerContext(
            config, self.subscription, self.metadata, self.failures, self.notes, outages, rng, self.metrics
        )
        self._open: Fetched | None = None
        self._checked_for: tuple[int, frozenset[str]] | None = None
        self._denied: DeniedTopic | None = None
        self._resets = Resets(context)
        self.queries = OffsetQueries(config, self.metadata, rng)
        self._fetcher = Fetcher(context, self._resets.out_of_range, prefetch_bytes=prefetch_bytes)
        self._may_return = self._fetcher.is_ready
        validation = Validation(context, self._resets)
        self._group: Group | None = None
        sources: list[RequestSource] = []
        if config.group_id is not None:
            self._group = group_of(context, self._resets.no_offset)
            sources += self._group.sources
        watch = TopicWatch(self.metadata, outages, self.subscription)
        sources += [self._resets, validation, self.queries, self._fetcher, watch]
        self.engine = Engine(config, sources, self.metadata, rng, outages)

    @property
    def group(self) -> Group:
        """The consumer's membership, rebalance and commits. Raises UsageError without a ``group.id``."""
        if self._group is None:
            raise UsageError("this consumer has no group.id: it can assign(), but not subscribe() or commit()")
        return self._group

    def subscribe(self, topics: TopicsOrPattern) -> None:
        self.group  # noqa: B018  # raises UsageError without a group.id
        if isinstance(topics, SubscriptionPattern):
            self._subscribe_server_pattern(topics)
        elif isinstance(topics, re.Pattern):
            self.subscription.subscribe_pattern(topics)
        else:
            self.subscription.subscribe(topics)

    def _subscribe_server_pattern(self, pattern: SubscriptionPattern) -> None:
        if not is_text(pattern.pattern) or not pattern.pattern:
            raise UsageError(f"subscribe: the pattern must be text that is not empty, not {shown(pattern.pattern)}")
        if self.config.group_protocol == "classic":
            raise UsageError(
                "subscribe: SubscriptionPattern needs group.protocol=consumer, but this consumer has "
                f"group.protocol=classic: subscribe with re.compile({shown(pattern.pattern)})"
            )
        self.subscription.subscribe_server_pattern(pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign partitions; an empty list unassigns all.

        With auto-commit, first commit the positions of the previous partitions.
        """
        partitions = checked_partitions("assign", partitions)
        before = dict(self.subscription.assigned) if self.subscription.mode is Mode.PARTITIONS else {}
        offsets = self._group.commits.positions(before) if self._group is not None else {}
        if partitions or self.subscription.mode.is_group:
            self.subscription.assign(partitions)
        else:
            self.subscription.unsubscribe()
        if self._group is not None and self.config.enable_auto_commit and offsets:
            self._group.commits.commit(offsets, None)

    def group_metadata(self) -> GroupMetadata:
        """Return group id, member id and generation of the consumer. Manual assignment has no member id."""
        generation = self.group.membership.user_generation
        if self.subscription.mode is Mode.PARTITIONS:
            generation = NO_GENERATION
        config = self.config
        group_id = config.group_id or ""
        return GroupMetadata(group_id, generation.generation_id, generation.member_id, config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        if not self.subscription.mode.is_group:
            raise UsageError("enforce_rebalance: the consumer has no group to rebalance: subscribe() to topics first")
        full_reason = f"{DEFAULT_REASON}: {reason}" if reason else DEFAULT_REASON
        self.group.membership.enforce_rebalance(full_reason.encode(errors="replace").decode())

    def enter_poll(self, now_ms: int) -> None:
        """Begin a poll. Records of earlier polls count as processed. Raises UsageError if nothing is assigned."""
        if self.subscription.mode is Mode.NONE:
            raise UsageError("nothing to poll: subscribe() to topics or assign() partitions first")
        self.metrics.polls.entered(now_ms)
        if self._group is not None:
            self._group.membership.enter_poll()
            self._group.commits.auto_commit(now_ms)

    def auto_commit(self, now_ms: int) -> bool:
        """Start an auto-commit if it is due, and return True if it was started. A waiting poll repeats this call."""
        return self._group is not None and self._group.commits.auto_commit(now_ms)

    def resume_poll(self, now_ms: int) -> None:
        self.metrics.polls.resumed(now_ms)
        if self._group is not None:
            self._group.membership.enter_poll()

    def leave_poll(self, now_ms: int) -> None:
        self.metrics.polls.left(now_ms)
        if self._group is not None:
            self._group.membership.leave_poll(now_ms)

    def advance(self, now_ms: int) -> CallbackNeeded | None:
        """Continue the rebalance. Return the listener callback to run, or None. Raises the oldest background error."""
        self.raise_failure()
        self.subscription.match_pattern()
        denied = self._denied_topic()
        if denied is not None:
            self.metadata.request_refresh()
            name, code = denied
            raise refused_topic(self.config, code, name)
        if self._group is None:
            return None
        self._group.rebalance.advance(now_ms)
        return self._group.rebalance.callback

    def acknowledge(self, now_ms: int) -> None:
        if self._group is not None:
            self._group.rebalance.acknowledge()
            self._group.commits.restart_auto_commit(now_ms)

    def raise_failure(self) -> None:
        """Raise the oldest background error that no poll has raised yet.

        The request engine must run after this call, because the failed request may be retried.
        """
        if self.failures:
            if self._group is not None:
                self._group.membership.resume_heartbeats()
            raise self.failures.popleft()
        error = self.metadata.permanent_error or self.engine.login_error
        if error is not None:
            raise error

    def _denied_topic(self) -> DeniedTopic | None:
        version, topics = self.metadata.version, self.subscription.topics
        if self._checked_for != (version, topics):
            self._checked_for = (version, topics)
            errors = self.metadata.errors().items()
            denied = ((name, code) for name, code in errors if name in topics and not code.retriable)
            self._denied = next(denied, None)
        return self._denied

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the partition's next record; None if unknown. Raises UsageError if unassigned."""
        state = self.subscription.state(partition)
        return state.position.offset if state.has_position and state.position is not None else None

    @property
    def needs_user(self) -> bool:
        error = self.metadata.permanent_error or self.engine.login_error
        if self.failures or error is not None or self._denied_topic() is not None:
            return True
        self.subscription.match_pattern()
        return self._group is not None and self._group.rebalance.is_due

    @property
    def has_data(self) -> bool:
        return self._open is not None or self._fetcher.has_ready()

    @property
    def may_fetch(self) -> bool:
        """True if a leader of assigned partitions has no fetch in flight, or if the consumer fetches from followers."""
        return not self._fetcher.all_leaders_busy()

    @property
    def is_quiet(self) -> bool:
        """True if the next run of the request engine would create no request.

        That is so if the request engine knows the assignment, no rebalance is in flight, no commit waits, and each
        leader has a fetch in flight.
        """
        is_waiting = self._group is not None and self._group.commits.is_waiting
        return self._fetcher.has_seen_assignment and not is_waiting and self.is_stable and not self.may_fetch

    @property
    def is_stable(self) -> bool:
        return self._group is None or not self.subscription.mode.is_group or self._group.rebalance.is_stable

    def open_batch(self) -> tuple[Fetched | None, bool]:
        """Return the batch with the records that ``poll`` returns next, or None.

        The second value is True if the batch just left the buffer. Then the buffer has space, and the next fetch may be
        sent.
        """
        fetched = self._open
        if fetched is not None and self._may_return(fetched):
            return fetched, False
        if fetched is not None and not self._fetcher.is_dropped(fetched):
            self._fetcher.put_back(fetched)  # the partition was paused before the last record of the batch was returned
        elif fetched is not None:
            self.count_records(fetched, fetched.at)
        self._open = self._fetcher.take()
        return self._open, self._open is not None

    def take_records(self, fetched: Fetched, limit: int) -> list[Record]:
        """Decode up to ``limit`` records and advance the position. Return no records if the partition was revoked."""
        if fetched is not self._open or not self._may_return(fetched):
            return []
        records = fetched.records
        assert records is not None, "records are decoded before they are returned"
        out = records[fetched.at : fetched.at + limit]
        fetched.at += len(out)
        self._advance_past(fetched, records)
        return out

    def count_records(self, fetched: Fetched, records: int) -> None:
        """Add returned records to the metrics. ``poll`` calls it once per batch, after the last returned record."""
        if records:
            self.metrics.topics[fetched.partition.topic].records.record(records, self.metrics.polls.at_ms)

    @property
    def uncounted_records(self) -> tuple[str, int]:
        """Topic of the open batch, and the number of its returned records. Metrics do not include these records yet."""
        return ("", 0) if self._open is None else (self._open.partition.topic, self._open.at)

    def take_record(self, fetched: Fetched) -> Record | None:
        if fetched is not self._open or not self._may_return(fetched):
            return None
        records, at = fetched.records, fetched.at
        assert records is not None, "records are decoded before they are returned"
        if at == len(records):
            return None
        fetched.at = at + 1
        self._advance_past(fetched, records)
        return records[at]

    def _advance_past(self, fetched: Fetched, records: list[Record]) -> None:
        at = fetched.at
        if at == len(records) and fetched.error is None:
            self.count_records(fetched, at)
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
            self._open = None
        elif at:
            last = records[at - 1]
            fetched.state.advance(last.offset + 1, last.leader_epoch)

    def take_batches(self, most_bytes: int) -> list[Fetched]:
        """Remove fetched batches from the buffer and advance the positions past them.

        The batches have up to ``most_bytes`` in total, but at least one is removed.
        """
        batches: list[Fetched] = []
        size = 0
        while size < most_bytes:
            fetched, _ = self.open_batch()
            if fetched is None or (fetched.error is not None and batches):
                break
            if fetched.error is not None:
                if self.refetch_damaged(fetched):
                    continue
                raise fetched.error
            position = fetched.state.position
            assert position is not None
            if fetched.at:
                self.count_records(fetched, fetched.at)
                fetched.start_offset, fetched.records, fetched.at = position.offset, None, 0
            fetched.taken_at = position
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
            self._open = None
            batches.append(fetched)
            size += fetched.size
        return batches

    def has_data_of(self, accepts: PartitionFilter) -> bool:
        return self._fetcher.has_ready(accepts)

    def take_batch_of(self, accepts: PartitionFilter) -> Fetched | None:
        """Remove the oldest fetched batch for which ``accepts`` is True, and advance the position past the batch.

        Do not combine it with ``open_batch`` or ``take_batches``: it ignores a partly read batch.
        """
        fetched = self._fetcher.take(accepts)
        if fetched is not None:
            fetched.taken_at = fetched.state.position
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
        return fetched

    def put_back(self, batches: Collection[Fetched]) -> None:
        """Put batches of ``take_batches`` back into the buffer, and move the positions back."""
        for fetched in reversed(list(batches)):
            if not self._fetcher.is_dropped(fetched) and fetched.taken_at is not None:
                fetched.state.position = fetched.taken_at
                self._fetcher.put_back(fetched)

    def return_corrupt(self, corrupt: Fetched, behind: Collection[Fetched]) -> None:
        """Move the position back to a corrupt batch, and put the later batches (``behind``) back into the buffer."""
        self.put_back(behind)
        if not self._fetcher.is_dropped(corrupt) and corrupt.taken_at is not None and corrupt.error is not None:
            corrupt.records, corrupt.at = [], 0
            offset = max(corrupt.error.offset, corrupt.start_offset)
            corrupt.state.advance(offset, corrupt.taken_at.offset_epoch)
            self._open = corrupt

    def refetch_damaged(self, fetched: Fetched) -> bool:
        """Fetch a damaged batch again; return False if the damage error must be raised.

        Bytes damaged in transit differ at the next fetch. A damaged log returns the same bytes, so the error is raised
        when a checksum occurs twice. It is also raised after ``MAX_DAMAGED_FETCHES`` damaged fetches.
        """
        error, state = fetched.error, fetched.state
        if error is None or self._fetcher.is_dropped(fetched):
            return True
        if isinstance(error, UndecodableValue):
            return False
        checksum, before = fetched.damage(), state.damage
        is_same_offset = before is not None and before.offset == error.offset
        times = before.times + 1 if before is not None and is_same_offset else 1
        state.damage = DamagedBatch(error.offset, checksum, times)
        if before is not None and is_same_offset and (before.checksum == checksum or times > MAX_DAMAGED_FETCHES):
            return False
        self.notes.warn(f"{error}; fetching again, as the bytes may have been damaged in transit")
        start = fetched.taken_at or state.position
        assert start is not None
        offset = start.offset if fetched.taken_at is None else max(error.offset, fetched.start_offset)
        state.seek(Position(offset, start.offset_epoch), state.leader, trusted=True)
        self.count_records(fetched, fetched.at)
        self._open = None
        return True

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None,
        deadline_ms: int | None,
        *,
        before_revocation: bool = False,
    ) -> Promise[Offsets]:
        commits = self.group.commits
        positions = commits.positions(self.subscription.assigned) if offsets is None else None
        checked = offsets_to_commit("commit", offsets or {}) if positions is None else positions
        return commits.commit(checked, deadline_ms, before_revocation=before_revocation)

    def committed(self, partitions: Iterable[TopicPartition], deadline_ms: int) -> Promise[Committed]:
        return self.group.committed.committed(checked_partitions("committed", partitions), deadline_ms)

    def list_offsets(self, targets: Mapping[TopicPartition, int], deadline_ms: int) -> Promise[Listed]:
        return self.queries.query(targets, deadline_ms)

    def partitions(self, topic: str) -> int | None:
        return known_partitions(self.metadata, self.config, topic)

    def lag(self) -> dict[TopicPartition, int]:
        read_committed = self.config.isolation_level == "read_committed"
        lags = {p: state.lag(read_committed=read_committed) for p, state in self.subscription.assigned.items()}
        return {partition: lag for partition, lag in lags.items() if lag is not None}

    def prepare_leave(self) -> CallbackNeeded | None:
        return None if self._group is None else self._group.rebalance.prepare_leave()

    def leave(self, reason: str) -> Promise[None]:
        promise: Promise[None] = Promise()
        if self._group is not None and self.subscription.mode.is_group:
            promise = self._group.membership.leave(reason)
        else:
            promise.resolve(None)
        self.subscription.unsubscribe()
        self._open = None
        return promise

    def stop_fetching(self) -> None:
        self._fetcher.close()


CLOSE_MS: Final = 30_000
"""Default timeout of ``close()`` while a broker is connected, in ms, as in Java's client."""
DISCONNECTED_MS: Final = 2000
"""Default timeout in ms of ``close()`` if no broker is connected: long enough for one reconnect."""


class CloseTimeout:
    """Deadline of a client's ``close()``. The default timeout is 30 s, or 2 s while no broker is connected.

    Java's client always waits up to 30 s, but without a broker that wait is useless: no commit is possible, and the
    broker removes the member when its session expires.
    """

    def __init__(self, engine: Engine, now_ms: int, timeout_ms: int | None = None, *, most_ms: int = CLOSE_MS) -> None:
        self.most_ms = most_ms if timeout_ms is None else timeout_ms
        self.deadline_ms = now_ms + self.most_ms
        self._engine = engine
        self._may_end_early = timeout_ms is None
        self._disconnected_since_ms: int | None = None

    def left_ms(self, now_ms: int) -> int:
        """Return the ms until ``close()`` times out, at least 0. Without a connection the timeout is shorter."""
        until_ms = self.deadline_ms
        if self._may_end_early:
            if self._engine.is_connected:
                self._disconnected_since_ms = None
            else:
                if self._disconnected_since_ms is None:
                    self._disconnected_since_ms = now_ms
                until_ms = min(until_ms, self._disconnected_since_ms + DISCONNECTED_MS)
        return max(0, until_ms - now_ms)

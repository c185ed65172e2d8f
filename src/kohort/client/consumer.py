"""The consumer as a machine: its sources put together, and what the faces ask of them.

A face holds the guard while it calls in here, runs listeners and decodes outside of it, and waits in between. The
methods say what a consumer does; how the user waits for it is the face's.
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
from kohort.client.reading.fetcher import PREFETCH_BYTES, Fetcher, Wants
from kohort.client.reading.list_offsets import Listed, OffsetQueries
from kohort.client.reading.resets import Resets, Validation
from kohort.client.reading.subscription import Damage, Mode, Position, SubscriptionState
from kohort.client.reading.topic_watch import TopicWatch
from kohort.client.requests.engine import Engine
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import Promise, RequestSource
from kohort.client.requests.troubles import Notes, Troubles
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

Wanted = Iterable[str] | re.Pattern[str] | SubscriptionPattern
Refused = tuple[str, ErrorCode]
DAMAGES_MOST: Final = 5
"""Fetches of the same offset, each damaged in another way, after which the way is of no use."""
DEFAULT_REASON: Final = "rebalance enforced by user"


class ConsumerMachine:
    """Everything a consumer is, but for sockets, threads and the clock."""

    def __init__(self, config: ConsumerConfig, rng: Rng, *, prefetch_bytes: int = PREFETCH_BYTES) -> None:
        self.config = config
        self.metadata = Metadata(config, rng, allow_auto_create=config.allow_auto_create_topics)
        self.metadata.want(())
        self.subscription = SubscriptionState(self.metadata, exclude_internal_topics=config.exclude_internal_topics)
        self.failures = Failures(self.subscription)
        self.notes = Notes()
        troubles = Troubles(self.notes)
        self.metrics = ReadingMetrics(SampleWindows.of(config))
        context = ConsumerContext(
            config, self.subscription, self.metadata, self.failures, self.notes, troubles, rng, self.metrics
        )
        self._open: Fetched | None = None
        self._judged: tuple[int, frozenset[str]] | None = None
        self._refused: Refused | None = None
        """What ``_refused_topic`` found, in this version of the metadata and for these topics."""
        self._resets = Resets(context)
        self.queries = OffsetQueries(config, self.metadata, rng)
        self._fetcher = Fetcher(context, self._resets.out_of_range, prefetch_bytes=prefetch_bytes)
        validation = Validation(context, self._resets)
        self._group: Group | None = None
        sources: list[RequestSource] = []
        if config.group_id is not None:
            self._group = group_of(context, self._resets.no_offset)
            sources += self._group.sources
        watch = TopicWatch(self.metadata, troubles, self.subscription)
        sources += [self._resets, validation, self.queries, self._fetcher, watch]
        self.engine = Engine(config, sources, self.metadata, rng, troubles)

    @property
    def group(self) -> Group:
        """Raises UsageError for a consumer without a group."""
        if self._group is None:
            raise UsageError("this consumer has no group.id: it can be assigned partitions, but cannot join or commit")
        return self._group

    @property
    def has_group(self) -> bool:
        return self._group is not None

    # What the user wants to read

    def subscribe(self, topics: Wanted) -> None:
        self.group  # noqa: B018  # subscribing needs one
        if isinstance(topics, SubscriptionPattern):
            self._subscribe_server_pattern(topics)
        elif isinstance(topics, re.Pattern):
            self.subscription.subscribe_pattern(topics)
        else:
            self.subscription.subscribe(topics)

    def _subscribe_server_pattern(self, pattern: SubscriptionPattern) -> None:
        if not is_text(pattern.pattern) or not pattern.pattern:
            raise UsageError(f"subscribe: the pattern is text that is not empty, not {shown(pattern.pattern)}")
        if self.config.group_protocol == "classic":
            raise UsageError(
                "subscribe: a SubscriptionPattern is matched by the coordinator, with group.protocol=consumer; with "
                "group.protocol=classic give a pattern of Python's, such as "
                f"re.compile({shown(pattern.pattern)})"
            )
        self.subscription.subscribe_server_pattern(pattern)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, without group management; what was handed out of the earlier ones is committed if
        auto-commit is on. None at all is the end of the assignment."""
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
        """Return the member whose partitions the user works on, or worked on last; nobody where they are assigned by
        hand."""
        generation = self.group.membership.user_generation
        if self.subscription.mode is Mode.PARTITIONS:
            generation = NO_GENERATION
        config = self.config
        group_id = config.group_id or ""
        return GroupMetadata(group_id, generation.generation_id, generation.member_id, config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        if not self.subscription.mode.is_group:
            raise UsageError("there is no group to rebalance: subscribe() to topics first")
        told = f"{DEFAULT_REASON}: {reason}" if reason else DEFAULT_REASON
        self.group.membership.enforce_rebalance(told.encode(errors="replace").decode())

    # Polling

    def enter_poll(self, now_ms: int) -> None:
        """Note that the user polls: what was handed out before is done with. Raises UsageError if there is nothing to
        read."""
        if self.subscription.mode is Mode.NONE:
            raise UsageError("there is nothing to poll: subscribe() to topics or assign() partitions first")
        self.metrics.polls.entered(now_ms)
        if self._group is not None:
            self._group.membership.enter_poll()
            self._group.commits.auto_commit(now_ms)

    def stay_in_poll(self, now_ms: int) -> None:
        self.metrics.polls.resumed(now_ms)
        if self._group is not None:
            self._group.membership.enter_poll()

    def leave_poll(self, now_ms: int) -> None:
        self.metrics.polls.left(now_ms)
        if self._group is not None:
            self._group.membership.leave_poll(now_ms)

    def advance(self, now_ms: int) -> CallbackNeeded | None:
        """Go on with whatever needs the user in poll(); returns what the listener has to be told first.

        Raises what went wrong since the last call.
        """
        self.raise_failure()
        self.subscription.match_pattern()
        refused = self._refused_topic()
        if refused is not None:
            self.metadata.request_refresh()
            name, code = refused
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
        """Raise the first failure since the last call. Kick the engine then: its source may retry."""
        if self.failures:
            if self._group is not None:
                self._group.membership.resume_heartbeats()
            raise self.failures.popleft()
        hopeless = self.metadata.hopeless or self.engine.not_let_in
        if hopeless is not None:
            raise hopeless

    def _refused_topic(self) -> Refused | None:
        """Return a topic that the cluster will not let this consumer read, and why: another one only with other
        metadata or another subscription, so it is not looked for at every poll."""
        version, topics = self.metadata.version, self.subscription.topics
        if self._judged != (version, topics):
            self._judged = (version, topics)
            errors = self.metadata.errors().items()
            refused = ((name, code) for name, code in errors if name in topics and not code.retriable)
            self._refused = next(refused, None)
        return self._refused

    def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record, None while it is looked for. Raises UsageError if it is not
        assigned."""
        state = self.subscription.state(partition)
        return state.position.offset if state.has_position and state.position is not None else None

    # Records

    @property
    def needs_user(self) -> bool:
        hopeless = self.metadata.hopeless or self.engine.not_let_in
        if self.failures or hopeless is not None or self._refused_topic() is not None:
            return True
        self.subscription.match_pattern()
        return self._group is not None and self._group.rebalance.is_due

    @property
    def has_data(self) -> bool:
        return self._open is not None or self._fetcher.has_ready()

    @property
    def may_fetch(self) -> bool:
        """False while every leader of an assigned partition has a fetch in flight."""
        return not self._fetcher.nothing_is_free()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing of what the user does in poll() changes anything for the engine: it knows the assignment, no
        rebalance is under way, no commit waits, every node works on a fetch. What is due by the clock has its timer."""
        is_waiting = self._group is not None and self._group.commits.is_waiting
        return self._fetcher.has_seen_assignment and not is_waiting and self.is_stable and not self.may_fetch

    @property
    def is_stable(self) -> bool:
        return self._group is None or not self.subscription.mode.is_group or self._group.rebalance.is_stable

    def open_fetched(self) -> tuple[Fetched | None, bool]:
        """Return the data to hand out from now, if any, and whether it is newly taken: then the next fetch may
        leave."""
        fetched = self._open
        if fetched is not None and self._may_hand_out(fetched):
            return fetched, False
        if fetched is not None and not self._is_gone(fetched):
            self._fetcher.give_back(fetched)  # paused with records left
        elif fetched is not None:
            self.count(fetched, fetched.at)
        self._open = self._fetcher.take()
        return self._open, self._open is not None

    def hand_out(self, fetched: Fetched, most: int) -> list[Record]:
        """Return up to ``most`` decoded records; the position moves behind them. Nothing if the partition went
        meanwhile."""
        if fetched is not self._open or not self._may_hand_out(fetched):
            return []
        records = fetched.records
        assert records is not None, "decode before handing out"
        out = records[fetched.at : fetched.at + most]
        fetched.at += len(out)
        self._stand_behind(fetched, records)
        return out

    def count(self, fetched: Fetched, records: int) -> None:
        """Note that the user was given so many records of ``fetched``. Those that are handed out one by one, or in
        lists, are counted once, when nothing of the piece is left."""
        if records:
            self.metrics.topics[fetched.partition.topic].records.record(records, self.metrics.polls.at_ms)

    @property
    def uncounted(self) -> tuple[str, int]:
        """Topic of the batch being consumed, and how many of its records were returned."""
        return ("", 0) if self._open is None else (self._open.partition.topic, self._open.at)

    def hand_out_one(self, fetched: Fetched) -> Record | None:
        if fetched is not self._open or not self._may_hand_out(fetched):
            return None
        records, at = fetched.records, fetched.at
        assert records is not None, "decode before handing out"
        if at == len(records):
            return None
        fetched.at = at + 1
        self._stand_behind(fetched, records)
        return records[at]

    def _stand_behind(self, fetched: Fetched, records: list[Record]) -> None:
        at = fetched.at
        if at == len(records) and fetched.error is None:
            self.count(fetched, at)
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
            self._open = None
        elif at:
            last = records[at - 1]
            fetched.state.advance(last.offset + 1, last.leader_epoch)

    def take_whole(self, most_bytes: int) -> list[Fetched]:
        """Take buffered data, whole fetches up to ``most_bytes`` but at least one, and move the positions."""
        taken: list[Fetched] = []
        size = 0
        while size < most_bytes:
            fetched, _ = self.open_fetched()
            if fetched is None or (fetched.error is not None and taken):
                break
            if fetched.error is not None:
                if self.ask_again(fetched):
                    continue
                raise fetched.error
            position = fetched.state.position
            assert position is not None
            if fetched.at:
                self.count(fetched, fetched.at)
                fetched.start_offset, fetched.records, fetched.at = position.offset, None, 0
            fetched.taken_at = position
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
            self._open = None
            taken.append(fetched)
            size += fetched.size
        return taken

    def has_data_for(self, wanted: Wants) -> bool:
        return self._fetcher.has_ready(wanted)

    def take_for(self, wanted: Wants) -> Fetched | None:
        """Return the oldest buffered data of a partition that is wanted, whole; the position moves behind it.

        Not to be mixed with the other ways to take: what one of them has opened is not seen here.
        """
        fetched = self._fetcher.take(wanted)
        if fetched is not None:
            fetched.taken_at = fetched.state.position
            fetched.state.advance(fetched.next_offset, fetched.leader_epoch)
        return fetched

    def return_corrupt(self, corrupt: Fetched, behind: Collection[Fetched]) -> None:
        """Move the position to the first damaged batch of ``corrupt``, and keep the data taken behind it."""
        for fetched in reversed(list(behind)):
            if not self._is_gone(fetched) and fetched.taken_at is not None:
                fetched.state.position = fetched.taken_at
                self._fetcher.give_back(fetched)
        if not self._is_gone(corrupt) and corrupt.taken_at is not None and corrupt.error is not None:
            corrupt.records, corrupt.at = [], 0
            offset = max(corrupt.error.offset, corrupt.start_offset)
            corrupt.state.advance(offset, corrupt.taken_at.offset_epoch)
            self._open = corrupt

    def ask_again(self, fetched: Fetched) -> bool:
        """Tell whether what is damaged is fetched once more, or of no interest any more: then nothing is to be raised.

        A checksum fails where the log is damaged, or where bytes were on their way. The latter are other bytes the next
        time, so the same ones twice are raised, and so is what stays damaged however often it is fetched.
        """
        error, state = fetched.error, fetched.state
        if error is None or self._is_gone(fetched):
            return True
        if isinstance(error, UndecodableValue):
            return False
        checksum, before = fetched.damage(), state.damage
        is_there_still = before is not None and before.offset == error.offset
        times = before.times + 1 if before is not None and is_there_still else 1
        state.damage = Damage(error.offset, checksum, times)
        if before is not None and is_there_still and (before.checksum == checksum or times > DAMAGES_MOST):
            return False
        self.notes.warn(f"{error}; it is fetched once more, for it may have been damaged on its way")
        stood_at = fetched.taken_at or state.position
        assert stood_at is not None
        good_until = stood_at.offset if fetched.taken_at is None else max(error.offset, fetched.start_offset)
        state.fetch_again(Position(good_until, stood_at.offset_epoch))
        self.count(fetched, fetched.at)
        self._open = None
        return True

    def _is_gone(self, fetched: Fetched) -> bool:
        return fetched.is_stale or self.subscription.assigned.get(fetched.partition) is not fetched.state

    def _may_hand_out(self, fetched: Fetched) -> bool:
        return fetched.state.fetchable and not self._is_gone(fetched)

    # Offsets

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
        return self.queries.ask(targets, deadline_ms)

    def partitions(self, topic: str) -> int | None:
        return known_partitions(self.metadata, self.config, topic)

    def lag(self) -> dict[TopicPartition, int]:
        read_committed = self.config.isolation_level == "read_committed"
        found: dict[TopicPartition, int] = {}
        for partition, state in self.subscription.assigned.items():
            end = state.visible_end(read_committed)
            if state.position is not None and end is not None:
                found[partition] = max(0, end - state.position.offset)
        return found

    # Goodbye

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
"""While a broker can be asked; Java's default."""
ALONE_MS: Final = 2000
"""While no connection stands: long enough for one to be made again."""


class CloseTimeout:
    """Time that closing may take from now on: ``timeout_ms``, or by default 30 s while a broker can be reached.

    Java waits for its 30 s either way. Without a broker that only delays the user: offsets that are not committed are
    read again, and the group notices the end of a member by itself.
    """

    def __init__(self, engine: Engine, now_ms: int, timeout_ms: int | None = None, *, most_ms: int = CLOSE_MS) -> None:
        self.most_ms = most_ms if timeout_ms is None else timeout_ms
        self.deadline_ms = now_ms + self.most_ms
        self._engine = engine
        self._may_give_up = timeout_ms is None
        self._alone_since_ms: int | None = None

    def left_ms(self, now_ms: int) -> int:
        """Return the remaining time, 0 at its end. Call after each step of the engine."""
        until_ms = self.deadline_ms
        if self._may_give_up:
            if self._engine.is_connected:
                self._alone_since_ms = None
            else:
                if self._alone_since_ms is None:
                    self._alone_since_ms = now_ms
                until_ms = min(until_ms, self._alone_since_ms + ALONE_MS)
        return max(0, until_ms - now_ms)

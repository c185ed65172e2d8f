"""Group coordinator: decides on each request, timer and expiry, appends the records, replays them, and responds.

``_carry_out`` executes all decisions. After a failed append it responds with errors and drops the group's rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kohort.clock import Rng, Timers, WallTime
from kohort.config import BrokerConfig
from kohort.config.group import NO_OPTIONS
from kohort.coordinator.api_table import GROUP_APIS, GroupApi, SeveralGroupsApi, withdraw
from kohort.coordinator.classic.evidence import note_fenced, refusal_note
from kohort.coordinator.classic.rebalance import drop_round
from kohort.coordinator.consumer.evidence import note_fenced_in_consumer_group
from kohort.coordinator.context import Context, OptionsOfGroup, SearchTurns
from kohort.coordinator.journal import ClientIdentity, JournalEntry
from kohort.coordinator.journal_events import JoinRejected, MemberMetrics
from kohort.coordinator.journal_evidence import JournalEvidence, OffsetCounters, Stall
from kohort.coordinator.memory_budget import Added, MemoryBudget, added_by_members, added_by_offsets, added_by_patterns
from kohort.coordinator.migration.downgrade import downgraded
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import (
    AppendRecords,
    CancelTimer,
    GroupRequest,
    Outcome,
    Reply,
    SetTimer,
    TimerKey,
    TopicsView,
    append_error,
)
from kohort.coordinator.records import (
    LogItem,
    RegexResolved,
    TransactionEnded,
    build_record,
    moved_record,
    partition_of,
)
from kohort.coordinator.replay import NO_PRODUCER, Skipped, replay, replay_end, replay_log
from kohort.coordinator.shard import Availability, Shard, Shards
from kohort.errors import ApiError, ErrorCode, KohortError, ProtocolError, StorageError
from kohort.notes import Note, warning
from kohort.steps import Pace, Steps, at_once

SWEEP: Final = TimerKey("offsets")
FIRED_US: Final = 10
"""Estimated cost in microseconds of a timer that fires and changes nothing."""
APPENDED_US: Final = 60
RECORD_US: Final = 15
REPLY_US: Final = 10
"""``APPENDED_US``, ``RECORD_US``, ``REPLY_US``: estimated cost in microseconds of an append, a record, a response."""
CheckDecision = Callable[[Shard, str, Outcome, Timers[tuple[int, TimerKey]]], None]


class Coordinator:
    """Coordinator of all groups whose ``__consumer_offsets`` partition this broker has loaded.

    ``check``: function for tests; called after each decision with its shard, its group id, its outcome and all timers.
    """

    def __init__(
        self,
        config: BrokerConfig,
        rng: Rng,
        topics: TopicsView,
        append: AppendRecords,
        *,
        options_of_group: OptionsOfGroup = lambda _group_id: NO_OPTIONS,
        check: CheckDecision | None = None,
    ) -> None:
        self._config = config
        self._rng = rng
        self._topics = topics
        self._append = append
        self._options_of_group = options_of_group
        self.check = check
        self.wall = WallTime()
        """Clock for the times in records. The broker sets this attribute to the clock of its logs."""
        self._shards = Shards(config.offsets_topic_num_partitions, self._carry_out)
        self.timers: Timers[tuple[int, TimerKey]] = Timers()
        self._evidence = JournalEvidence()
        self._searches = SearchTurns()
        self.budget = MemoryBudget(config.group_coordinator_max_bytes)
        self._notes: list[Note] = []
        self._journal: list[JournalEntry] = []
        self._worked_us = 0
        self.counters = OffsetCounters()
        self.fenced = self._evidence.fenced

    def reconfigure(self, config: BrokerConfig) -> None:
        self._config = config

    def handle(self, request: GroupRequest, now_ms: int) -> list[Reply]:
        """Answer or hold a request to a group. Return all responses that it causes, also to other waiting requests."""
        ctx = self._at(now_ms)
        api = GROUP_APIS[type(request.message)]
        if isinstance(api, SeveralGroupsApi):
            return [at_once(api.answer(self._shards, request, ctx))]
        group_id: str = request.message.group_id  # type: ignore[attr-defined]  # every request of one group has it
        try:
            api.check(request, self._config)
            shard = self._shards.of_group(group_id)
            self._check_budget(api.added_bytes(request, shard.groups), now_ms)
        except ApiError as error:
            return [api.refused(request, error)]
        outcome = _decided(api, shard, group_id, request, ctx)
        return self._carry_out(shard, group_id, downgraded(shard.groups, group_id, outcome, ctx), ctx)

    def read(self, request: GroupRequest, now_ms: int) -> Steps[Reply]:
        api = GROUP_APIS[type(request.message)]
        assert isinstance(api, SeveralGroupsApi), f"{type(request.message).__name__} is about one group"
        assert api.read_only, f"{type(request.message).__name__} changes groups"
        return api.answer(self._shards, request, self._at(now_ms))

    def tick(self, now_ms: int) -> list[Reply]:
        """Fire due timers for a few milliseconds (ADR 11). The remaining due timers fire in the next tick."""
        ctx = self._at(now_ms)
        pace = Pace()
        replies: list[Reply] = []
        for partition, key in self.timers.pop_due(now_ms):
            shard = self._shards.get(partition)
            if shard is None:
                continue
            done = self._worked_us
            replies += self._fire(shard, key, ctx)
            if pace.is_due(FIRED_US + self._worked_us - done):
                break
        return replies

    def _fire(self, shard: Shard, key: TimerKey, ctx: Context) -> list[Reply]:
        if key != SWEEP:
            outcome = downgraded(shard.groups, key.group_id, shard.fire(key, ctx), ctx)
            return self._carry_out(shard, key.group_id, outcome, ctx)
        self.timers.set((shard.partition, SWEEP), ctx.now_ms + self._config.offsets_retention_check_interval_ms)
        deleted = self.counters.deleted
        replies = self._carry_out_all(shard, shard.expire_offsets(ctx), ctx)
        self.counters.expired_since(deleted)
        return replies

    @property
    def wake_at_ms(self) -> int | None:
        return self.timers.wake_at_ms

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> None:
        ctx = self._at(now_ms)
        deleted_topics = frozenset(names)
        for shard in self._shards.active():
            self._carry_out_all(shard, shard.topics_deleted(deleted_topics, ctx), ctx)

    def transaction_ended(self, partition: int, ended: TransactionEnded) -> None:
        """Commit the pending offsets of a transaction, or drop them if its marker is an abort marker."""
        shard = self._shards.active_at(partition)
        if shard is None:
            return  # the marker is replayed when the partition is loaded
        for group_id in replay_end(shard.groups, ended):
            shard.groups.maybe_forget(group_id)
            if self.check is not None:
                self.check(shard, group_id, Outcome(), self.timers)

    def connection_closed(self, connection: int, now_ms: int) -> None:
        self._evidence.connections.add(connection, now_ms)
        if (closed := self._evidence.departed.closed(connection, now_ms)) is not None:
            self._journal.append(closed)

    def add_client_metrics(self, client_instance_id: str, who: ClientIdentity, metrics: MemberMetrics) -> None:
        self._evidence.client_metrics.add(client_instance_id, who, metrics)

    def note_stall(self, from_ms: int, now_ms: int) -> None:
        """Record a stall: the broker processed no event from ``from_ms`` until ``now_ms``."""
        self._evidence.stalls.add(Stall(from_ms, now_ms))
        stalled_s = (now_ms - from_ms) / 1000
        note = f"this broker stalled for {stalled_s:.1f} s: member sessions may have expired meanwhile"
        self._notes.append(warning(note, "stall"))

    def note(self, entry: JournalEntry) -> None:
        self._journal.append(entry)

    def take_journal(self) -> list[JournalEntry]:
        entries, self._journal = self._journal, []
        return entries

    def committed(self, group_id: str) -> GroupOffsets | None:
        """Return a group's committed offsets; None if another broker coordinates the group."""
        shard = self._shards.get(self.partition_of(group_id))
        return None if shard is None else shard.groups.offsets.get(group_id)

    def lag_of(self, group_id: str, places: Iterable[tuple[str, int]]) -> int | None:
        """Return a group's lag in records, summed over the given partitions; None if unknown."""
        offsets = self.committed(group_id)
        if offsets is None:
            return None
        lags = []
        for topic, partition in places:
            held, end = offsets.get(topic, partition), self._topics.end_offset(topic, partition)
            if held is not None and end is not None:
                lags.append(max(0, end - held.offset))
        return sum(lags) if lags else None

    def groups_in_partition_of(self, group_id: str) -> Groups | None:
        """Return all groups in this group's ``__consumer_offsets`` partition; None if the partition is not loaded."""
        shard = self._shards.active_at(self.partition_of(group_id))
        return None if shard is None else shard.groups

    def timers_of(self, group_id: str) -> list[TimerKey]:
        own, waiting = self.partition_of(group_id), self.timers.keys()
        return [key for partition, key in waiting if partition == own and key.group_id == group_id]

    def all_groups(self) -> Iterator[tuple[int, Groups]]:
        yield from ((shard.partition, shard.groups) for shard in self._shards.active())

    def take_notes(self) -> list[Note]:
        notes, self._notes = self._notes, []
        return notes

    def partition_of(self, group_id: str) -> int:
        return partition_of(group_id, self._shards.partitions)

    def start_loading(self, partition: int) -> None:
        """Begin to load a ``__consumer_offsets`` partition. Its groups answer requests only after the load."""
        known = self._shards.get(partition)
        assert known is None or known.availability is Availability.FAILED
        self._shards.by_partition[partition] = Shard(partition)

    def coordinates(self, partition: int) -> bool:
        return partition in self._shards.by_partition

    def load_some(self, partition: int, records: Iterable[LogItem], now_ms: int, skipped: Skipped) -> None:
        """Replay the next records of a partition that is being loaded; count unreadable records in ``skipped``."""
        groups = self._shards.by_partition[partition].groups
        replay_log(groups, records, now_ms, skipped, self.wall.ahead_ms)

    def refuse_loading(self, partition: int) -> None:
        """Stop coordinating the groups of a ``__consumer_offsets`` partition, because it cannot be read."""
        self._shards.by_partition[partition].availability = Availability.FAILED

    def finish_loading(self, partition: int, now_ms: int) -> list[Reply]:
        """Start the groups of a ``__consumer_offsets`` partition, after the replay of its last record."""
        shard = self._shards.by_partition[partition]
        ctx = self._at(now_ms)
        for group_id in [*shard.groups.by_id, *shard.groups.consumer]:
            shard.groups.maybe_forget(group_id)
        shard.availability = Availability.ACTIVE
        self.timers.set((partition, SWEEP), now_ms + self._config.offsets_retention_check_interval_ms)
        return self._carry_out_all(shard, shard.begin(ctx), ctx)

    def unload(self, partition: int, now_ms: int) -> list[Reply]:
        shard = self._shards.get(partition)
        if shard is None:
            return []
        ctx = self._at(now_ms)
        replies: list[Reply] = []
        for _, outcome in shard.resign(ctx) if shard.availability is Availability.ACTIVE else ():
            self._arm(shard, outcome)
            self._journal += outcome.journal
            replies += outcome.replies
        self.timers.cancel((partition, SWEEP))
        del self._shards.by_partition[partition]
        return replies

    def _check_records(self, shard: Shard, outcome: Outcome, ctx: Context) -> None:
        producer_id = NO_PRODUCER if outcome.producer is None else outcome.producer.producer_id
        offsets = added_by_offsets(outcome.records, shard.groups, producer_id)
        members = added_by_members(outcome.records, shard.groups)
        matched = added_by_patterns(outcome.records)
        self._check_budget(Added(offsets.new + members.new + matched, offsets.grown + members.grown), ctx.now_ms)

    def _check_budget(self, added: Added, now_ms: int) -> None:
        if not self.budget.admit(added, (shard.groups for shard in self._shards), now_ms):
            refused = "groups reached twice their memory limit: growing offsets are refused"
            if added.new:
                refused = "groups reached their memory limit: new groups, members and pattern matches are refused"
            self._notes.append(warning(f"{refused} (group.coordinator.max.bytes)", "groups"))
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _at(self, now_ms: int) -> Context:
        return Context(
            now_ms,
            self._config,
            self._rng,
            self._topics,
            self._evidence,
            self._options_of_group,
            self._searches,
            self.lag_of,
        )

    def _carry_out(self, shard: Shard, group_id: str, outcome: Outcome, ctx: Context) -> list[Reply]:
        if outcome.records:
            self._worked_us += APPENDED_US + RECORD_US * len(outcome.records)
            try:
                self._check_records(shard, outcome, ctx)
                built = [build_record(moved_record(r, self.wall.ahead_ms)) for r in outcome.records]
                self._append(shard.partition, built, ctx.now_ms, outcome.producer)
            except (ApiError, StorageError, ProtocolError) as error:
                outcome = self._refused(shard, group_id, outcome, error, ctx)
            else:
                self.counters.written(outcome.records)
                producer_id = NO_PRODUCER if outcome.producer is None else outcome.producer.producer_id
                for record in outcome.records:
                    replay(shard.groups, record, ctx.now_ms, producer_id)
        self._worked_us += outcome.worked_us + REPLY_US * len(outcome.replies)
        if outcome.timers:
            self._arm(shard, outcome)
        if outcome.evidence is not None:
            self._journal.append(outcome.evidence())
        if outcome.journal:
            self._journal += outcome.journal
            self._notes += [refusal_note(entry) for entry in outcome.journal if isinstance(entry, JoinRejected)]
        shard.groups.maybe_forget(group_id)
        if outcome.then is not None:
            return outcome.replies + self._carry_out(shard, group_id, outcome.then(), ctx)
        if self.check is not None:
            self.check(shard, group_id, outcome, self.timers)
        return outcome.replies

    def _carry_out_all(self, shard: Shard, outcomes: Iterator[tuple[str, Outcome]], ctx: Context) -> list[Reply]:
        replies: list[Reply] = []
        for group_id, outcome in outcomes:
            replies += self._carry_out(shard, group_id, outcome, ctx)
        return replies

    def _refused(self, shard: Shard, group_id: str, outcome: Outcome, error: KohortError, ctx: Context) -> Outcome:
        code = append_error(error)
        # A timer starts a topic search, so no response can report the error.
        if any(isinstance(record, RegexResolved) for record in outcome.records):
            note = f"matches of subscription patterns cannot be persisted, retrying: {error}"
            self._notes.append(warning(note, "regex"))
        refusal = Outcome(
            replies=[withdraw(reply, code) for reply in outcome.replies],
            timers=[*outcome.otherwise],
            journal=[entry for entry in outcome.journal if not entry.CLAIMS_PERSISTED],
        )
        group = shard.groups.by_id.get(group_id)
        if outcome.round_changed and group is not None:
            dropped = drop_round(group, ctx, code)
            refusal.replies += dropped.replies
            # Also cancel the timers of members that this decision removed: drop_round() does not cancel them.
            refusal.timers += [change for change in outcome.timers if isinstance(change, CancelTimer)]
            refusal.timers += dropped.timers
            refusal.journal += dropped.journal
        if group_id in shard.groups.consumer:  # the conversion of the consumer group to a classic group failed
            shard.groups.by_id.pop(group_id, None)
        return refusal

    def _arm(self, shard: Shard, outcome: Outcome) -> None:
        for change in outcome.timers:
            if isinstance(change, SetTimer):
                self.timers.set((shard.partition, change.key), change.at_ms)
            else:
                self.timers.cancel((shard.partition, change.key))


def _decided(api: GroupApi, shard: Shard, group_id: str, request: GroupRequest, ctx: Context) -> Outcome:
    group = shard.groups.by_id.get(group_id)
    try:
        return api.decide(shard.groups, request, ctx)
    except ApiError as error:
        out = Outcome(replies=[api.refused(request, error)], round_changed=False)
        if group is not None:
            note_fenced(group, request, error, ctx, out)
        elif group_id in shard.groups.consumer:
            note_fenced_in_consumer_group(shard.groups.consumer[group_id], request, error, ctx, out)
        return out

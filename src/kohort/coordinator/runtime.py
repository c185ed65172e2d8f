"""Decide, append, replay, release: for every event alike.

A request, a timer, a load and a sweep all end in ``_carry_out``, the one place where a decision becomes real. If its
records cannot be appended the answer is one for every case: the replies are refused and the group's round is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kohort.clock import Rng, Timers
from kohort.config import BrokerConfig
from kohort.coordinator.classic.heartbeat import check_heartbeat_request
from kohort.coordinator.classic.join import check_join_request
from kohort.coordinator.classic.leave import check_leave_request
from kohort.coordinator.classic.rebalance import drop_round
from kohort.coordinator.classic.sync import check_sync_request
from kohort.coordinator.context import ClosedConnections, Context
from kohort.coordinator.describe import decide_delete_group, describe_group, list_groups, refused_description
from kohort.coordinator.invariants import InvariantBroken, check_acknowledged, check_group, check_groups, check_replay
from kohort.coordinator.journal import JournalEntry
from kohort.coordinator.memory_budget import GroupsRoom
from kohort.coordinator.offsets.commit_in_transaction import check_commit_in_transaction_request
from kohort.coordinator.offsets.delete import check_offset_delete_request
from kohort.coordinator.offsets.fetch import answer_fetch
from kohort.coordinator.offsets.state import NO_OFFSETS, GroupOffsets
from kohort.coordinator.outcome import AppendRecords, GroupRequest, Outcome, Reply, SetTimer, TimerKey, TopicsView
from kohort.coordinator.partitioning import partition_of
from kohort.coordinator.records import LogItem, TransactionEnded, build_record
from kohort.coordinator.refusals import code_of, refusal, refused
from kohort.coordinator.replay import NO_PRODUCER, replay, replay_end, replay_log
from kohort.coordinator.shard import Availability, Shard
from kohort.coordinator.skipped import Skipped
from kohort.errors import ApiError, ErrorCode, KohortError, ProtocolError, StorageError
from kohort.notes import Note, warning
from kohort.wire.messages.group_admin import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message

CHECKS: Final[dict[type[Message], Callable[[GroupRequest, BrokerConfig], None]]] = {
    JoinGroupRequest: check_join_request,
    SyncGroupRequest: check_sync_request,
    HeartbeatRequest: check_heartbeat_request,
    LeaveGroupRequest: check_leave_request,
    OffsetDeleteRequest: check_offset_delete_request,
    TxnOffsetCommitRequest: check_commit_in_transaction_request,
}
"""What is refused before anyone asks where the group is. OffsetCommit takes any group id, even an empty one."""

GROWING: Final = frozenset({JoinGroupRequest, OffsetCommitRequest})
SWEEP: Final = TimerKey("offsets")


class Coordinator:
    """The coordinator of every group whose partition of ``__consumer_offsets`` is loaded here.

    ``checked`` has the invariants hold after every event: for tests and the simulator.
    """

    def __init__(
        self, config: BrokerConfig, rng: Rng, topics: TopicsView, append: AppendRecords, *, checked: bool = False
    ) -> None:
        self._config = config
        self._rng = rng
        self._topics = topics
        self._append = append
        self._checked = checked
        self._partitions = config.offsets_topic_num_partitions
        self._shards: dict[int, Shard] = {}
        self._timers: Timers[tuple[int, TimerKey]] = Timers()
        self._connections = ClosedConnections()
        self._room = GroupsRoom(config.group_coordinator_max_bytes)
        self._notes: list[Note] = []
        self._journal: list[JournalEntry] = []
        self._across: dict[type[Message], Callable[[GroupRequest, Context], list[Reply]]] = {
            OffsetFetchRequest: self._fetch_offsets,
            DescribeGroupsRequest: self._describe_groups,
            ListGroupsRequest: self._list_groups,
            DeleteGroupsRequest: self._delete_groups,
        }

    # What happens to groups.

    def handle(self, request: GroupRequest, now_ms: int) -> list[Reply]:
        """Answer ``request``, or park it; with whatever other requests are answered by what it brought about."""
        ctx = self._at(now_ms)
        kind = type(request.message)
        across = self._across.get(kind)
        if across is not None:
            return across(request, ctx)
        group_id: str = request.message.group_id  # type: ignore[attr-defined]  # every request of one group has it
        try:
            check = CHECKS.get(kind)
            if check is not None:
                check(request, self._config)
            shard = self._shard_of(group_id)
            if kind in GROWING:
                self._check_room(request, shard, now_ms)
        except ApiError as error:
            if kind is HeartbeatRequest and error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return [Reply(request, HeartbeatResponse())]  # protocol/groups.md#while-loading
            return [refusal(request, error.code)]
        return self._carry_out(shard, group_id, shard.decide(group_id, request, ctx), ctx)

    def tick(self, now_ms: int) -> list[Reply]:
        """Fire what is due."""
        ctx = self._at(now_ms)
        replies: list[Reply] = []
        for partition, key in self._timers.pop_due(now_ms):
            shard = self._shards.get(partition)
            if shard is None:
                continue
            if key == SWEEP:
                self._timers.set((partition, SWEEP), now_ms + self._config.offsets_retention_check_interval_ms)
                replies += self._carry_out_all(shard, shard.expire_offsets(ctx), ctx)
            else:
                replies += self._carry_out(shard, key.group_id, shard.fire(key, ctx), ctx)
        return replies

    @property
    def wake_at_ms(self) -> int | None:
        """When ``tick`` is due; None while nothing waits."""
        return self._timers.wake_at_ms

    def topics_deleted(self, names: Iterable[str], now_ms: int) -> None:
        """Forget what groups have committed in these topics."""
        ctx = self._at(now_ms)
        gone = frozenset(names)
        for shard in self._shards.values():
            if shard.availability is Availability.ACTIVE:
                self._carry_out_all(shard, shard.topics_deleted(gone, ctx), ctx)

    def transaction_ended(self, partition: int, ended: TransactionEnded) -> None:
        """A marker was written to a partition: what its transaction has committed counts, or is forgotten."""
        shard = self._shards.get(partition)
        if shard is None or shard.availability is not Availability.ACTIVE:
            return  # whoever loads the partition finds the marker on the log
        for group_id in replay_end(shard.groups, ended):
            shard.groups.maybe_forget(group_id)
            if self._checked and (group := shard.groups.by_id.get(group_id)) is not None:
                check_group(shard.groups, group, shard.partition, self._timers)

    def connection_closed(self, connection: int, now_ms: int) -> None:
        """Evidence for the journal. Members go by their timers, never by their connections."""
        self._connections.add(connection, now_ms)

    def take_journal(self) -> list[JournalEntry]:
        """The entries since the last call, in order."""
        entries, self._journal = self._journal, []
        return entries

    def committed(self, group_id: str) -> GroupOffsets | None:
        """What the group has committed, for whoever looks from inside the process; None where nothing is known."""
        shard = self._shards.get(self.partition_of(group_id))
        return None if shard is None else shard.groups.offsets.get(group_id)

    def timers_of(self, group_id: str) -> list[TimerKey]:
        """What waits for the group, for whoever looks from inside the process."""
        partition = self.partition_of(group_id)
        waiting = self._timers.keys()
        return [key for where, key in waiting if where == partition and key.group_id == group_id]

    def parked(self) -> Iterator[GroupRequest]:
        """Every JoinGroup and SyncGroup that waits, for whoever looks from inside the process."""
        for shard in self._shards.values():
            for group in shard.groups.by_id.values():
                for member in group.round.members.values():
                    yield from (asked for asked in (member.join, member.sync) if asked is not None)

    def take_notes(self) -> list[Note]:
        """Lines for the broker's log, each given once."""
        notes, self._notes = self._notes, []
        return notes

    # Which groups are here.

    def partition_of(self, group_id: str) -> int:
        """The partition of ``__consumer_offsets`` that holds the group."""
        return partition_of(group_id, self._partitions)

    def start_loading(self, partition: int) -> None:
        """This broker is to coordinate the groups of ``partition``, as soon as they are read."""
        assert partition not in self._shards or self._shards[partition].availability is Availability.FAILED
        self._shards[partition] = Shard(partition)

    def coordinates(self, partition: int) -> bool:
        """Whether the groups of ``partition`` are here, or on their way."""
        return partition in self._shards

    def load(self, partition: int, records: Iterable[LogItem], now_ms: int) -> list[Reply]:
        """Read a partition from its log and go on from there."""
        shard = self._shards.get(partition)
        if shard is None or shard.availability is not Availability.LOADING:
            self.start_loading(partition)
        self.load_some(partition, records, now_ms, Skipped())
        return self.finish_loading(partition, now_ms)

    def load_some(self, partition: int, records: Iterable[LogItem], now_ms: int, skipped: Skipped) -> None:
        """Read the next records of a partition that is loading; what cannot be read goes to ``skipped``."""
        replay_log(self._shards[partition].groups, records, now_ms, skipped)

    def refuse_loading(self, partition: int) -> None:
        """The partition cannot be read: its groups are not coordinated."""
        self._shards[partition].availability = Availability.FAILED

    def finish_loading(self, partition: int, now_ms: int) -> list[Reply]:
        """All records of the partition were read: its groups go on from there."""
        shard = self._shards[partition]
        ctx = self._at(now_ms)
        for group_id in list(shard.groups.by_id):
            shard.groups.maybe_forget(group_id)
        shard.availability = Availability.ACTIVE
        self._timers.set((partition, SWEEP), now_ms + self._config.offsets_retention_check_interval_ms)
        return self._carry_out_all(shard, shard.begin(ctx), ctx)

    def unload(self, partition: int, now_ms: int) -> list[Reply]:
        """This broker no longer coordinates the groups of ``partition``."""
        shard = self._shards.get(partition)
        if shard is None:
            return []
        ctx = self._at(now_ms)
        replies: list[Reply] = []
        for _, outcome in shard.resign(ctx) if shard.availability is Availability.ACTIVE else ():
            self._arm(shard, outcome)
            self._journal += outcome.journal
            replies += outcome.replies
        self._timers.cancel((partition, SWEEP))
        del self._shards[partition]
        return replies

    def _shard_of(self, group_id: str) -> Shard:
        """Where the group lives. Raises NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._shards.get(partition_of(group_id, self._partitions))
        if shard is not None and shard.availability is Availability.ACTIVE:
            return shard
        if shard is None or shard.availability is Availability.FAILED:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def _check_room(self, request: GroupRequest, shard: Shard, now_ms: int) -> None:
        """Raises COORDINATOR_NOT_AVAILABLE, as groups may go, where all of them hold too much for one more."""
        all_groups = (one.groups for one in self._shards.values())
        if not self._room.takes(request, shard.groups, all_groups, now_ms):
            problem = "groups hold as much memory as they may: new groups and members are refused"
            self._notes.append(warning(f"{problem} (group.coordinator.max.bytes)", "groups"))
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _at(self, now_ms: int) -> Context:
        return Context(now_ms, self._config, self._rng, self._topics, self._connections)

    # How a decision becomes real.

    def _carry_out(self, shard: Shard, group_id: str, outcome: Outcome, ctx: Context) -> list[Reply]:
        if outcome.records:
            try:
                built = [build_record(r) for r in outcome.records]
                self._append(shard.partition, built, ctx.now_ms, outcome.producer)
            except (ApiError, StorageError, ProtocolError) as error:
                outcome = self._refused(shard, group_id, outcome, error, ctx)
            else:
                producer_id = NO_PRODUCER if outcome.producer is None else outcome.producer.producer_id
                for record in outcome.records:
                    replay(shard.groups, record, ctx.now_ms, producer_id)
        if outcome.timers:
            self._arm(shard, outcome)
        if outcome.journal:
            self._journal += outcome.journal
        shard.groups.maybe_forget(group_id)
        if self._checked:
            self._check(shard, group_id, outcome)
        return outcome.replies

    def _carry_out_all(self, shard: Shard, outcomes: Iterator[tuple[str, Outcome]], ctx: Context) -> list[Reply]:
        replies: list[Reply] = []
        for group_id, outcome in outcomes:
            replies += self._carry_out(shard, group_id, outcome, ctx)
        return replies

    def _refused(self, shard: Shard, group_id: str, outcome: Outcome, error: KohortError, ctx: Context) -> Outcome:
        """What is left of an outcome whose records could not be appended."""
        code = code_of(error)
        instead = Outcome(
            replies=[refused(reply, code) for reply in outcome.replies],
            journal=[entry for entry in outcome.journal if not entry.CLAIMS_WRITTEN],
        )
        group = shard.groups.by_id.get(group_id)
        if outcome.round_changed and group is not None:
            dropped = drop_round(group, ctx, code)
            instead.replies += dropped.replies
            instead.timers += dropped.timers
            instead.journal += dropped.journal
        return instead

    def _arm(self, shard: Shard, outcome: Outcome) -> None:
        for change in outcome.timers:
            if isinstance(change, SetTimer):
                self._timers.set((shard.partition, change.key), change.at_ms)
            else:
                self._timers.cancel((shard.partition, change.key))

    # Requests that are not about one group.

    def _fetch_offsets(self, request: GroupRequest, ctx: Context) -> list[Reply]:
        def offsets_of(group_id: str) -> GroupOffsets:
            return self._shard_of(group_id).groups.offsets.get(group_id, NO_OFFSETS)

        return [answer_fetch(request, offsets_of, ctx.topics)]

    def _describe_groups(self, request: GroupRequest, _ctx: Context) -> list[Reply]:
        message = request.message
        assert isinstance(message, DescribeGroupsRequest)
        described = []
        operations = message.include_authorized_operations
        for group_id in message.groups:
            try:
                group = self._shard_of(group_id).groups.by_id.get(group_id)
                described.append(describe_group(group_id, group, request.api_version, operations=operations))
            except ApiError as error:
                described.append(refused_description(group_id, error, request.api_version))
        return [Reply(request, DescribeGroupsResponse(groups=described))]

    def _list_groups(self, request: GroupRequest, _ctx: Context) -> list[Reply]:
        message = request.message
        assert isinstance(message, ListGroupsRequest)
        if any(shard.availability is Availability.LOADING for shard in self._shards.values()):
            return [refusal(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
        active = [s for s in self._shards.values() if s.availability is Availability.ACTIVE]
        groups = (group for shard in active for group in shard.groups.by_id.values())
        listed = list_groups(groups, message.states_filter, message.types_filter)
        return [Reply(request, ListGroupsResponse(groups=listed))]

    def _delete_groups(self, request: GroupRequest, ctx: Context) -> list[Reply]:
        message = request.message
        assert isinstance(message, DeleteGroupsRequest)
        results = []
        for group_id in dict.fromkeys(message.groups_names):
            code = self._delete_group(group_id, request, ctx)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return [Reply(request, DeleteGroupsResponse(results=results))]

    def _delete_group(self, group_id: str, request: GroupRequest, ctx: Context) -> ErrorCode:
        """Each group is a write of its own; one that fails leaves the group as it was."""
        try:
            shard = self._shard_of(group_id)
            groups = shard.groups
            outcome = decide_delete_group(groups.by_id.get(group_id), groups.offsets.get(group_id), request, ctx)
        except ApiError as error:
            return error.code
        acknowledged = Reply(request, DeleteGroupsResponse())
        outcome.replies.append(acknowledged)
        (reply,) = self._carry_out(shard, group_id, outcome, ctx)
        if reply is acknowledged:
            return ErrorCode.NONE
        assert isinstance(reply.message, DeleteGroupsResponse)
        return ErrorCode(reply.message.results[0].error_code)

    # What must hold.

    def check_invariants(self, now_ms: int) -> None:
        """Raises InvariantBroken if anything that must hold does not. ``now_ms`` is past every timer that was due."""
        wake_at_ms = self.wake_at_ms
        if wake_at_ms is not None and wake_at_ms < now_ms:
            raise InvariantBroken(f"a timer was due at {wake_at_ms} and it is {now_ms}")
        for shard in self._shards.values():
            if shard.availability is Availability.ACTIVE:
                check_groups(shard.groups, shard.partition, self._timers)

    def check_replay(self, partition: int, log: Iterable[LogItem]) -> None:
        """Raises InvariantBroken unless ``log``, all of the partition, gives what is written, if it is loaded here."""
        shard = self._shards.get(partition)
        if shard is not None and shard.availability is Availability.ACTIVE:
            check_replay(shard.groups, log)

    def _check(self, shard: Shard, group_id: str, outcome: Outcome) -> None:
        for reply in outcome.replies:
            check_acknowledged(shard.groups, reply)
        group = shard.groups.by_id.get(group_id)
        if group is not None:
            check_group(shard.groups, group, shard.partition, self._timers)

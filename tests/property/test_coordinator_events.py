"""Any event in any state of a group: no crash, valid invariants, a response to each request.

After every event the stage checks the invariants, and replays the log.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.api_table import GROUP_APIS
from kohort.coordinator.classic.states import GroupState
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import JoinGroupResponse, MemberIdentity
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import GROUP, RANGE, CoordinatorStage

HOUR = 3_600_000
OTHER = (("range", subscription("t", "u")), ("sticky", b""))


class GroupClients:
    """A few dynamic and static members with the values of their last responses."""

    def __init__(self, **options: int) -> None:
        options = {"offsets_topic_num_partitions": 1, "group_max_size": 4} | options
        self.stage = CoordinatorStage(**options)
        self.ids = [""] * 6
        self.tickets: dict[int, int] = {}
        self.lost: set[int] = set()
        self.highest = 0
        self.restarted = False

    def instance(self, i: int) -> str | None:
        return f"i-{i % 2}" if i >= 3 else None

    def learn(self) -> None:
        """Each player takes the id it was last given; generations never go back while the broker runs."""
        for i, ticket in self.tickets.items():
            answer = self.stage.answer(ticket)
            if isinstance(answer, JoinGroupResponse):
                if answer.member_id:
                    self.ids[i] = answer.member_id
                if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self.ids[i] = ""
                self.highest = max(self.highest, answer.generation_id)

    def generation(self, back: int) -> int:
        return self.highest - back

    def join(self, i: int, v: int) -> None:
        version = (9, 8, 5 if self.instance(i) else 3, 9)[v]
        protocols = OTHER if v == 3 else RANGE
        before = self.highest
        ticket = self.stage.join(
            self.ids[i],
            instance_id=self.instance(i),
            version=version,
            protocols=protocols,
            session_ms=6000 + 4000 * i,
            rebalance_ms=5000 + 7000 * v,
        )
        self.tickets[i] = ticket
        answer = self.stage.answer(ticket)
        if answer is not None and answer.error_code == ErrorCode.NONE and not self.restarted:
            assert answer.generation_id >= before
        self.learn()

    def join_as_new(self, i: int, v: int) -> None:
        self.ids[i] = ""
        self.join(i, v)

    def sync(self, i: int, v: int) -> None:
        assignments = {m: assignment(("t", n)) for n, m in enumerate(self.ids) if m}
        self.stage.sync(
            self.ids[i],
            self.generation(v // 3),
            assignments,
            instance_id=self.instance(i),
            protocol_name=None,
            version=4,
        )

    def heartbeat(self, i: int, v: int) -> None:
        self.stage.heartbeat(self.ids[i], self.generation(v // 3), instance_id=self.instance(i) if v % 2 else None)

    def leave(self, i: int, v: int) -> None:
        by_instance = v == 1 and self.instance(i) is not None
        entry = MemberIdentity(
            member_id="" if by_instance else self.ids[i], group_instance_id=self.instance(i) if by_instance else None
        )
        self.stage.leave(entry, self.ids[(i + v) % 6])

    def commit(self, i: int, v: int) -> None:
        self.stage.commit(
            {("t", i % 4): v, ("u", 0): v, ("gone", 0): 1},
            member_id=self.ids[i] if v else "",
            generation=self.generation(0) if v else -1,
            version=2 + v,
            retention_ms=HOUR if v == 2 else -1,
        )

    def administer(self, i: int, v: int) -> None:
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=i % 4)])
        message, version = (
            (DeleteGroupsRequest(groups_names=[GROUP]), 2),
            (DescribeGroupsRequest(groups=[GROUP]), 6),
            (ListGroupsRequest(), 5),
            (OffsetDeleteRequest(group_id=GROUP, topics=[topic]), 0),
        )[v]
        self.stage.ask(message, version)
        self.stage.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)]), 8)

    def wait(self, i: int, v: int) -> None:
        self.stage.advance((1, 700, 6000, 60_000)[v] + i)
        self.learn()

    def refuse_appends(self, i: int, v: int) -> None:
        errors = (ApiError(ErrorCode.NOT_ENOUGH_REPLICAS), StorageError("disk full"), None, None)
        self.stage.refuse_with = errors[v]

    def restart(self, i: int, v: int) -> None:
        """Restart the broker; parked requests are lost."""
        if v:
            self.lost |= set(range(1, self.stage.tickets + 1)) - self.stage.answers.keys()
            self.stage.restart()
            self.restarted = True

    def move(self, i: int, v: int) -> None:
        """Move the partition away and back; parked requests get NOT_COORDINATOR."""
        if v:
            self.stage.unload()
            unanswered = set(range(1, self.stage.tickets + 1)) - self.stage.answers.keys() - self.lost
            assert unanswered == set()
            self.stage.reload()
            self.restarted = True

    def delete_topic(self, i: int, v: int) -> None:
        if v == 0 and "u" in self.stage.topics.partitions:
            self.stage.topics.delete("u")
            self.stage.coordinator.topics_deleted(["u"], self.stage.now)
            self.stage.check()

    def end(self) -> None:
        """Stop all faults and advance the clock: parked requests are answered, and silent members expire."""
        self.stage.refuse_with = None
        self.stage.advance(HOUR)
        unanswered = set(range(1, self.stage.tickets + 1)) - self.stage.answers.keys() - self.lost
        assert unanswered == set()
        assert self.state() in ("Empty", "Dead")

    def state(self) -> str:
        (group,) = self.stage.answer(self.stage.ask(DescribeGroupsRequest(groups=[GROUP]), 5)).groups
        state: str = group.group_state
        return state


Act = Callable[[GroupClients, int, int], None]
ACTS: dict[str, Act] = {
    name: getattr(GroupClients, name)
    for name in (
        "join",
        "join_as_new",
        "sync",
        "heartbeat",
        "leave",
        "commit",
        "administer",
        "wait",
        "refuse_appends",
        "restart",
        "move",
        "delete_topic",
    )
}


def missing(_players: GroupClients) -> None:
    """There is no group."""


def simple(players: GroupClients) -> None:
    players.commit(0, 0)


def pending(players: GroupClients) -> None:
    players.join(0, 0)


def initial(players: GroupClients) -> None:
    """The initial delay runs, for a dynamic and a static member."""
    players.join(3, 0)
    players.join(0, 2)


def completing(players: GroupClients) -> None:
    """GroupClient 0, who leads, and player 3, who waits for its assignment."""
    players.join(0, 0)
    players.join(0, 0)
    players.join(3, 0)
    players.join(0, 0)
    players.sync(3, 0)


def stable(players: GroupClients) -> None:
    completing(players)
    players.sync(0, 0)


def preparing(players: GroupClients) -> None:
    stable(players)
    players.join(0, 3)


def empty(players: GroupClients) -> None:
    stable(players)
    players.leave(0, 3)


SETUPS = {
    missing: "Dead",
    simple: "Empty",
    pending: "Empty",
    initial: "PreparingRebalance",
    completing: "CompletingRebalance",
    stable: "Stable",
    preparing: "PreparingRebalance",
    empty: "Empty",
}


@pytest.mark.parametrize("setup", SETUPS)
@pytest.mark.parametrize("act", ACTS)
def test_every_event_in_every_state(setup, act):
    for i, v, refuse in product((0, 1, 3), range(4), (False, True)):
        players = GroupClients(group_initial_rebalance_delay_ms=3000 if setup is initial else 0)
        setup(players)
        assert players.state() == SETUPS[setup]
        if refuse:
            players.refuse_appends(0, 0)
        ACTS[act](players, i, v)


def test_the_events_are_all_requests_and_the_states_all_states():
    players = GroupClients()
    stable(players)
    for act, v in product(ACTS.values(), range(4)):
        act(players, 0, v)
    elsewhere = {TxnOffsetCommitRequest, ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest}
    assert players.stage.received_types >= GROUP_APIS.keys() - elsewhere
    assert set(SETUPS.values()) == {state.value for state in GroupState}


@pytest.mark.parametrize("setup", SETUPS)
def test_every_state_ends_when_everyone_falls_silent(setup):
    players = GroupClients(group_initial_rebalance_delay_ms=3000 if setup is initial else 0)
    setup(players)

    players.end()


steps = st.lists(st.tuples(st.sampled_from(sorted(ACTS)), st.integers(0, 5), st.integers(0, 3)), max_size=40)


@settings(max_examples=40)
@given(steps=steps, delay_ms=st.sampled_from([0, 3000]), max_size=st.sampled_from([2, 4, 100]))
def test_any_sequence_of_events(steps, delay_ms, max_size):
    players = GroupClients(group_initial_rebalance_delay_ms=delay_ms, group_max_size=max_size)
    for name, i, v in steps:
        ACTS[name](players, i, v)
    players.end()

"""Members of consumer groups that behave well and ill, in any order: no partition has two owners, and in the end
everybody has what is theirs.

The stage checks the invariants, and that replaying the log gives what is written, after every event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.coordinator.consumer.group import ConsumerGroupState
from kohort.errors import ErrorCode, StorageError
from kohort.insight.assignments import JournaledGroup
from kohort.insight.epochs import epoch_rebalances
from kohort.insight.why import explain
from support.machines.coordinator_stage import GROUP, CoordinatorStage, Topics

Place = tuple[str, int]
STALE = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID}
SUBSCRIPTIONS = (["t"], ["u"], ["t", "u"], ["t", "gone"], [])
CLIENTS = 5
"""Number of members; those after the third are static."""


class GroupClient:
    """A correct client: it revokes partitions on request, and joins again after an error."""

    def __init__(self, stage: CoordinatorStage, i: int) -> None:
        self.stage = stage
        self.member_id = f"m{i}"
        self.instance_id = f"i{i}" if i >= 3 else None
        self.names = ["t", "u"]
        self.epoch = 0
        self.owned: list[Place] = []

    def beat(self, *, tells: bool = True) -> None:
        if self.epoch <= 0:
            self.owned = []
            fields = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": self.names}
            answer = self.stage.beat(self.member_id, 0, [], instance_id=self.instance_id, **fields)
        else:
            owned = [place for place in self.owned if place[0] in self.stage.topics.ids] if tells else None
            answer = self.stage.beat(self.member_id, self.epoch, owned, subscribed_topic_names=self.names)
        if answer.error_code in STALE:
            self.epoch, self.owned = 0, []
        elif not answer.error_code:
            self.epoch = answer.member_epoch
            assignment = self.stage.assignment_in(answer)
            self.owned = self.owned if assignment is None else assignment

    def leave(self, epoch: int) -> None:
        self.stage.beat(self.member_id, epoch, instance_id=self.instance_id)
        self.epoch, self.owned = 0, []


def play(stage: CoordinatorStage, players: list[GroupClient], event: tuple[int, int, int]) -> None:
    """Run one event: kind, member, variant."""
    what, who, how = event
    player = players[who]
    if what <= 3:
        player.beat(tells=how % 2 == 0)
    elif what == 4:
        player.names = SUBSCRIPTIONS[how]
        player.beat()
    elif what == 5:
        player.leave(-2 if player.instance_id is not None and how % 2 else -1)
    elif what == 6:  # heartbeats of invalid members
        stage.beat(player.member_id, player.epoch + (-1, 1, 7, -3, 0)[how], [("t", 0), ("u", 9)])
    elif what == 7:
        stage.advance((1, 900, 4_000, 44_000, 46_000)[how])
    elif what == 8:
        stage.topics.make(("t", "u", "gone")[how % 3], 3 + how)
    elif what == 9:
        stage.restart()
    else:
        stage.refuse_with = StorageError("full") if how % 2 else None


def the_journal_adds_up(stage: CoordinatorStage) -> None:
    """Check that the journal's members, owned and target partitions equal the persisted ones."""
    journaled = JournaledGroup()
    for entry in stage.journal:
        journaled.take(entry)
    for rebalance in epoch_rebalances(stage.journal):
        assert explain(rebalance).evidence
        assert all((gap.took_ms or 0) >= 0 for gap in rebalance.unowned)
    group = stage.coordinator._shards.by_partition[0].groups.consumer.get(GROUP)
    members = {} if group is None else group.members
    assert journaled.members.keys() == members.keys()
    for member_id, member in members.items():
        journaled_member, current = journaled.members[member_id], member.current
        assert journaled_member.known
        assert journaled_member.assignment == named(stage, current.assigned)
        assert journaled_member.revoking.keys() == named(stage, current.pending)
        if journaled_member.target is not None and group is not None:
            assert journaled_member.target == named(stage, group.target(member_id))


def named(stage: CoordinatorStage, partitions: Mapping[bytes, Iterable[int]]) -> set[Place]:
    return {(stage.topics.topic_name(topic) or topic.hex(), p) for topic, of in partitions.items() for p in of}


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, CLIENTS - 1), st.integers(0, 4)), max_size=40),
    st.sampled_from([0, 1_000]),
)
@example([(0, 4, 0), (5, 4, 3), (4, 4, 0)], 1_000)  # back with fewer topics than its target has
def test_all_members_finally_own_their_target_assignment(events, interval_ms):
    stage = CoordinatorStage(
        topics=Topics(t=5, u=2), offsets_topic_num_partitions=1, group_consumer_assignment_interval_ms=interval_ms
    )
    players = [GroupClient(stage, i) for i in range(CLIENTS)]
    for event in events:
        play(stage, players, event)
        the_journal_adds_up(stage)

    stage.refuse_with = None
    stage.advance(50_000)  # the coordinator removes members that did not revoke in time
    for player in players:
        player.names = ["t", "u"]
    for _ in range(12):
        stage.advance(1_000)
        for player in players:
            player.beat()

    the_journal_adds_up(stage)
    assert epoch_rebalances(stage.journal)[-1].end == "stable"
    owned = sorted(place for player in players for place in player.owned)
    assert owned == [(name, p) for name in ("t", "u") for p in range(stage.topics.partitions[name])]
    group = stage.coordinator._shards.by_partition[0].groups.consumer[GROUP]
    assert group.state is ConsumerGroupState.STABLE
    assert {player.epoch for player in players} == {group.epoch}

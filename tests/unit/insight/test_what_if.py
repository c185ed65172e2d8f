"""Stories of what-if: what it predicts, and that a real group, played on the machines, then does just that."""

from __future__ import annotations

import random

import pytest
from tests.support.machines.consumer_stage import ConsumerStage, User
from tests.support.machines.group_looks import look, member

from kohort.errors import UsageError
from kohort.insight.findings.what_if import WhatIfFinding
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.insight.what_if.predict import what_if
from kohort.insight.what_if.scenario import Scenario
from kohort.model import TopicPartition

NINE = {n: (0, 10 * n) for n in range(9)}


def three(assignor: str | None = "cooperative-sticky", **more: object) -> GroupSnapshot:
    members = [member("a", 0, 1, 2), member("b", 3, 4, 5), member("c", 6, 7, 8)]
    return look(0, members, NINE, assignor=assignor, **more)


def loads(found: WhatIfFinding) -> dict[str, tuple[int | None, int | None]]:
    return {one.member_id: (one.partitions_before, one.partitions_after) for one in found.loads}


def test_added_members_take_what_they_must_in_two_cooperative_rounds():
    found = what_if(three(), Scenario(newcomers=(("n1", None), ("n2", None), ("n3", None))))

    assert (found.rounds, len(found.moves), found.members_after, found.idle) == (2, 3, 6, ())
    assert {move.after for move in found.moves} == {"n1", "n2", "n3"}
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((0.3, 3 * 3.1)), "only what moves"


def test_an_eager_group_pauses_as_a_whole():
    found = what_if(three("sticky"), Scenario(newcomers=(("n1", None),)))

    assert (found.rounds, len(found.moves)) == (1, 2)
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((0.9, 9 * 3.1))


@pytest.mark.parametrize(
    ("how", "least_s", "most_s"), [("close", 0.3, 9.3), ("sigkill", 126.3, 144.3), ("poll", 900.3, 909.3)]
)
def test_the_partitions_of_a_killed_member_wait_until_it_is_given_up(how: str, least_s: float, most_s: float):
    found = what_if(three(), Scenario(kill=(("a-id", how),)))  # type: ignore[arg-type]

    assert (found.rounds, len(found.moves), loads(found)["a-id"]) == (1, 3, (3, None))
    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((least_s, most_s))


def test_a_static_rolling_restart_moves_nothing_and_a_dynamic_one_says_what_it_costs():
    static = what_if(three(), Scenario(rolling_restart="static"))
    dynamic = what_if(three(), Scenario(rolling_restart="dynamic"))

    assert (static.rounds, static.moves, static.moves_in_all) == (0, (), 0)
    assert "only 0 of 3 members have a group.instance.id now" in static.notes
    assert dynamic.rounds >= 6
    assert dynamic.moves_in_all >= 9


def test_the_partitions_of_an_only_member_wait_while_it_is_restarted():
    found = what_if(
        look(0, [member("a", 0, 1)], {0: (0, 0), 1: (0, 0)}, assignor="cooperative-sticky"),
        Scenario(rolling_restart="dynamic"),
    )

    assert (found.pause_from_s, found.pause_to_s) == pytest.approx((2 * 5.1, 2 * 33.1))


def test_more_members_than_partitions_idle():
    found = what_if(three("range"), Scenario(newcomers=tuple((f"n{n}", None) for n in range(8))))

    assert len(found.idle) == 2
    assert found.notes == ("no more than 9 members are of use: there are 9 partitions",)


def test_added_partitions_come_from_nobody_and_lag_stays_with_its_partition():
    found = what_if(three(), Scenario(partitions={"t": 12}))

    assert [(m.partition, m.before) for m in found.moves] == [(9, None), (10, None), (11, None)]
    assert [(one.lag_before, one.lag_after) for one in found.loads] == [(30, 30), (120, 120), (210, 210)]


def test_to_consumer_moves_nothing_of_a_balanced_group():
    found = what_if(three(), Scenario(to_consumer=True))

    assert (found.protocol, found.assignor, found.moves) == ("consumer", "uniform", ())


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (Scenario(remove=("x",)), "member 'x' is not in the group"),
        (Scenario(assignor="uniform"), "assignor 'uniform' is not one of classic groups"),
        (Scenario(assignor="sticky", to_consumer=True), "assignor 'sticky' is not one of modern groups"),
        (Scenario(partitions={"t": 3}), "topic 't' has 9 partitions; Kafka cannot take any away"),
        (Scenario(partitions={"u": 3}), "group 'g' does not read topic 'u'"),
        (Scenario(newcomers=(("a-id", None),)), "newcomer 'a-id' is in the group already"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(scenario: Scenario, words: str):
    with pytest.raises(UsageError, match=words):
        what_if(three(), scenario)


def test_a_group_without_members_has_nothing_to_predict():
    with pytest.raises(UsageError, match="has no members"):
        what_if(look(0, [], NINE), Scenario())


# What it predicts is what a real group does

CLASSIC = ("range", "roundrobin", "sticky", "cooperative-sticky")


class PlayedGroup:
    """A real group on a stage, and looks at it."""

    def __init__(self, protocol: str, assignor: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.protocol, self.assignor = protocol, assignor
        self.stage = ConsumerStage(group_consumer_assignment_interval_ms=0)
        self.topics = {"t": self.rng.randrange(1, 13), "u": self.rng.randrange(1, 8)}
        for name, count in self.topics.items():
            self.stage.topic(name, count)

    def join(self, **more: object) -> User:
        options: dict[str, object] = (
            {"partition_assignment_strategy": [self.assignor]}
            if self.protocol == "classic"
            else {"group_remote_assignor": self.assignor}
        )
        return self.stage.user(list(self.topics), group_id="g", group_protocol=self.protocol, **options, **more)

    def settle(self) -> None:
        self.stage.until(self.is_settled, limit_ms=240_000)
        self.stage.polls(12_000)
        self.stage.until(self.is_settled, limit_ms=240_000)

    def living(self) -> list[User]:
        return [user for user in self.stage.users if user.alive]

    def is_settled(self) -> bool:
        owned = sorted(tp for user in self.living() for tp in user.machine.subscription.assigned)
        return len(owned) == len(set(owned)) == sum(self.topics.values()) and all(
            user.machine.is_stable for user in self.living()
        )

    def owners(self) -> dict[str, set[TopicPartition]]:
        return {self.id_of(user): set(user.machine.subscription.assigned) for user in self.living()}

    def id_of(self, user: User) -> str:
        return user.membership.generation.member_id if self.protocol == "classic" else user.membership.member_id

    def look(self) -> GroupSnapshot:
        topics = self.stage.broker.state.topics
        members = tuple(
            MemberSnapshot(
                member_id=self.id_of(user),
                instance_id=user.machine.config.group_instance_id,
                topics=tuple(self.topics),
                assignment=tuple(sorted(user.machine.subscription.assigned)),
            )
            for user in self.living()
        )
        return GroupSnapshot(
            at_ms=self.stage.now_ms,
            group="g",
            state="Stable",
            protocol=self.protocol,  # type: ignore[arg-type]
            assignor=self.assignor,
            members=members,
            partition_counts=self.topics,
            topic_ids={topic.name: topic.topic_id for topic in topics if topic.name in self.topics},
        )


def predicted(found: WhatIfFinding, before: dict[str, set[TopicPartition]]) -> dict[str, set[TopicPartition]]:
    owners = {one.member_id: set(before.get(one.member_id, ())) for one in found.loads}
    for move in found.moves:
        if move.before is not None:
            owners[move.before].discard(TopicPartition(move.topic, move.partition))
        if move.after is not None:
            owners[move.after].add(TopicPartition(move.topic, move.partition))
    return {one.member_id: owners[one.member_id] for one in found.loads if one.partitions_after is not None}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [*(("classic", name) for name in CLASSIC), ("consumer", "uniform"), ("consumer", "range")],
)
def test_a_real_group_does_what_was_predicted(protocol: str, assignor: str, seed: int):
    group = PlayedGroup(protocol, assignor, seed)
    for _ in range(group.rng.randrange(1, 5)):
        group.join()
        group.settle()
    for _ in range(4):
        snapshot, before = group.look(), group.owners()
        if len(before) > 1 and group.rng.random() < 0.5:
            leaver = group.rng.choice(group.living())
            scenario = Scenario(remove=(group.id_of(leaver),))
            leaver.leave()
            group.settle()
        else:
            newcomer = group.join()
            group.settle()
            scenario = Scenario(newcomers=((group.id_of(newcomer), None),))

        assert predicted(what_if(snapshot, scenario), before) == group.owners()


@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [*(("classic", name) for name in CLASSIC), ("consumer", "uniform"), ("consumer", "range")],
)
def test_static_members_that_join_and_are_killed_end_as_predicted(protocol: str, assignor: str):
    group = PlayedGroup(protocol, assignor, seed=7)
    for n in range(3):
        group.join(group_instance_id=f"i{n}")
        group.settle()

    snapshot, before = group.look(), group.owners()
    newcomer = group.join(group_instance_id="a-first")
    group.settle()
    joined = what_if(snapshot, Scenario(newcomers=((group.id_of(newcomer), "a-first"),)))
    assert predicted(joined, before) == group.owners()

    snapshot, before = group.look(), group.owners()
    victim = group.living()[1]
    killed = what_if(snapshot, Scenario(kill=((group.id_of(victim), "sigkill"),)))
    victim.die()
    group.settle()
    assert predicted(killed, before) == group.owners()

"""Predictions of what-if, compared with real clients of a real broker.

The scenarios are joins, removals, kills, rolling restarts, topic growth, another assignor, another protocol, and
combinations of these. They are played for classic groups and for consumer groups.
"""

from __future__ import annotations

import random

import pytest

from kohort.insight.findings.what_if import WhatIfFinding
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.insight.what_if.predict import what_if
from kohort.insight.what_if.scenario import Scenario
from kohort.model import TopicPartition
from support.machines.consumer_stage import ConsumerStage, User

pytestmark = pytest.mark.heavy


CLASSIC = ("range", "roundrobin", "sticky", "cooperative-sticky")
WAYS = [*(("classic", name) for name in CLASSIC), ("consumer", "uniform"), ("consumer", "range")]
each_way = pytest.mark.parametrize(("protocol", "assignor"), WAYS)


class PlayedGroup:
    """Group of real clients, and snapshots of this group."""

    def __init__(self, protocol: str, assignor: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.protocol, self.assignor = protocol, assignor
        self.stage = ConsumerStage(group_consumer_assignment_interval_ms=0)
        self.topics = {"t": self.rng.randrange(1, 13), "u": self.rng.randrange(1, 8)}
        for name, count in self.topics.items():
            self.stage.topic(name, count)

    def join(self, *, to: tuple[str, str] | None = None, **more: object) -> User:
        protocol, assignor = to or (self.protocol, self.assignor)
        options: dict[str, object] = {"group_remote_assignor": assignor}
        if protocol == "classic":
            options = {"partition_assignment_strategy": list(dict.fromkeys((assignor, self.assignor)))}
        options["metadata_max_age_ms"] = 1000
        return self.stage.user(list(self.topics), group_id="g", group_protocol=protocol, **options, **more)

    def grow(self, topic: str, by: int) -> int:
        self.topics[topic] += by
        self.stage.broker.state.topics.add_partitions(topic, self.topics[topic])
        return self.topics[topic]

    def roll(self, to: tuple[str, str] | None = None) -> dict[str, str]:
        again = {}
        for user in self.living():
            member_id, instance_id = self.id_of(user), user.machine.config.group_instance_id
            if instance_id is not None and user.machine.config.group_protocol == "classic":
                user.die()  # the process dies without a LeaveGroup request: the member stays until its session expires
            else:
                user.leave()
            if instance_id is None and self.living():
                self.settle()
            else:
                self.stage.polls(1000)
            again[member_id] = self.join(to=to, group_instance_id=instance_id)
            self.settle()
        return {member_id: self.id_of(back) for member_id, back in again.items()}

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
        is_classic = user.machine.config.group_protocol == "classic"
        return user.membership.generation.member_id if is_classic else user.membership.member_id

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
            partition_counts=dict(self.topics),
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
@each_way
def test_what_if_predicts_the_assignments_of_a_real_group(protocol: str, assignor: str, seed: int):
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


@each_way
def test_what_if_predicts_static_joins_and_kills_of_a_real_group(protocol: str, assignor: str):
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


@pytest.mark.parametrize("seed", range(2))
@each_way
def test_what_if_predicts_new_members_and_grown_topics_of_a_real_group(protocol: str, assignor: str, seed: int):
    group = PlayedGroup(protocol, assignor, seed)
    for _ in range(2):
        group.join()
        group.settle()

    snapshot, before = group.look(), group.owners()
    newcomers = [group.join() for _ in range(3)]
    group.settle()
    joined = what_if(snapshot, Scenario(newcomers=tuple((group.id_of(user), None) for user in newcomers)))
    assert predicted(joined, before) == group.owners()

    snapshot, before = group.look(), group.owners()
    counts = {topic: group.grow(topic, 3) for topic in ("t",)}
    group.settle()
    assert predicted(what_if(snapshot, Scenario(partitions=counts)), before) == group.owners()


CHANGES = [
    *((way, way) for way in WAYS),
    (("classic", "range"), ("classic", "roundrobin")),
    (("classic", "range"), ("classic", "cooperative-sticky")),
    (("classic", "cooperative-sticky"), ("classic", "sticky")),
    *((("classic", name), ("consumer", "uniform")) for name in CLASSIC),
    (("classic", "cooperative-sticky"), ("consumer", "range")),
    (("consumer", "uniform"), ("consumer", "range")),
    (("consumer", "range"), ("consumer", "uniform")),
]


@pytest.mark.parametrize("members", ["dynamic", "static", "mixed"])
@pytest.mark.parametrize(("before", "after"), CHANGES, ids="-".join)
def test_what_if_predicts_a_rolling_restart_of_a_real_group(
    before: tuple[str, str], after: tuple[str, str], members: str
):
    group = PlayedGroup(*before, seed=5)
    for n in range(3):
        is_static = members == "static" or (members == "mixed" and n != 1)
        group.join(group_instance_id=f"i{n}" if is_static else None)
        group.settle()

    snapshot, had = group.look(), group.owners()
    again = group.roll(None if before == after else after)
    change = {"assignor": after[1], "to_consumer": after[0] != before[0]} if before != after else {}
    found = what_if(snapshot, Scenario(rolling_restart=True, new_ids=again, **change))  # type: ignore[arg-type]

    assert {again[name]: has for name, has in predicted(found, had).items()} == group.owners()
    if members == "static" and before == after:
        assert (found.rounds, found.moves_in_all) == (0, 0)


@each_way
def test_what_if_predicts_kill_and_restart_after_topic_growth_of_a_real_group(protocol: str, assignor: str):
    group = PlayedGroup(protocol, assignor, seed=11)
    for _ in range(3):
        group.join()
        group.settle()
    snapshot, before = group.look(), group.owners()
    victim = group.living()[0]
    killed = what_if(snapshot, Scenario(kill=((group.id_of(victim), "sigkill"),)))
    victim.die()
    group.settle()
    assert predicted(killed, before) == group.owners()

    snapshot, before = group.look(), group.owners()
    counts = {"t": group.grow("t", 2)}
    group.settle()
    again = group.roll()
    rolled = what_if(snapshot, Scenario(rolling_restart=True, partitions=counts, new_ids=again))
    assert {again[name]: has for name, has in predicted(rolled, before).items()} == group.owners()

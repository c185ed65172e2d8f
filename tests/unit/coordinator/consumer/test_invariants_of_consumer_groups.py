"""The invariants of consumer groups catch what they are for: in each test one thing of a sound group is put wrong."""

from collections.abc import Callable
from typing import Any

import pytest

from kohort.clock import Timers
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerPresence
from kohort.coordinator.consumer.reconcile import CurrentAssignment, ReconciliationState
from kohort.coordinator.consumer.replaying import replay_consumer_group
from kohort.coordinator.invariants import InvariantBroken, check_consumer_group
from kohort.coordinator.outcome import TimerKey
from support.machines.written_groups import T, epochs, member, resolved

PARTITION = 3
EXPIRES_MS = 1_000


class Sound:
    """A group in which nothing is wrong: a static member that is to give up a partition, one that waits for it and
    subscribes by an expression, and one of the classic protocol that asks for nothing."""

    def __init__(self) -> None:
        self.group = ModernGroup("g")
        self.timers: Timers[Any] = Timers()
        records = (
            *epochs(6),
            *member("m1", 5, {T: {0: 4}}, pending={T: {1: 5}}, instance_id="i"),
            *member("m2", 6, {T: {2: 6}}, names=(), regex="t.*"),
            *member("m3", 6, classic=True),
            *resolved({"t.*": ["t"]}),
        )
        for record in records:
            replay_consumer_group(self.group, record)
        for member_id in self.group.members:
            self.group.presence[member_id] = ConsumerPresence(expires_at_ms=EXPIRES_MS, last_seen_ms=0)
            self.timers.set((PARTITION, TimerKey("member_session", "g", member_id)), EXPIRES_MS)
        self.timers.set((PARTITION, TimerKey("revocation", "g", "m1")), EXPIRES_MS)

    def has(self, member_id: str, **changed: Any) -> None:
        """Say something else of how far a member has come, without a record."""
        one = self.group.members[member_id]
        one.current = one.current._replace(**changed)

    def check(self) -> None:
        check_consumer_group(self.group, PARTITION, self.timers)


def test_in_a_sound_group_nothing_is_wrong():
    Sound().check()


def says(member_id: str, **changed: Any) -> Callable[[Sound], None]:
    def change(sound: Sound) -> None:
        for name, value in changed.items():
            setattr(sound.group.members[member_id].metadata, name, value)

    return change


INDICES: dict[str, Callable[[Sound], None]] = {
    "instances": lambda sound: sound.group.instances.update(i="m2"),
    "instances: ": lambda sound: sound.group.instances.clear(),
    "subscribers": lambda sound: sound.group.subscribers.update(["t"]),
    "subscribers: ": says("m1", subscribed_topic_names=["u"]),
    "regexes": lambda sound: sound.group.regex_users.update(["t.*"]),
    "regexes: ": says("m2", subscribed_topic_regex="u.*"),
    "matched": lambda sound: sound.group.matched.update(["t"]),
    "votes": lambda sound: sound.group.assignor_votes.update(["range"]),
    "votes: ": says("m1", server_assignor="range"),
    "classic members": lambda sound: setattr(sound.group, "classic_members", 2),
    "classic members: the index has 1": says("m3", classic_member_metadata=None),
}


@pytest.mark.parametrize(("index", "plant"), INDICES.items(), ids=INDICES.keys())
def test_an_index_that_is_not_what_is_written(index, plant):
    sound = Sound()
    plant(sound)

    with pytest.raises(InvariantBroken, match=rf"^consumer group 'g' \(epoch 6\): {index}.*, the records"):
        sound.check()


def test_owners_that_members_do_not_know_of():
    sound = Sound()
    sound.group.owners[T, 3] = "m3"

    with pytest.raises(InvariantBroken, match="the index of owners differs from the assignments"):
        sound.check()


def test_a_partition_that_two_have():
    sound = Sound()
    sound.has("m2", assigned={T: {1: 6}})

    with pytest.raises(InvariantBroken, match=rf"\(epoch 6\): {T.hex()}-1 has two owners, one of them m2$"):
        sound.check()


def test_a_target_for_an_epoch_that_the_group_has_not_reached():
    sound = Sound()
    sound.group.target_epoch = 7

    with pytest.raises(InvariantBroken, match="the target is for epoch 7"):
        sound.check()


def test_a_member_that_is_further_than_the_target():
    sound = Sound()
    sound.has("m3", epoch=7)

    with pytest.raises(InvariantBroken, match="m3 has epoch 7, the target 6"):
        sound.check()


@pytest.mark.parametrize("epoch", [6, 7])
def test_a_partition_that_a_member_has_since_an_epoch_of_later(epoch):
    sound = Sound()
    sound.has("m1", pending={T: {1: epoch}})

    with pytest.raises(InvariantBroken, match="m1 has partitions of an epoch after the member's own"):
        sound.check()


def test_a_static_member_that_is_away_has_its_partitions_since_the_start():
    sound = Sound()
    sound.has("m1", epoch=-2, assigned={T: {0: 0}}, pending={T: {1: 0}})
    sound.timers.cancel((PARTITION, TimerKey("revocation", "g", "m1")))
    sound.check()

    sound.has("m1", assigned={T: {0: 1}})
    with pytest.raises(InvariantBroken, match="m1 has partitions of an epoch after the member's own"):
        sound.check()


@pytest.mark.parametrize("stranger", [True, False])
def test_who_is_watched_and_who_is_a_member_are_the_same(stranger):
    sound = Sound()
    if stranger:
        sound.group.presence["m4"] = ConsumerPresence(expires_at_ms=EXPIRES_MS, last_seen_ms=0)
    else:
        del sound.group.presence["m2"]

    with pytest.raises(InvariantBroken, match="members and presence differ"):
        sound.check()


@pytest.mark.parametrize("late", [True, False])
def test_each_member_has_a_session_timer_that_is_not_late(late):
    sound = Sound()
    key = (PARTITION, TimerKey("member_session", "g", "m2"))
    sound.timers.set(key, EXPIRES_MS - 1)
    sound.check()
    if late:
        sound.timers.set(key, EXPIRES_MS + 1)
    else:
        sound.timers.cancel(key)

    with pytest.raises(InvariantBroken, match="session timer of m2 is missing or late"):
        sound.check()


def test_who_is_to_give_something_up_has_a_timer():
    sound = Sound()
    sound.timers.cancel((PARTITION, TimerKey("revocation", "g", "m1")))

    with pytest.raises(InvariantBroken, match="revocation timer of m1: False, its state: 1"):
        sound.check()


def test_nobody_else_has_one():
    sound = Sound()
    sound.timers.set((PARTITION, TimerKey("revocation", "g", "m2")), EXPIRES_MS)

    with pytest.raises(InvariantBroken, match="revocation timer of m2: True, its state: 0"):
        sound.check()


def test_a_member_of_the_classic_protocol_has_another_timer_for_what_it_is_to_give_up():
    sound = Sound()
    sound.has("m3", state=ReconciliationState.UNREVOKED_PARTITIONS)
    assert sound.group.members["m3"].current == CurrentAssignment(
        6, 0, ReconciliationState.UNREVOKED_PARTITIONS, {}, {}
    )

    sound.check()

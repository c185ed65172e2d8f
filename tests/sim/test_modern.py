"""Groups that their coordinator assigns, and groups that are converted: whatever strikes, each partition has one owner,
epochs go on, nothing is lost, and in the calm everybody has what the target says."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kohort.coordinator.consumer.assignment import Current
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember
from kohort.model import TopicPartition
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.epochs import Epochs
from kohort.sim.checks.modern_group import ModernGroupHolds
from kohort.sim.checks.modern_owners import ModernOwners
from kohort.sim.reach import journal_of
from kohort.sim.worlds.modern import run_modern
from kohort.wire.messages.consumer_group_records import ConsumerGroupMemberMetadataValue

EVERY_RUN = range(24)
MORE = range(24, 120)
CHUNK = 6
EVER_FAILED = [int(line.split()[0]) for line in Path(__file__).with_name("modern.txt").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "first", [*EVERY_RUN[::CHUNK], *(pytest.param(first, marks=pytest.mark.whole) for first in MORE[::CHUNK])]
)
def test_the_group_survives_conversions_and_faults_and_settles_in_the_calm(first):
    for seed in range(first, first + CHUNK):
        run = run_modern(seed)

        assert run.producer.acknowledged, f"seed {seed}"


@pytest.mark.parametrize("seed", EVER_FAILED)
def test_a_seed_that_once_failed_passes(seed):
    assert run_modern(seed).producer.acknowledged


def test_the_same_seed_gives_the_same_run():
    first, second = run_modern(3), run_modern(3)

    assert (first.world.events, first.tap.digest) == (second.world.events, second.tap.digest)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_the_protocol_knows_is_reached():
    states, earlier, conversions = set(), 0, set()
    for seed in range(20):
        run = run_modern(seed)
        states |= run.holds.states
        earlier += run.commits.earlier
        conversions |= {e["to"] for e in journal_of(run.coordinator())["g"] if e["kind"] == "group_converted"}

    assert states >= {"UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS", "MIXED"}
    assert earlier
    assert conversions == {"consumer", "classic"}


# The checks themselves


def test_an_epoch_that_goes_back_is_an_error_but_not_in_another_stretch():
    stretch = [0]
    check = Epochs("g", lambda: stretch[0])
    check.check_goes_up("m", 5)

    check.check_was_told("m", 5)
    with pytest.raises(CheckFailed, match="m is told epoch 4 after 5"):
        check.check_goes_up("m", 4)
    with pytest.raises(CheckFailed, match="with epoch 6 is taken, which was told 5"):
        check.check_was_told("m", 6)
    stretch[0] = 1
    check.check_goes_up("m", 4)


def test_targets_come_after_the_interval():
    check = ModernGroupHolds(lambda: None, lambda: 0, 1_000)
    check.check_target(1, 10_000)
    check.check_target(2, 11_000)

    with pytest.raises(CheckFailed, match="a target 999 ms after another"):
        check.check_target(3, 11_999)
    with pytest.raises(CheckFailed, match="the target is of epoch 1 after 2"):
        check.check_target(1, 20_000)


def test_what_a_member_believes_is_what_the_coordinator_has():
    group = ModernGroup("g")
    group.members["m"] = ConsumerMember("m", ConsumerGroupMemberMetadataValue(), Current(epoch=3))
    check = ModernOwners(lambda: group, lambda: None)
    check._topics = object
    believer = SimpleNamespace(name="c0", member_id="m")

    with pytest.raises(CheckFailed, match="c0 believes to own t-0, and the coordinator"):
        check.took(believer, 3, frozenset({TopicPartition("t", 0)}))
    check.gave_up(believer, "lost", frozenset({TopicPartition("t", 0)}))
    check.check()

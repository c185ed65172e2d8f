"""A group that copies a topic in transactions, under faults: what is committed at the end is each record, once."""

from dataclasses import replace

import pytest

from kohort.client.writing.transactions import Transactions
from kohort.model import GroupMetadata
from kohort.wire.messages.offsets import OffsetFetchRequest
from kohort_lab.sim.actors.processors import Processor
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.worlds.copying import CopyingGroup, plan_of_copies, run_copying

SCENE = replace(
    plan_of_copies(2),
    consumers=2,
    topics={"t0": 4},
    records=80,
    send_every_ms=200,
    assignors=["range"],
    session_timeout_ms=6_000,
    heartbeat_interval_ms=1_000,
    max_poll_interval_ms=20_000,
    request_timeout_ms=5_000,
    static=False,
    delay_ms=(0, 3),
    faults=frozenset(),
    faults_ms=30_000,
)


EVER_FAILED = [20, 79, 333, 4738]
"""79, since polls kick as the blocking face does 20, and since producers look up the ids of topics 333: offsets
committed in nobody's name, by a member that had just lost its group. 4738: the disk took the marker of an abort and
refused what goes with it, so that it was to be written once more; a check took it for one that was missed."""


@pytest.mark.parametrize("seed", [*range(8), *EVER_FAILED])
def test_each_record_is_copied_once_with_any_fault(seed):
    run = run_copying(seed)

    assert run.producer.acknowledged


@pytest.mark.campaign
@pytest.mark.timeout(7200)
def test_many_more_seeds_copy_each_record_once():
    for seed in range(8, 300):
        run_copying(seed)


def strike(run, at, act):
    """Run ``act`` once while the first process is inside a transaction."""
    struck = []

    def midway(reached):
        if reached == at and not struck and run.world.elapsed_ms > 8_000:
            struck.append(reached)
            act()

    run.processors[0].midway = midway
    return struck


def stands_still(run, at):
    """Suspend the first process; another takes over its partitions."""
    return strike(run, at, lambda: run.processors[0].freeze(9_000))


def disk_refuses(run, at):
    """The broker cannot write for longer than a record may take to be delivered."""
    weather = run.broker.disk.weather

    def act():
        weather.refuse = 1.0
        run.world.after(12_000, lambda: setattr(weather, "refuse", 0.0))

    return strike(run, at, act)


@pytest.mark.parametrize("at", ["records sent", "offsets sent"])
@pytest.mark.parametrize("what", [stands_still, disk_refuses])
def test_what_strikes_in_the_middle_of_a_transaction_copies_nothing_twice_and_loses_nothing(what, at):
    run = CopyingGroup(SCENE)
    struck = what(run, at)

    run.go()

    assert struck


def as_whoever_it_is_now(monkeypatch):
    """Offsets are committed under the member's present generation, which is none when it has just lost its group."""

    def member(self):
        generation = self.machine.group.membership.generation
        return GroupMetadata("copiers", generation.generation_id, generation.member_id)

    monkeypatch.setattr(Processor, "_member", member)


def test_a_seed_finds_what_was_once_wrong(monkeypatch):
    as_whoever_it_is_now(monkeypatch)

    with pytest.raises(CheckFailed, match="copied more than once"):
        run_copying(333)


def as_nobody(monkeypatch):
    """Commit offsets without a member id, so that fenced members are not rejected."""
    monkeypatch.setattr(Processor, "_member", lambda _: GroupMetadata("copiers"))
    return stands_still, "records sent"


def unstable_offsets(monkeypatch):
    """Let a consumer read offsets of open transactions."""
    init = OffsetFetchRequest.__init__

    def not_stable(self, **fields):
        init(self, **{**fields, "require_stable": False})

    monkeypatch.setattr(OffsetFetchRequest, "__init__", not_stable)
    return stands_still, "offsets sent"


def losses_forgiven(monkeypatch):
    """Let a transaction commit although one of its records was lost."""
    monkeypatch.setattr(Transactions, "on_batch_failed", lambda _self, _error: None)
    return disk_refuses, "records sent"


@pytest.mark.parametrize("plant", [as_nobody, unstable_offsets, losses_forgiven])
def test_planted_client_bug_is_found(plant, monkeypatch):
    what, at = plant(monkeypatch)
    run = CopyingGroup(SCENE)
    what(run, at)

    with pytest.raises(CheckFailed, match=r"copied more than once|not copied"):
        run.go()

"""Three nodes with moving leaders: the group continues, and planned moves change nothing in the calm."""

from pathlib import Path

import pytest

from kohort.broker.cluster.cluster import Cluster
from kohort.broker.offsets_topic import OffsetsTopic
from kohort.client.writing.sender import Sender
from kohort.coordinator.runtime import Coordinator
from kohort_lab.sim.checks.broken import CheckFailed, caught_by
from kohort_lab.sim.checks.group_invariants import InvariantBroken
from kohort_lab.sim.worlds.three_nodes import run_three_nodes

EVERY_RUN = range(12)
MORE = range(12, 120)
CHUNK = 12
EVER_FAILED = [int(line.split()[0]) for line in Path(__file__).with_name("moves.txt").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", MORE[::CHUNK])
def test_group_survives_moves_and_stops_and_settles(first):
    for seed in range(first, first + CHUNK):
        run = run_three_nodes(seed)

        assert run.producer.acknowledged, f"seed {seed}"


@pytest.mark.parametrize("seed", EVER_FAILED)
def test_formerly_failed_seed_passes(seed):
    assert run_three_nodes(seed).producer.acknowledged


def test_many_seeds_survive_moving_leaders_and_stopping_nodes():
    counts = {}
    for seed in EVERY_RUN:
        run = run_three_nodes(seed)
        assert run.producer.acknowledged, f"seed {seed}"
        for what, times in run.history.counts.items():
            kind = "moved" if " leads " in what else what
            counts[kind] = counts.get(kind, 0) + times

    assert counts["moved"] > 100
    assert counts["stopped"] > 10
    assert counts["serves again"] > 10


def old_coordinator_writes(monkeypatch):
    """A replaced leader continues to append to its groups' log."""
    monkeypatch.setattr(OffsetsTopic, "_is_mine", lambda *_: True)


def groups_not_loaded(monkeypatch):
    """A new coordinator does not load its groups."""
    monkeypatch.setattr(Coordinator, "load_some", lambda *_: None)


def moved_leaders_unreported(monkeypatch):
    """Nodes do not learn of moved leaders."""
    monkeypatch.setattr(Cluster, "tell", lambda *_args, **_kwargs: None)


def batches_renumbered(monkeypatch):
    """A batch that may be in the log gets a new sequence number after an earlier batch expires."""
    real = Sender._continue_sequence

    def renumbered(sender, sequence, batch, now):
        if sequence.must_restart:
            batch.forget_number()
        real(sender, sequence, batch, now)

    monkeypatch.setattr(Sender, "_continue_sequence", renumbered)


@pytest.mark.parametrize(
    ("plant", "seed", "check"),
    [
        (old_coordinator_writes, 0, "invariants: check_replay"),
        (groups_not_loaded, 0, "invariants: check_replay"),
        (moved_leaders_unreported, 0, "calm: check_settled"),
        (batches_renumbered, 61, "durability: check_records"),
    ],
)
def test_planted_bug_of_moves_is_caught(plant, seed, check, monkeypatch):
    plant(monkeypatch)

    with pytest.raises((CheckFailed, InvariantBroken)) as found:
        run_three_nodes(seed)

    assert caught_by(found.value) == check

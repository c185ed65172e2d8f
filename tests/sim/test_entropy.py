"""Runs depend on their seed only; other entropy ends them."""

from __future__ import annotations

import datetime
import gc
import random
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from kohort.clock import ManualClock
from kohort.log.partition import PartitionLog
from kohort_lab.sim.campaign import judge_seed
from kohort_lab.sim.entropy import EntropyUsed, audited
from kohort_lab.sim.worlds.catalogue import WORLDS

OUTSIDE_ENTROPY: dict[str, Any] = {
    "time.monotonic": time.monotonic,
    "time.time_ns": time.time_ns,
    "time.sleep": lambda: time.sleep(0),
    "datetime.now": lambda: datetime.datetime.now(datetime.UTC),
    "date.today": datetime.date.today,
    "random.random": random.random,
    "random.getrandbits": lambda: random.choice("ab"),
    "random.Random() without a seed": random.Random,
    "os.urandom": uuid.uuid4,
    "_thread.get_ident": threading.get_ident,
    "id": lambda: id(OUTSIDE_ENTROPY),
    "os.listdir": lambda: [*Path().iterdir()],
    "open": lambda: Path(__file__).read_bytes(),
}


@pytest.mark.parametrize("world", WORLDS)
def test_audited_run_of_each_world_uses_no_outside_entropy(world):
    outcome, again = judge_seed(3, world=world, audit=True), judge_seed(3, world=world)

    assert outcome.passed, outcome.failure
    assert (outcome.events, outcome.digest, outcome.story) == (again.events, again.digest, again.story)


@pytest.mark.parametrize("what", OUTSIDE_ENTROPY)
def test_outside_entropy_is_reported_with_its_place(what):
    with pytest.raises(EntropyUsed) as caught, audited():
        OUTSIDE_ENTROPY[what]()

    assert what in str(caught.value)


def test_seeded_random_numbers_and_simulated_time_are_allowed():
    with audited():
        rng = random.Random(5)
        assert (rng.random(), ManualClock().now_ms()) == (random.Random(5).random(), ManualClock().now_ms())


def test_foreign_garbage_collector_hooks_are_ignored(monkeypatch):
    monkeypatch.setattr(gc, "callbacks", [*gc.callbacks, lambda *_: time.perf_counter()])
    thresholds = gc.get_threshold()
    gc.set_threshold(1)
    try:
        with audited():
            kept = [[n] for n in range(100)]
    finally:
        gc.set_threshold(*thresholds)

    assert len(kept) == 100
    assert gc.isenabled()


def test_log_that_reads_the_clock_fails_its_seed(monkeypatch):
    real = PartitionLog.append
    monkeypatch.setattr(PartitionLog, "append", lambda *args, **named: (time.monotonic(), real(*args, **named))[1])

    outcome = judge_seed(3, audit=True)

    assert not outcome.passed
    assert "the run uses time.monotonic, which no seed gives" in str(outcome.failure)

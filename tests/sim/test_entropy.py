"""A run depends on its seed alone: other uses of clocks, random numbers or addresses raise."""

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

NOT_GIVEN: dict[str, Any] = {
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
    "id": lambda: id(NOT_GIVEN),
    "os.listdir": lambda: [*Path().iterdir()],
    "open": lambda: Path(__file__).read_bytes(),
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_world_uses_nothing_that_its_seed_does_not_give(world):
    seen, again = judge_seed(3, world=world, audit=True), judge_seed(3, world=world)

    assert seen.passed, seen.failure
    assert (seen.events, seen.digest, seen.story) == (again.events, again.digest, again.story)


@pytest.mark.parametrize("what", NOT_GIVEN)
def test_what_no_seed_gives_is_caught_where_it_is_used(what):
    with pytest.raises(EntropyUsed) as caught, audited():
        NOT_GIVEN[what]()

    assert what in str(caught.value)


def test_given_chance_and_given_time_are_let_through():
    with audited():
        rng = random.Random(5)
        assert (rng.random(), ManualClock().now_ms()) == (random.Random(5).random(), ManualClock().now_ms())


def test_garbage_collector_callbacks_of_other_code_do_not_affect_runs(monkeypatch):
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


def test_a_log_that_looks_at_the_clock_fails_its_seed(monkeypatch):
    real = PartitionLog.append
    monkeypatch.setattr(PartitionLog, "append", lambda *args, **named: (time.monotonic(), real(*args, **named))[1])

    seen = judge_seed(3, audit=True)

    assert not seen.passed
    assert "the run uses time.monotonic, which no seed gives" in str(seen.failure)

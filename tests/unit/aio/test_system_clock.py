"""The system's clock beside those it is made of: the wall's, which anybody sets, and one that stands still in sleep."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kohort.aio import system
from kohort.aio.system import SystemClock, wall_ms

START_MS = 1_700_000_000_000


class Machine:
    """A machine's two clocks, in milliseconds."""

    def __init__(self) -> None:
        self.wall_ms = START_MS
        self.awake_ms = 5_000

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.awake_ms += ms


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    clocks = SimpleNamespace(
        time_ns=lambda: machine.wall_ms * 1_000_000, monotonic_ns=lambda: machine.awake_ms * 1_000_000
    )
    monkeypatch.setattr(system, "time", clocks)
    return machine


def test_time_goes_on_with_the_wall(machine):
    clock = SystemClock()
    assert clock.now_ms() == START_MS

    machine.passes(90_000)
    assert clock.now_ms() == wall_ms() == START_MS + 90_000


def test_after_a_sleep_it_is_as_late_as_on_the_wall(machine):
    clock = SystemClock()
    machine.wall_ms += 7_200_000

    assert clock.now_ms() == START_MS + 7_200_000
    machine.passes(10)
    assert clock.now_ms() == START_MS + 7_200_010


def test_a_wall_clock_that_is_set_back_does_not_take_it_along(machine):
    clock = SystemClock()
    machine.wall_ms -= 7_200_000
    machine.passes(1_000)

    assert clock.now_ms() == START_MS + 1_000
    assert wall_ms() == START_MS - 7_199_000

    machine.wall_ms += 7_200_000 + 500  # put right again, or nearly
    assert clock.now_ms() == START_MS + 1_000

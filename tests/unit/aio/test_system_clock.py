from __future__ import annotations

from types import SimpleNamespace

import pytest

from kohort.aio import system
from kohort.aio.system import SystemClock, wall_ms

START_MS = 1_700_000_000_000


class Machine:
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


def test_system_clock_advances_with_the_wall_clock(machine):
    clock = SystemClock()
    assert clock.now_ms() == START_MS

    machine.passes(90_000)
    assert clock.now_ms() == wall_ms() == START_MS + 90_000


@pytest.mark.parametrize("jump_ms", [7_200_000, -7_200_000])
def test_system_clock_ignores_wall_clock_changes_but_reports_them(machine, jump_ms):
    clock = SystemClock()
    machine.wall_ms += jump_ms
    machine.passes(1_000)

    assert (clock.now_ms(), clock.ahead_ms()) == (START_MS + 1_000, jump_ms)
    assert clock.now_ms() + clock.ahead_ms() == wall_ms()


def test_system_clock_does_not_report_wall_clock_change_that_was_reverted(machine):
    clock = SystemClock()
    machine.wall_ms += 7_200_000
    assert clock.ahead_ms() == 7_200_000

    machine.wall_ms -= 7_200_000

    assert (clock.now_ms(), clock.ahead_ms()) == (START_MS, 0)

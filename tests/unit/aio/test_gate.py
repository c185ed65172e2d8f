"""The gate before a producer's lock: taken once it is free, and never waited for without end."""

from __future__ import annotations

import threading

from kohort.aio.producing import fair_lock as gates
from kohort.aio.producing.fair_lock import let_others_run


def test_it_is_taken_once_who_was_inside_has_left(monkeypatch):
    gate = threading.Lock()
    gate.acquire()
    monkeypatch.setattr(gates.time, "sleep", lambda _seconds: gate.locked() and gate.release())

    assert let_others_run(gate)
    assert gate.locked()


def test_a_gate_that_was_left_shut_holds_nobody_up():
    gate = threading.Lock()
    gate.acquire()

    assert not let_others_run(gate)

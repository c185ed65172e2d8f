"""The lock before a producer's lock: taken once it is free, and never waited for without end."""

from __future__ import annotations

import threading

from kohort.aio.producing import producer
from kohort.aio.producing.producer import acquire_with_retries


def test_it_is_taken_once_who_was_inside_has_left(monkeypatch):
    outer_lock = threading.Lock()
    outer_lock.acquire()
    monkeypatch.setattr(producer.time, "sleep", lambda _seconds: outer_lock.locked() and outer_lock.release())

    assert acquire_with_retries(outer_lock)
    assert outer_lock.locked()


def test_one_that_was_left_locked_holds_nobody_up():
    outer_lock = threading.Lock()
    outer_lock.acquire()

    assert not acquire_with_retries(outer_lock)

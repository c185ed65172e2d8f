from __future__ import annotations

import threading

from kohort.aio.producing import producer
from kohort.aio.producing.producer import acquire_with_retries


def test_producer_acquires_outer_lock_that_another_thread_releases(monkeypatch):
    outer_lock = threading.Lock()
    outer_lock.acquire()
    monkeypatch.setattr(producer.time, "sleep", lambda _seconds: outer_lock.locked() and outer_lock.release())

    assert acquire_with_retries(outer_lock)
    assert outer_lock.locked()


def test_producer_does_not_wait_for_an_outer_lock_that_stays_locked():
    outer_lock = threading.Lock()
    outer_lock.acquire()

    assert not acquire_with_retries(outer_lock)

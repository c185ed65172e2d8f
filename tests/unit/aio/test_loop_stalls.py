import asyncio

import pytest

from kohort.aio.serving.loop_stalls import EVERY_MS, STALL_MS, StallDetector
from kohort.broker.counters import LoopDelay
from kohort.clock import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


def on_loop(story, clock, late=lambda late_ms, now_ms: None):
    async def run():
        detector = StallDetector(asyncio.get_running_loop(), clock.now_ms, lambda: None, late)
        story(detector)
        detector.end()

    asyncio.run(run())


def test_event_loop_with_regular_events_has_no_stall(clock):
    def story(detector):
        for _ in range(50):
            clock.advance(EVERY_MS + STALL_MS - 1)
            assert detector.stall_start_ms(clock.now_ms()) is None

    on_loop(story, clock)


def test_event_loop_stall_is_reported_once_with_its_start(clock):
    def story(detector):
        began = clock.now_ms()
        clock.advance(12_000)
        assert detector.stall_start_ms(clock.now_ms()) == began + EVERY_MS
        assert detector.stall_start_ms(clock.now_ms()) is None

    on_loop(story, clock)


def test_clock_change_is_not_reported_as_event_loop_stall(clock):
    def story(detector):
        clock.advance(3_600_000)
        detector.restart()
        assert detector.stall_start_ms(clock.now_ms()) is None

    on_loop(story, clock)


def test_delays_of_event_loop_have_a_recent_and_a_total_maximum(clock):
    counted = LoopDelay()

    def story(detector):
        for step_ms in (500, EVERY_MS, EVERY_MS + 40, EVERY_MS + 7):
            clock.advance(step_ms)
            detector.stall_start_ms(clock.now_ms())

    on_loop(story, clock, counted.add)

    assert (counted.recent_ms(clock.now_ms()), counted.longest_ms) == (40, 40)
    clock.advance(60_000)
    assert counted.recent_ms(clock.now_ms()) == 40
    clock.advance(120_000)
    assert (counted.recent_ms(clock.now_ms()), counted.longest_ms) == (0, 40)

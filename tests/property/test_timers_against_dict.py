"""Timers against a plain dict: set, moved both ways, cancelled, fired in order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.clock import Timers

KEYS = st.integers(0, 5)
TIMES = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, TIMES),
        st.tuples(st.just("cancel"), KEYS, st.none()),
        st.tuples(st.just("fire"), st.none(), TIMES),
    ),
    max_size=200,
)


@settings(max_examples=300)
@given(steps)
def test_timers_fire_in_order_at_their_latest_deadline(steps):
    timers: Timers[int] = Timers()
    truth: dict[int, tuple[int, int]] = {}
    for serial, (what, key, at_ms) in enumerate(steps):
        if what == "set":
            timers.set(key, at_ms)
            truth[key] = (at_ms, serial)
        elif what == "cancel":
            timers.cancel(key)
            truth.pop(key, None)
        else:
            due = sorted((deadline, key) for key, deadline in truth.items() if deadline[0] <= at_ms)
            assert list(timers.pop_due(at_ms)) == [key for _, key in due]
            for _, key in due:
                del truth[key]
        assert timers.wake_at_ms == min((at for at, _ in truth.values()), default=None)
        deadlines = {key: timers.deadline_ms(key) for key in sorted(timers.keys())}
        assert deadlines == {key: at for key, (at, _) in truth.items()}
        assert (len(timers), 3 in timers) == (len(truth), 3 in truth)


def test_a_hundred_thousand_heartbeats_leave_one_place_for_each_millisecond():
    timers: Timers[int] = Timers()
    for round_ms in range(0, 100_000, 1000):
        for key in range(1000):
            timers.set(key, round_ms + 45_000 + key % 100)

    assert len(timers._times) <= 64 + 2 * 100
    assert timers.wake_at_ms == 99_000 + 45_000
    assert len(list(timers.pop_due(200_000))) == 1000
    assert (len(timers), timers.wake_at_ms) == (0, None)

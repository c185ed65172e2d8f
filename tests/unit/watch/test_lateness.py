"""How late records come, by partition: the least of the last minutes, whatever clocks did before."""

from kohort.watch.watcher import WINDOW_MS, Lateness


def test_each_partition_has_a_clock_of_its_own():
    late = Lateness()
    for partition, written in ((0, 900), (0, 990), (0, 500), (1, 61_000)):
        late.add(partition, written, 1_000)

    assert (late.of(0), late.of(1), late.of(2)) == (10, -60_000, None)


def test_one_record_of_a_wrong_clock_does_not_count_for_ever():
    late = Lateness()
    late.add(0, 90_000, 1_000)
    for window in range(1, 4):
        late.add(0, window * WINDOW_MS, 1_000 + window * WINDOW_MS)

    assert late.of(0) == 1_000


def test_what_was_last_heard_of_a_quiet_partition_holds():
    late = Lateness()
    late.add(0, 1_000, 1_020)
    late.add(0, 1_000 + 9 * WINDOW_MS, 1_050 + 9 * WINDOW_MS)

    assert late.of(0) == 20


def test_a_record_without_a_time_says_nothing():
    late = Lateness()
    late.add(0, -1, 1_000)
    assert late.of(0) is None

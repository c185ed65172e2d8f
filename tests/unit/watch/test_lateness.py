"""Shortest delay of the records of each partition in the last minutes."""

from kohort.watch.watcher import WINDOW_MS, Lateness


def test_lateness_is_kept_for_each_partition():
    late = Lateness()
    for partition, written in ((0, 900), (0, 990), (0, 500), (1, 61_000)):
        late.add(partition, written, 1_000)

    assert (late.of(0), late.of(1), late.of(2)) == (10, -60_000, None)


def test_lateness_of_a_wrong_producer_clock_expires():
    late = Lateness()
    late.add(0, 90_000, 1_000)
    for window in range(1, 4):
        late.add(0, window * WINDOW_MS, 1_000 + window * WINDOW_MS)

    assert late.of(0) == 1_000


def test_lateness_of_records_of_quiet_partition_is_kept():
    late = Lateness()
    late.add(0, 1_000, 1_020)
    late.add(0, 1_000 + 9 * WINDOW_MS, 1_050 + 9 * WINDOW_MS)

    assert late.of(0) == 20


def test_lateness_ignores_record_without_timestamp():
    late = Lateness()
    late.add(0, -1, 1_000)
    assert late.of(0) is None

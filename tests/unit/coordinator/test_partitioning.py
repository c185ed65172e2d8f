"""Which partition holds a group, as Java computes it."""

import tracemalloc

import pytest

from kohort.coordinator.records import partition_of


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),
        ("a", 47),
        ("hello", 99162322 % 50),
        ("Hello World", 862545276 % 50),
        ("polygenelubricants", 0),  # hashes to the smallest int, which has no abs in Java
    ],
)
def test_the_partition_of_a_group_follows_from_javas_hash_of_its_name(group_id, partition):
    assert partition_of(group_id, 50) == partition


@pytest.mark.heavy
def test_long_names_that_strangers_make_up_are_not_kept():
    tracemalloc.start()
    try:
        partitions = {partition_of(f"{i:>30000}", 50) for i in range(100)}
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(partitions) > 1
    assert kept < 1_000_000, "100 names have 3 MB"

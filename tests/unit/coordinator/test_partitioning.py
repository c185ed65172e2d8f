"""Which partition holds a group, as Java computes it."""

import pytest

from kohort.coordinator.partitioning import partition_of


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

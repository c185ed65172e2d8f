"""Check that the partitions of an offset commit exist."""

from kohort.coordinator.offsets.committing import existing_places
from support.machines.coordinator_stage import Topics


def test_partition_exists_if_its_topic_exists_and_its_number_is_below_the_partition_count():
    topics = Topics(t=2)
    queried = [("t", -1), ("t", 0), ("t", 1), ("t", 2), ("none", 0), (None, 0)]

    assert list(existing_places(queried, topics)) == [(topics.topic_id("t"), 0), (topics.topic_id("t"), 1)]

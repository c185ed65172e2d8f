"""Which of the partitions that somebody names exist."""

from kohort.coordinator.offsets.committing import existing_places
from support.machines.coordinator_stage import Topics


def test_partitions_count_from_0_up_to_their_number():
    topics = Topics(t=2)
    asked = [("t", -1), ("t", 0), ("t", 1), ("t", 2), ("none", 0), (None, 0)]

    assert list(existing_places(asked, topics)) == [(topics.topic_id("t"), 0), (topics.topic_id("t"), 1)]

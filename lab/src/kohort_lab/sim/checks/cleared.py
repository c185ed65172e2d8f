"""What an administrator was told is done stays done: a deleted group is gone, offsets are where they were put."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.errors import ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed


def check_gone(group_id: str, listed: Collection[str], when: str) -> None:
    """Check that the group was deleted, and nobody lists it."""
    if group_id in listed:
        raise CheckFailed(f"group {group_id} was deleted and is listed {when}")


def check_offsets(
    wanted: Mapping[TopicPartition, int], found: Mapping[TopicPartition, OffsetAndMetadata | None], when: str
) -> None:
    """Check that committed is what the administrator committed, less what went with its topic."""
    there = {partition: value.offset for partition, value in found.items() if value is not None}
    if there != wanted:
        raise CheckFailed(f"committed is {there} {when}, and it should be {dict(wanted)}")


def check_own_topics(code: int) -> None:
    """Check the answer to a stranger's record for a topic of the broker's own."""
    if code != ErrorCode.INVALID_TOPIC_EXCEPTION:
        raise CheckFailed(f"what a stranger wrote into a topic of the broker's own was answered {ErrorCode(code).name}")

"""Checks of administrator results: a deleted group stays deleted, altered offsets stay."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.errors import ErrorCode
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort_lab.sim.checks.broken import CheckFailed


def check_deleted(group_id: str, listed: Collection[str], when: str) -> None:
    """Check that no broker lists the deleted group."""
    if group_id in listed:
        raise CheckFailed(f"group {group_id} was deleted but is listed {when}")


def check_offsets(
    expected: Mapping[TopicPartition, int], found: Mapping[TopicPartition, OffsetAndMetadata | None], when: str
) -> None:
    """Check the offsets that the administrator committed, without deleted topics."""
    there = {partition: value.offset for partition, value in found.items() if value is not None}
    if there != expected:
        raise CheckFailed(f"committed offsets are {there} {when}, expected {dict(expected)}")


def check_own_topics(code: int) -> None:
    """Check the error code of a client's write to an internal topic."""
    if code != ErrorCode.INVALID_TOPIC_EXCEPTION:
        raise CheckFailed(f"a client's write to an internal topic returned {ErrorCode(code).name}")

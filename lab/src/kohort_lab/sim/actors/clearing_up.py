"""Cleanup by an administrator after all members have left.

Commits offsets, creates and deletes a topic, deletes the group, tries to write to ``__consumer_offsets``, and verifies
the results before and after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from kohort.client.admin.groups import alter_group_offsets, delete_groups, list_group_offsets, list_groups
from kohort.client.admin.model import NewTopic
from kohort.client.admin.operations import Operation, Results
from kohort.client.admin.topics import create_topics, delete_topics
from kohort.client.requests.metadata import Metadata
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort_lab.sim.actors.forged_requests import write_as_broker
from kohort_lab.sim.checks.cleared import check_deleted, check_offsets, check_own_topics

TIMEOUT_MS: Final = 5_000
LATER: Final = "h"
"""Group that never has members."""
SIDE: Final = "side"


class Administer(Protocol):
    """Callback that runs one administrator operation; raises CheckFailed if it does not finish in time."""

    def __call__(self, what: str, make: Callable[[Metadata], Operation[Any]]) -> Any: ...


def clear_up(administer: Administer, group_id: str, topic: str, restart: Callable[[], None]) -> None:
    """Run the cleanup and verify it. Raises CheckFailed for any wrong result."""
    kept, deleted = TopicPartition(topic, 0), TopicPartition(SIDE, 1)

    def commit(metadata: Metadata) -> Operation[Results[TopicPartition, None]]:
        return alter_group_offsets(metadata, LATER, {kept: OffsetAndMetadata(7), deleted: OffsetAndMetadata(3)})

    administer(
        f"makes {SIDE}",
        lambda m: create_topics(m, [NewTopic(SIDE, 2, 1)], validate_only=False, timeout_ms=TIMEOUT_MS),
    )
    committed: Results[TopicPartition, None] = administer(f"commits for {LATER}", commit)
    for partition in (kept, deleted):
        committed[partition]
    _look_for_offsets(administer, {kept: 7, deleted: 3}, "after the commit")
    administer(f"deletes {SIDE}", lambda m: delete_topics(m, [SIDE], timeout_ms=TIMEOUT_MS))[SIDE]
    _look_for_offsets(administer, {kept: 7}, f"after {SIDE} was deleted")
    administer(f"deletes {group_id}", lambda m: delete_groups(m, [group_id]))[group_id]
    _look_for_group(administer, group_id, "afterwards")
    check_own_topics(administer(f"writes a commit for {LATER}", lambda m: write_as_broker(m, LATER, kept, 99)))
    restart()
    _look_for_group(administer, group_id, "after a restart")
    _look_for_offsets(administer, {kept: 7}, "after a restart")


def _look_for_offsets(administer: Administer, expected: dict[TopicPartition, int], when: str) -> None:
    check_offsets(expected, administer(f"asks for {LATER}", lambda m: list_group_offsets(m, LATER, None)), when)


def _look_for_group(administer: Administer, group_id: str, when: str) -> None:
    listed = administer("lists groups", lambda m: list_groups(m, states=[], types=[]))
    check_deleted(group_id, [group.group_id for group in listed], when)

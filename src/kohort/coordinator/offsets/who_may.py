"""Who may commit offsets of a group and fetch them, whichever its protocol: the question goes to that one's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.coordinator.classic.committing import check_commit_to_classic
from kohort.coordinator.classic.fencing import note_fenced
from kohort.coordinator.committing import Committer, Committing
from kohort.coordinator.consumer.committing import check_commit_to_consumer, check_fetch_from_consumer
from kohort.coordinator.consumer.fenced_requests import note_fenced_in_consumer_group
from kohort.coordinator.context import Context
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.told_offsets import tried_offsets
from kohort.coordinator.outcome import GroupRequest, Outcome, TopicsView
from kohort.errors import ApiError, ErrorCode


def existing_places(asked: Iterable[tuple[str | None, int]], topics: TopicsView) -> Iterator[tuple[bytes, int]]:
    """Yield topic id and partition of what is asked for, by name and partition, where that exists."""
    for name, partition in asked:
        topic_id, count = (None, None) if name is None else (topics.topic_id(name), topics.partition_count(name))
        if topic_id is not None and count is not None and 0 <= partition < count:
            yield topic_id, partition


def check_commit(groups: Groups, group_id: str, commit: Committing, missing: ErrorCode) -> Committer | None:
    """Return the member that commits, or None for a commit from outside of the group. Raises ApiError if it may not:
    ``missing`` where a member of a group commits that is not there."""
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        return check_commit_to_consumer(consumer, commit)
    group = groups.by_id.get(group_id)
    if group is not None:
        return check_commit_to_classic(group, commit)
    if commit.epoch >= 0:
        raise ApiError(missing, f"there is no group {group_id!r}")
    return None


def note_refused(
    groups: Groups, group_id: str, request: GroupRequest, error: ApiError, ctx: Context, out: Outcome
) -> None:
    """Write the refusal of a stale member into the journal, with what it tried to commit."""
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    tried = tried_offsets(request.message, groups.offsets.get(group_id), ctx.topics)
    if consumer is not None:
        note_fenced_in_consumer_group(consumer, request, error, ctx, out, tried)
    elif group is not None:
        note_fenced(group, request, error, ctx, out, tried)


def check_fetch(groups: Groups, group_id: str, member_id: str | None, epoch: int) -> None:
    """Raise ApiError if whoever says that it is a member is none, or not at its epoch; classic groups do not look."""
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        check_fetch_from_consumer(consumer, member_id, epoch)

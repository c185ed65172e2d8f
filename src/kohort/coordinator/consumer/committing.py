"""Who may commit and fetch offsets of a consumer group (protocol/consumer-groups.md#offsets-of-members, KIP-1251)."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.committing import NO_EPOCH, Committing
from kohort.coordinator.consumer.assignment import Current
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember, Presence
from kohort.errors import ApiError, ErrorCode

FIRST_COMMIT_OF_MEMBERS: Final = 9


def check_commit_to_consumer(group: ModernGroup, commit: Committing) -> Presence | None:
    """Return the evidence of the member that commits, if there is any. Raises ApiError for the commit as a whole.

    A commit of the member's epoch is taken for any partition. One of an earlier epoch is taken if the member has had
    each of the partitions since then: it was on its way when the member moved on.
    """
    if commit.epoch < 0 and not group.members:
        return None
    if commit.in_transaction and commit.names_nobody and commit.epoch == NO_EPOCH:
        return None
    member = group.check_member(commit.member_id)
    if not commit.in_transaction and not member.speaks_classic and commit.api_version < FIRST_COMMIT_OF_MEMBERS:
        least = f"with version {FIRST_COMMIT_OF_MEMBERS} or later"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"a member of this protocol commits {least}")
    if commit.epoch != member.epoch and not (
        commit.epoch < member.epoch and all(commit.epoch >= _since(member.current, *place) for place in commit.places)
    ):
        raise _stale(member, commit.epoch)
    return group.presence.get(commit.member_id)


def _since(current: Current, topic_id: bytes, partition: int) -> float:
    """Return the epoch since when the member has a partition; it is endless if it does not."""
    for held in (current.assigned, current.pending):
        epoch = held.get(topic_id, {}).get(partition)
        if epoch is not None:
            return epoch
    return float("inf")


def check_fetch_from_consumer(group: ModernGroup, member_id: str | None, epoch: int) -> None:
    """Raise ApiError unless offsets are fetched by nobody in particular, or by a member at its epoch."""
    if member_id is None and epoch <= NO_EPOCH:
        return
    member = group.check_member(member_id or "")
    if epoch != member.epoch:
        raise _stale(member, epoch)


def _stale(member: ConsumerMember, epoch: int) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(code, f"epoch {epoch}; that of {member.member_id!r} is {member.epoch}")

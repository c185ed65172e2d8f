"""Members that may commit and fetch offsets, by the protocol of their group; journal entries of commits.

The rules: protocol/offsets.md#offsetcommit, protocol/consumer-groups.md#offsets-of-members (KIP-1251). A generation of
a classic group and an epoch of a member are one field on the wire: ``epoch`` here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from kohort.coordinator.classic.evidence import NO_COMMIT, RefusedOffsets, note_fenced
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.states import GroupState
from kohort.coordinator.consumer.evidence import note_fenced_in_consumer_group
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.consumer.member import ConsumerMember, ConsumerPresence
from kohort.coordinator.consumer.reconcile import CurrentAssignment
from kohort.coordinator.context import Context
from kohort.coordinator.journal_events import CommitUnfenced, OffsetMove
from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Outcome, TopicsView
from kohort.coordinator.records import OffsetCommitted
from kohort.errors import ApiError, ErrorCode
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message

NO_EPOCH: Final = -1
"""Epoch of a commit or fetch from outside of the group."""


class Committing(NamedTuple):
    """A commit, as far as it matters to who may do it."""

    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int
    places: Iterable[tuple[bytes, int]] = ()
    """Topic id and partition of all that is committed and exists."""
    in_transaction: bool = False

    @property
    def is_anonymous(self) -> bool:
        return self.epoch < 0 and not self.member_id and self.instance_id is None


class Committer(Protocol):
    """A member that commits, of either protocol."""

    commits: int
    last_commit_ms: int | None
    last_progress_ms: int | None

    def note_commit(self, connection: int, now_ms: int) -> None:
        """Take a commit for what it is in this protocol: a sign of life, or evidence for the journal alone."""


def check_commit_to_classic(group: ClassicGroup, commit: Committing) -> Member | None:
    """Return the member that commits, or None for a commit from outside of the group. Raises ApiError if it may not."""
    if commit.epoch < 0 and group.state is GroupState.EMPTY:
        return None  # whatever member it names
    if commit.is_anonymous:
        if commit.in_transaction:
            return None
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, "the group has members, and this is none of them")
    member = group.check_member(commit.member_id, commit.instance_id)
    group.check_generation(commit.epoch)
    if group.state is GroupState.COMPLETING_REBALANCE and not commit.in_transaction:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


FIRST_COMMIT_OF_MEMBERS: Final = 9


def check_commit_to_consumer(group: ModernGroup, commit: Committing) -> ConsumerPresence | None:
    """Return the evidence of the member that commits, if there is any. Raises ApiError for the commit as a whole.

    A commit of the member's epoch is taken for any partition. One of an earlier epoch is taken if the member has had
    each of the partitions since then: it was on its way when the member moved on.
    """
    if commit.epoch < 0 and not group.members:
        return None
    if commit.in_transaction and commit.is_anonymous and commit.epoch == NO_EPOCH:
        return None
    member = group.check_member(commit.member_id)
    if not commit.in_transaction and not member.is_classic and commit.api_version < FIRST_COMMIT_OF_MEMBERS:
        least = f"with version {FIRST_COMMIT_OF_MEMBERS} or later"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"a member of this protocol commits {least}")
    if commit.epoch != member.epoch and not (
        commit.epoch < member.epoch and all(commit.epoch >= _since(member.current, *place) for place in commit.places)
    ):
        raise _stale(member, commit.epoch)
    return group.presence.get(commit.member_id)


def _since(current: CurrentAssignment, topic_id: bytes, partition: int) -> float:
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
    code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(code, f"epoch {epoch}; that of {member.member_id!r} is {member.epoch}")


JOURNALED_OFFSETS_MAX: Final = 20
"""Offsets of one commit in an entry; of the others it has the number."""


def refused_offsets(message: Message, offsets: GroupOffsets | None, topics: TopicsView) -> RefusedOffsets:
    """Return the first few offsets that a commit tries, beside what is committed, and how many more there are; nothing
    for a request that is no commit."""
    if not isinstance(message, (OffsetCommitRequest, TxnOffsetCommitRequest)):
        return NO_COMMIT
    moves: list[OffsetMove] = []
    for name, partition, offset in _of(message, topics):
        if len(moves) == JOURNALED_OFFSETS_MAX:
            break
        moves.append(OffsetMove(name, partition, offset, _committed(offsets, name, partition)))
    return RefusedOffsets(tuple(moves), sum(len(topic.partitions) for topic in message.topics) - len(moves))


def _of(message: OffsetCommitRequest | TxnOffsetCommitRequest, topics: TopicsView) -> Iterator[tuple[str, int, int]]:
    for topic in message.topics:
        name = topic.name or topics.topic_name(topic.topic_id) or topic.topic_id.hex()
        for p in topic.partitions:
            yield name, p.partition_index, p.committed_offset


def note_unfenced(
    request: GroupRequest, group_id: str, offsets: GroupOffsets | None, ctx: Context, out: Outcome
) -> None:
    """Journal a commit by a client that is no member: once an hour, and whenever offsets go back."""
    written = [r for r in out.records if isinstance(r, OffsetCommitted) and r.value is not None]
    if not written:
        return
    backwards = 0
    moves: list[OffsetMove] = []
    for record in written:
        before = _committed(offsets, record.topic, record.partition)
        after = record.value.offset if record.value is not None else -1
        goes_back = before is not None and after < before
        backwards += goes_back
        if len(moves) < JOURNALED_OFFSETS_MAX:
            moves.append(OffsetMove(record.topic, record.partition, after, before))
    if ctx.evidence.committers.should_journal(group_id, request.sender, ctx.now_ms, backwards=bool(backwards)):
        out.journal.append(
            CommitUnfenced(
                at_ms=ctx.now_ms,
                group=group_id,
                who=request.sender,
                offsets=tuple(moves),
                more=len(written) - len(moves),
                backwards=backwards,
                in_transaction=isinstance(request.message, TxnOffsetCommitRequest),
            )
        )


def _committed(offsets: GroupOffsets | None, topic: str, partition: int) -> int | None:
    held = None if offsets is None else offsets.get(topic, partition)
    return None if held is None else held.offset


def existing_places(named: Iterable[tuple[str | None, int]], topics: TopicsView) -> Iterator[tuple[bytes, int]]:
    """Yield topic id and partition of what is asked for, by name and partition, where that exists."""
    for name, partition in named:
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
    """Journal the refused commit of a stale member, with its offsets."""
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    tried = refused_offsets(request.message, groups.offsets.get(group_id), ctx.topics)
    if consumer is not None:
        note_fenced_in_consumer_group(consumer, request, error, ctx, out, tried)
    elif group is not None:
        note_fenced(group, request, error, ctx, out, tried)


def check_fetch(groups: Groups, group_id: str, member_id: str | None, epoch: int) -> None:
    """Raise ApiError if whoever says that it is a member is none, or not at its epoch; classic groups do not look."""
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        check_fetch_from_consumer(consumer, member_id, epoch)

"""Checks of members and other clients that commit or fetch offsets; journal entries about commits.

The rules: protocol/offsets.md#offsetcommit, protocol/consumer-groups.md#offsets-of-members (KIP-1251). ``epoch`` is a
classic generation id or a member epoch: requests have one field for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
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
"""Epoch in an OffsetCommit or OffsetFetch by a client that is not a member of the group."""
FIRST_COMMIT_OF_MEMBERS: Final = 9
JOURNALED_OFFSETS_MAX: Final = 20
"""Maximum number of offsets in the journal entry about one commit."""


class Committing(NamedTuple):
    """Offset commit: member identity, epoch and partitions."""

    member_id: str
    instance_id: str | None
    epoch: int
    api_version: int
    places: Iterable[tuple[bytes, int]] = ()
    """Topic id and partition number of each existing partition in the commit."""
    in_transaction: bool = False

    @property
    def is_anonymous(self) -> bool:
        return self.epoch < 0 and not self.member_id and self.instance_id is None


class Committer(Protocol):
    """Member (classic or consumer protocol) that commits offsets."""

    commits: int
    last_commit_ms: int | None
    last_progress_ms: int | None

    def note_commit(self, connection: int, now_ms: int) -> None:
        """Record a commit by the member; in the classic protocol, also renew its session."""


def check_commit_to_classic(group: ClassicGroup, commit: Committing) -> Member | None:
    """Return the member that commits to a classic group; None for a non-member. Raises ApiError."""
    if commit.epoch < 0 and group.state is GroupState.EMPTY:
        return None  # an empty group accepts commits with any member id
    if commit.is_anonymous:
        if commit.in_transaction:
            return None
        problem = f"group {group.group_id!r} has members, and the commit has no member id"
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, problem)
    member = group.check_member(commit.member_id, commit.instance_id)
    group.check_generation(commit.epoch)
    if group.state is GroupState.COMPLETING_REBALANCE and not commit.in_transaction:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    return member


def check_commit_to_consumer(group: ModernGroup, commit: Committing) -> ConsumerPresence | None:
    """Return the session of the member that commits to a consumer group; None for a non-member. Raises ApiError.

    A commit may have an earlier epoch than the member, because it was in flight when the epoch rose. It is accepted if
    the member has owned all partitions of the commit since that earlier epoch.
    """
    if commit.epoch < 0 and not group.members:
        return None
    if commit.in_transaction and commit.is_anonymous and commit.epoch == NO_EPOCH:
        return None
    member = group.check_member(commit.member_id)
    if not commit.in_transaction and not member.is_classic and commit.api_version < FIRST_COMMIT_OF_MEMBERS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"a member that uses the consumer protocol must send OffsetCommit v{FIRST_COMMIT_OF_MEMBERS} or later",
        )
    if commit.epoch != member.epoch and not (
        commit.epoch < member.epoch and all(commit.epoch >= _since(member.current, *place) for place in commit.places)
    ):
        raise _stale(member, commit.epoch)
    return group.presence.get(commit.member_id)


def _since(current: CurrentAssignment, topic_id: bytes, partition: int) -> float:
    """Return the epoch in which the member got a partition; infinity if the member does not own it."""
    for held in (current.assigned, current.pending):
        epoch = held.get(topic_id, {}).get(partition)
        if epoch is not None:
            return epoch
    return float("inf")


def _stale(member: ConsumerMember, epoch: int) -> ApiError:
    code = ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ApiError(code, f"member {member.member_id!r} has epoch {member.epoch}, not {epoch}")


def refused_offsets(message: Message, offsets: GroupOffsets | None, topics: TopicsView) -> RefusedOffsets:
    """Return the requested and the committed offset of the first partitions of a refused OffsetCommit.

    At most ``JOURNALED_OFFSETS_MAX`` partitions; none for other requests.
    """
    if not isinstance(message, (OffsetCommitRequest, TxnOffsetCommitRequest)):
        return NO_COMMIT
    first = islice(_of(message, topics), JOURNALED_OFFSETS_MAX)
    moves = tuple(OffsetMove(name, p, offset, _committed(offsets, name, p)) for name, p, offset in first)
    return RefusedOffsets(moves, sum(len(topic.partitions) for topic in message.topics) - len(moves))


def _of(message: OffsetCommitRequest | TxnOffsetCommitRequest, topics: TopicsView) -> Iterator[tuple[str, int, int]]:
    for topic in message.topics:
        name = topic.name or topics.topic_name(topic.topic_id) or topic.topic_id.hex()
        for p in topic.partitions:
            yield name, p.partition_index, p.committed_offset


def note_unfenced(
    request: GroupRequest, group_id: str, offsets: GroupOffsets | None, ctx: Context, out: Outcome
) -> None:
    """Journal a commit by a non-member.

    The journal gets one entry per hour and client, and one for each commit that moves an offset back.
    """
    written = [r for r in out.records if isinstance(r, OffsetCommitted) and r.value is not None]
    if not written:
        return
    backwards = 0
    moves: list[OffsetMove] = []
    for record in written:
        before = _committed(offsets, record.topic, record.partition)
        after = record.value.offset if record.value is not None else -1
        backwards += before is not None and after < before
        if len(moves) < JOURNALED_OFFSETS_MAX:
            moves.append(OffsetMove(record.topic, record.partition, after, before))
    if ctx.evidence.committers.should_journal(group_id, request.sender, ctx.now_ms, backwards=bool(backwards)):
        entry = CommitUnfenced(
            at_ms=ctx.now_ms,
            group=group_id,
            member=request.sender,
            offsets=tuple(moves),
            more=len(written) - len(moves),
            backwards=backwards,
            in_transaction=isinstance(request.message, TxnOffsetCommitRequest),
        )
        out.journal.append(entry)


def _committed(offsets: GroupOffsets | None, topic: str, partition: int) -> int | None:
    held = None if offsets is None else offsets.get(topic, partition)
    return None if held is None else held.offset


def existing_places(named: Iterable[tuple[str | None, int]], topics: TopicsView) -> Iterator[tuple[bytes, int]]:
    """Yield topic id and number of each existing partition. ``named``: pairs of topic name and partition number."""
    for name, partition in named:
        topic_id, count = (None, None) if name is None else (topics.topic_id(name), topics.partition_count(name))
        if topic_id is not None and count is not None and 0 <= partition < count:
            yield topic_id, partition


def check_commit(groups: Groups, group_id: str, commit: Committing, missing: ErrorCode) -> Committer | None:
    """Return the member that commits; None for a client that is not a member.

    Raises ApiError. If the group does not exist and the commit has a member id, the error code is ``missing``.
    """
    consumer = groups.consumer.get(group_id)
    if consumer is not None:
        return check_commit_to_consumer(consumer, commit)
    group = groups.by_id.get(group_id)
    if group is not None:
        return check_commit_to_classic(group, commit)
    if commit.epoch >= 0:
        raise ApiError(missing, f"group {group_id!r} does not exist")
    return None


def note_refused(
    groups: Groups, group_id: str, request: GroupRequest, error: ApiError, ctx: Context, out: Outcome
) -> None:
    consumer, group = groups.consumer.get(group_id), groups.by_id.get(group_id)
    tried = refused_offsets(request.message, groups.offsets.get(group_id), ctx.topics)
    if consumer is not None:
        note_fenced_in_consumer_group(consumer, request, error, ctx, out, tried)
    elif group is not None:
        note_fenced(group, request, error, ctx, out, tried)


def check_fetch(groups: Groups, group_id: str, member_id: str | None, epoch: int) -> None:
    """Check member id and epoch of an OffsetFetch. Raises ApiError.

    They are checked for consumer groups only; a classic group accepts any member id and epoch.
    """
    group = groups.consumer.get(group_id)
    if group is None or (member_id is None and epoch <= NO_EPOCH):
        return
    member = group.check_member(member_id or "")
    if epoch != member.epoch:
        raise _stale(member, epoch)

"""Offsets as the journal tells them: of commits that were refused, and of those that nobody could have refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kohort.coordinator.context import Context
from kohort.coordinator.journal_events import CommitUnfenced, OffsetMove
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import GroupRequest, Outcome, TopicsView
from kohort.coordinator.records import OffsetCommitted
from kohort.wire.messages.offsets import OffsetCommitRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest
from kohort.wire.schema import Message

TOLD_MOST: Final = 20
"""Offsets of one commit that are told; of the others it is told how many they are."""


def tried_offsets(
    message: Message, offsets: GroupOffsets | None, topics: TopicsView
) -> tuple[tuple[OffsetMove, ...], int]:
    """Return the first few offsets that a commit tries, beside what is committed, and how many more there are; nothing
    for a request that is no commit."""
    if not isinstance(message, (OffsetCommitRequest, TxnOffsetCommitRequest)):
        return (), 0
    told: list[OffsetMove] = []
    for name, partition, offset in _of(message, topics):
        if len(told) == TOLD_MOST:
            break
        told.append(OffsetMove(name, partition, offset, _committed(offsets, name, partition)))
    return tuple(told), sum(len(topic.partitions) for topic in message.topics) - len(told)


def _of(message: OffsetCommitRequest | TxnOffsetCommitRequest, topics: TopicsView) -> Iterator[tuple[str, int, int]]:
    for topic in message.topics:
        name = topic.name or topics.topic_name(topic.topic_id) or topic.topic_id.hex()
        for p in topic.partitions:
            yield name, p.partition_index, p.committed_offset


def note_unfenced(
    request: GroupRequest, group_id: str, offsets: GroupOffsets | None, ctx: Context, out: Outcome
) -> None:
    """Write into the journal that somebody commits who is no member: once an hour, and whenever offsets go back."""
    written = [r for r in out.records if isinstance(r, OffsetCommitted) and r.value is not None]
    if not written:
        return
    backwards = 0
    told: list[OffsetMove] = []
    for record in written:
        before = _committed(offsets, record.topic, record.partition)
        after = record.value.offset if record.value is not None else -1
        goes_back = before is not None and after < before
        backwards += goes_back
        if len(told) < TOLD_MOST:
            told.append(OffsetMove(record.topic, record.partition, after, before))
    if ctx.remembered.committers.is_news(group_id, request.sender, ctx.now_ms, backwards=bool(backwards)):
        out.journal.append(
            CommitUnfenced(
                at_ms=ctx.now_ms,
                group=group_id,
                who=request.sender,
                offsets=tuple(told),
                more=len(written) - len(told),
                backwards=backwards,
                in_transaction=isinstance(request.message, TxnOffsetCommitRequest),
            )
        )


def _committed(offsets: GroupOffsets | None, topic: str, partition: int) -> int | None:
    held = None if offsets is None else offsets.get(topic, partition)
    return None if held is None else held.offset

"""The coordinator's answers leave when the records behind them are on the log: on the disk, where ``flush.messages`` of
``__consumer_offsets`` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from kohort.broker.flush_waits import Held
from kohort.broker.request import ReplyTo
from kohort.broker.state import BrokerState
from kohort.coordinator.api_table import withdraw
from kohort.coordinator.append_errors import append_error
from kohort.coordinator.outcome import Reply
from kohort.errors import ApiError
from kohort.log.partition import PartitionLog
from kohort.wire.schema import Message


def release(state: BrokerState, replies: Sequence[Reply], now_ms: int) -> None:
    """Let ``replies`` go, at once or as soon as what was appended for them is on the disk."""
    needs = state.offsets_topic.take_unflushed()
    if not needs:
        state.released.extend(replies)
        return
    for reply in replies:
        assert isinstance(reply.to, ReplyTo)
        state.flushes.hold(Held(reply.to, needs, partial(_finish, reply)), now_ms)


def _finish(reply: Reply, failed: Mapping[PartitionLog, ApiError]) -> Message:
    """Return the answer, or a refusal as after a write that timed out: it may have happened, and whoever asks again
    finds out."""
    for error in failed.values():
        return withdraw(reply, append_error(error)).message
    return reply.message

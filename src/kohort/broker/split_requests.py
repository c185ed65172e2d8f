"""Requests about very many things are split, each part served as a request of its own, and their answers joined.

So handlers need not know how to stop half-way. It is done where each thing is answered for itself: what is asked of one
partition, group or resource does not bear on another. What a part changes is changed when it is served, as if the
client had sent several requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kohort.broker.flush_waits import Held, Needed
from kohort.broker.request import AnswerInSteps, Handler, Request, Unanswered
from kohort.broker.state import BrokerState
from kohort.coordinator.api_table import withdraw
from kohort.coordinator.append_errors import append_error
from kohort.coordinator.outcome import GroupRequest, Reply
from kohort.errors import StorageError
from kohort.log.partition import PartitionLog
from kohort.model import NO_UUID
from kohort.steps import SpreadDict
from kohort.wire.messages.configs import DescribeConfigsRequest
from kohort.wire.messages.epochs import OffsetForLeaderEpochRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest
from kohort.wire.messages.group_classic import LeaveGroupRequest
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchRequestTopics,
)
from kohort.wire.messages.producer_ids import DescribeProducersRequest
from kohort.wire.messages.reassignments import AlterPartitionReassignmentsRequest
from kohort.wire.messages.topics import DeleteRecordsRequest
from kohort.wire.messages.transaction_admin import DescribeTransactionsRequest
from kohort.wire.messages.transactions import TxnOffsetCommitRequest, WriteTxnMarkersRequest
from kohort.wire.schema import Message


@dataclass(frozen=True, slots=True)
class SplitRule:
    """The arrays, each in the one before it, that a request of an API may fill, and those of its answer.

    ``most``: so many of the innermost are served at once.
    """

    asked: tuple[str, ...]
    answered: tuple[str, ...]
    most: int
    once: bool = False
    """Whether what is named twice is answered once."""

    def is_large(self, message: Message) -> bool:
        """Tell whether ``message`` is more than one part."""
        return _weight(message, self.asked, self.most) > self.most + 1

    def cut(self, message: Message) -> Iterator[tuple[Message, int]]:
        """Yield the parts, and with how many levels each goes on with what the one before it ended with."""
        items = getattr(message, self.asked[0]) or ()
        seen: SpreadDict[Any, None] = SpreadDict()
        for part, continued in _cut(items, self.asked[1:], self.most):
            if self.once:
                part = [item for item in part if seen.add(item, None)]
            yield _with(message, self.asked[0], part), continued

    def join(self, whole: Message, part: Message, continued: int) -> None:
        """Add the answer to a part to those before it."""
        first, *inner = self.answered
        _join(getattr(whole, first), getattr(part, first), inner, continued)


PARTITIONS: Final = ("topics", "partitions")
SPLIT_RULES: Final[dict[type[Message], SplitRule]] = {
    OffsetCommitRequest: SplitRule(PARTITIONS, PARTITIONS, 300),
    OffsetFetchRequest: SplitRule(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), 1_000),
    FindCoordinatorRequest: SplitRule(("coordinator_keys",), ("coordinators",), 1_000),
    LeaveGroupRequest: SplitRule(("members",), ("members",), 200),
    DescribeGroupsRequest: SplitRule(("groups",), ("groups",), 500),
    DeleteRecordsRequest: SplitRule(PARTITIONS, PARTITIONS, 50),
    OffsetForLeaderEpochRequest: SplitRule(PARTITIONS, PARTITIONS, 1_000),
    WriteTxnMarkersRequest: SplitRule(
        ("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"), 50
    ),
    TxnOffsetCommitRequest: SplitRule(PARTITIONS, PARTITIONS, 300),
    DescribeConfigsRequest: SplitRule(("resources",), ("results",), 15),
    DeleteGroupsRequest: SplitRule(("groups_names",), ("results",), 50, once=True),
    AlterPartitionReassignmentsRequest: SplitRule(PARTITIONS, ("responses", "partitions"), 20),
    OffsetDeleteRequest: SplitRule(PARTITIONS, PARTITIONS, 300),
    DescribeProducersRequest: SplitRule(("topics", "partition_indexes"), PARTITIONS, 500),
    DescribeTransactionsRequest: SplitRule(("transactional_ids",), ("transaction_states",), 500),
}
"""``most`` is about five milliseconds of work."""
FIRST_OFFSET_FETCH_OF_GROUPS: Final = 8
FIRST_OFFSET_FETCH_BY_ID: Final = 10
OF_ONE_GROUP: Final = SplitRule(("topics", "partition_indexes"), PARTITIONS, 1_000)


def split_rule_of(state: BrokerState, request: Request) -> SplitRule | None:
    """Return how to cut ``request``; None where it is served as it is."""
    kind = type(request.message)
    rule = SPLIT_RULES.get(kind)
    if kind is OffsetFetchRequest:
        _spell_out(state, request)
        if request.version < FIRST_OFFSET_FETCH_OF_GROUPS:
            rule = OF_ONE_GROUP
    return rule if rule is not None and rule.is_large(request.message) else None


def _spell_out(state: BrokerState, request: Request) -> None:
    """Name all offsets of a group where they are asked for and are very many: then they can be cut."""
    message: OffsetFetchRequest = request.message
    by_id = request.version >= FIRST_OFFSET_FETCH_BY_ID
    for asked in message.groups or (message,):
        offsets = state.coordinator.committed(asked.group_id)
        if asked.topics is None and offsets is not None and len(offsets) > OF_ONE_GROUP.most:
            named = [(name, state.topics.get(name), sorted(held)) for name, held in offsets.by_topic.items()]
            topics = [
                OffsetFetchRequestTopics(
                    name=name, topic_id=topic.topic_id if topic else NO_UUID, partition_indexes=partitions
                )
                for name, topic, partitions in named
                if topic is not None or not by_id
            ]
            setattr(asked, "topics", topics)  # noqa: B010 - a message is frozen for the type checker alone


def serve_split(state: BrokerState, request: Request, rule: SplitRule, serve_one: Handler) -> AnswerInSteps:
    """Have ``serve_one`` serve each part; the answers to all of them, or the first that refuses the request whole."""
    whole: Message | None = None
    needs: list[Needed] = []
    for message, continued in rule.cut(request.message):
        answer = serve_one(state, replace(request, message=message))
        if not isinstance(answer, Message):
            answer, unflushed = _take_back(state, request)
            needs += unflushed
        if getattr(answer, "error_code", 0):
            return answer
        if whole is None:
            whole = answer
        else:
            rule.join(whole, answer, continued)
        yield
    assert whole is not None, "what is large has parts"
    if not needs:
        return whole
    asked = GroupRequest(request.message, request.version, request.client_id, request.client_host, request.reply_to)
    state.flushes.hold(Held(request.reply_to, needs, partial(_finish, Reply(asked, whole))), request.now_ms)
    return Unanswered.LATER


def _take_back(state: BrokerState, request: Request) -> tuple[Message, Sequence[Needed]]:
    """Return the answer of the coordinator, from where it waits to be sent."""
    for place, reply in enumerate(state.released):
        if reply.to == request.reply_to:
            del state.released[place]
            return reply.message, ()
    held = state.flushes.take_back(request.reply_to)
    return held.finish({}), held.needs


def _finish(reply: Reply, failed: Mapping[PartitionLog, StorageError]) -> Message:
    for error in failed.values():
        return withdraw(reply, append_error(error)).message
    return reply.message


def _weight(item: Any, inner: Sequence[str], most: int) -> int:
    """Return how much of a part an item takes; more than ``most`` is not counted to its end."""
    held = getattr(item, inner[0]) or ()
    if len(inner) == 1 or len(held) > most:
        return 1 + len(held)  # where only the outer are counted, it is too much already
    weight = 1
    for one in held:
        weight += _weight(one, inner[1:], most)
        if weight > most:
            break
    return weight


def _cut(items: Sequence[Any], inner: Sequence[str], most: int) -> Iterator[tuple[list[Any], int]]:
    """Return parts of ``items``, and how many levels each has in common with the end of the one before."""
    if not inner:
        for at in range(0, len(items), most):
            yield list(items[at : at + most]), 0
        return
    held: list[Any] = []
    room = most
    for item in items:
        weight = _weight(item, inner, most)
        if weight > room and held:
            yield held, 0
            held, room = [], most
        if weight <= room:
            held.append(item)
            room -= weight
            continue
        is_first = True
        for part, deeper in _cut(getattr(item, inner[0]), inner[1:], most):
            yield [_with(item, inner[0], part)], 0 if is_first else 1 + deeper
            is_first = False
    if held:
        yield held, 0


def _with(message: Any, name: str, value: list[Any]) -> Any:
    """Return a copy of ``message`` with one field changed."""
    made = copy(message)
    setattr(made, name, value)
    return made


def _join(whole: list[Any], part: list[Any], inner: Sequence[str], continued: int) -> None:
    if continued and whole and part:
        _join(getattr(whole[-1], inner[0]), getattr(part[0], inner[0]), inner[1:], continued - 1)
        part = part[1:]
    whole += part

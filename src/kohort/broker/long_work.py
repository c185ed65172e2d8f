"""Long requests: served in steps, large ones in parts, with other requests in between.

A long handler is a generator that yields every few milliseconds (kohort.steps). Its first step runs at once; the
remaining steps wait in ``LongWork``. Each Tick runs one step of one request, so a small request never waits for more
than one step. Writing the response and freeing memory take steps, too. A request is completed even if its client
disconnects, as in Kafka.

A large request is split into parts, each served like a separate request, and their responses are joined. This works
for APIs with independent array entries: partitions, groups or resources. The size of a part counts its entries and the
objects that they name, such as the members of a group. Responses of APIs that only read are encoded part by part
(``kohort.wire.large_messages``) and count as unread responses while they grow. Entries of a response beyond half of
``queued.max.request.bytes`` get an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from kohort.broker.api import Cost, Parts
from kohort.broker.client_quotas import ClientQuotas, Throttling
from kohort.broker.counters import BrokerCounters
from kohort.broker.group_requests import after_flush
from kohort.broker.purgatory import FlushTarget, PendingAnswer
from kohort.broker.request import Answer, AnswerInSteps, CloseConnection, ReplyTo, Request, Unanswered, unencodable
from kohort.broker.state import BrokerState
from kohort.coordinator.outcome import GroupRequest, Reply
from kohort.errors import ProtocolError
from kohort.steps import Pace, Steps, at_once
from kohort.wire.codec import Buffer, is_replaced
from kohort.wire.headers import build_response_in_steps
from kohort.wire.large_messages import GrowingAnswer, free_in_steps
from kohort.wire.schema import Message

Done = Sequence[Buffer] | Unanswered | CloseConnection
"""Result of a long request: encoded response, no response, or the reason to close the connection."""
NOTHING_YET: Final = None


@dataclass(slots=True, eq=False)
class Task:
    request: Request
    steps: AnswerInSteps


class LongWork:
    def __init__(self, quotas: ClientQuotas, throttling: Throttling, counters: BrokerCounters) -> None:
        self._quotas = quotas
        self._throttling = throttling
        self._counters = counters
        self.begun = 0
        self._tasks: deque[tuple[Request, Iterator[Done | None]]] = deque()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[ReplyTo]:
        """Yield connection and header of each unfinished request, for metrics and tests."""
        return (request.reply_to for request, _ in self._tasks)

    def add(self, task: Task) -> None:
        self.begun += 1
        self._tasks.append((task.request, self._whole(task)))

    def step(self, now_ms: int) -> tuple[ReplyTo, Done] | None:
        """Run one step of the next long request; return the request's result if this was the last step."""
        if not self._tasks:
            return None
        request, steps = self._tasks.popleft()
        request.now_ms = now_ms
        self._quotas.work(request.reply_to.connection)
        try:
            done = next(steps)
        except StopIteration:
            return None
        except Exception:
            self._tasks.append((request, iter((CloseConnection("internal error of the broker in a long request"),))))
            raise
        self._quotas.rest(request.reply_to.connection)
        self._tasks.append((request, steps))
        return None if done is NOTHING_YET else (request.reply_to, done)

    def _whole(self, task: Task) -> Iterator[Done | None]:
        request = task.request
        kept: list[Message] = []
        try:
            answer = yield from task.steps
            if isinstance(answer, Message):
                yield from self._counters.by_api[request.reply_to.api_key].find_errors(
                    answer, Pace(goes_on=True).is_due
                )
            if answer is not Unanswered.LATER:  # a delayed response is counted for the quotas when it is released
                answer = self._throttling.settle(request.reply_to, answer, request.now_ms)
            if isinstance(answer, Message):
                kept.append(answer)
                reply_to = request.reply_to
                yield (yield from build_response_in_steps(reply_to.correlation_id, answer, reply_to.version))
            else:
                yield answer
        except ProtocolError as error:
            yield unencodable(error)
        except CloseConnection as close:
            yield close
            answer = Unanswered.NEVER
        if answer is Unanswered.LATER:
            return  # keep the request in memory: the coordinator still needs it
        answer = Unanswered.NEVER  # drop the last reference to the response, so that its memory can be freed in steps
        if isinstance(request.message, Message):
            kept.append(request.message)
            request.message = None
        yield from free_in_steps(kept)


ServeOne = Callable[[BrokerState, Request], Answer | Task]


@dataclass(frozen=True, slots=True, eq=False)
class RequestSplitter:
    state: BrokerState
    cost: Cost
    parts: Parts

    def is_large(self, message: Message) -> bool:
        items = getattr(message, self.parts.request_path[0]) or ()
        weight = 0
        for item in items:
            weight += self._weight((item,), self.parts.request_path[1:])
            if weight > self.parts.max_units:
                return True
        return False

    def cut(self, message: Message) -> Iterator[tuple[Message, int]]:
        """Yield each part of a request.

        Also yields at how many nesting levels the part's first entry continues the previous part's last entry.
        """
        items = getattr(message, self.parts.request_path[0]) or ()
        for part, continued in self._cut(items, (), self.parts.request_path[1:]):
            yield _with(message, self.parts.request_path[0], part), continued

    def _weight(self, chain: tuple[Any, ...], inner: Sequence[str]) -> int:
        """Return the work units of a request entry with its nested entries; the count stops above ``max_units``."""
        most, extra_units = self.parts.max_units, self.parts.extra_units
        weight = 1 if extra_units is None else 1 + extra_units(self.state, chain)
        if not inner or weight > most:
            return weight
        kept = getattr(chain[-1], inner[0]) or ()
        if len(kept) > most or (extra_units is None and len(inner) == 1):
            return weight + len(kept)
        for one in kept:
            weight += self._weight((*chain, one), inner[1:])
            if weight > most:
                break
        return weight

    def _cut(
        self, items: Iterable[Any], outer: tuple[Any, ...], inner: Sequence[str]
    ) -> Iterator[tuple[list[Any], int]]:
        """Yield the array entries of each part, and at how many nesting levels they continue the previous part."""
        kept: list[Any] = []
        most = room = self.parts.max_units
        for item in items:
            weight = self._weight((*outer, item), inner)
            if weight > room and kept:
                yield kept, 0
                kept, room = [], most
            if weight <= room or not (inner and getattr(item, inner[0])):
                kept.append(item)
                room -= weight
                continue
            is_first = True
            for part, deeper in self._cut(getattr(item, inner[0]), (*outer, item), inner[1:]):
                yield [_with(item, inner[0], part)], 0 if is_first else 1 + deeper
                is_first = False
        if kept:
            yield kept, 0


def splitter_of(state: BrokerState, request: Request, cost: Cost) -> RequestSplitter | None:
    """Return the splitter of a large request; None for a request that is served as a whole."""
    parts = cost.parts_of(request.version)
    if parts is not None:
        splitter = RequestSplitter(state, cost, parts)
        if splitter.is_large(request.message):
            return splitter
    if cost.once is not None:
        request.message = at_once(cost.deduplicated(request.message))
    return None


def serve_in_parts(
    state: BrokerState, request: Request, splitter: RequestSplitter, serve_one: ServeOne
) -> AnswerInSteps:
    """Serve each part of a request and join the responses; a response with a top-level error is returned at once."""
    if splitter.parts.writes:
        return (yield from _serve_writes(state, request, splitter, serve_one))
    number = request.reply_to.connection
    growing = GrowingAnswer(request.version, splitter.parts.response_path)
    try:
        whole = yield from splitter.cost.deduplicated(request.message)
        for message, continued in splitter.cut(whole):
            part = replace(request, message=message)
            answer = yield from _served(state, part, growing, splitter, serve_one)
            if getattr(answer, "error_code", 0):
                return answer
            yield from growing.add(answer, continued)
            state.unread.set_growing(number, growing.written_bytes)
            del answer
            yield
        return (yield from growing.finish())
    finally:
        state.unread.set_growing(number, 0)


def _served(
    state: BrokerState, part: Request, growing: GrowingAnswer, splitter: RequestSplitter, serve_one: ServeOne
) -> Steps[Message]:
    refuse, limit = splitter.parts.refuse, state.unread.answer_bytes
    if refuse is not None and growing.written_bytes > limit:
        return refuse(part, f"the response exceeds {limit} bytes (queued.max.request.bytes / 2): request fewer items")
    answer = serve_one(state, part)
    if isinstance(answer, Task):
        answer = yield from answer.steps
    assert isinstance(answer, Message), "an API that only reads returns its response at once"
    if not is_replaced(type(answer)):  # encoded responses cannot be searched for errors
        yield from state.counters.by_api[part.reply_to.api_key].find_errors(answer, Pace(goes_on=True).is_due)
    return answer


def _serve_writes(
    state: BrokerState, request: Request, splitter: RequestSplitter, serve_one: ServeOne
) -> AnswerInSteps:
    whole: Message | None = None
    needs: list[FlushTarget] = []
    first, *inner = splitter.parts.response_path
    asked_once = yield from splitter.cost.deduplicated(request.message)
    for message, continued in splitter.cut(asked_once):
        answer = serve_one(state, replace(request, message=message))
        if isinstance(answer, Task):
            answer = yield from answer.steps
        if not isinstance(answer, Message):
            answer, unflushed = _take_back(state, request)
            needs += unflushed
        if getattr(answer, "error_code", 0):
            return answer
        if whole is None:
            whole = answer
        else:
            _join(getattr(whole, first), getattr(answer, first), inner, continued)
        yield
    assert whole is not None, "a large request has at least one part"
    if not needs:
        return whole
    asked = GroupRequest(request.message, request.version, request.client_id, request.client_host, request.reply_to)
    state.flushes.hold(
        PendingAnswer(request.reply_to, needs, partial(after_flush, Reply(asked, whole))), request.now_ms
    )
    return Unanswered.LATER


def _take_back(state: BrokerState, request: Request) -> tuple[Message, Sequence[FlushTarget]]:
    """Withdraw the group coordinator's unsent response to a request; return it and the log flushes that it needs."""
    released = state.take_released(request.reply_to)
    if released is not None:
        return released, ()
    kept = state.flushes.take_back(request.reply_to)
    answer = kept.finish({})
    if (amend := state.amendments.pop(request.reply_to.connection, None)) is not None:
        answer = amend(answer)
    return answer, kept.needs


def _with(message: Any, name: str, value: list[Any]) -> Any:
    made = copy(message)
    setattr(made, name, value)
    return made


def _join(whole: list[Any], part: list[Any], inner: Sequence[str], continued: int) -> None:
    if continued and whole and part:
        _join(getattr(whole[-1], inner[0]), getattr(part[0], inner[0]), inner[1:], continued - 1)
        part = part[1:]
    whole += part

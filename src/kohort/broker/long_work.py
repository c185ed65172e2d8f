"""Requests that take long: each is served a step at a time, in turn, and everyone else in between.

A handler with much to do is a generator that yields every few milliseconds of work (kohort.steps). What is not done
after its first step waits here. A tick takes one step of one request, so a small request waits for one step, however
many large ones there are. The answer of a long request is written in steps too, and so are both let go.

A request goes on to its end though its peer is gone, as in Kafka: what it changes must not be left half done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.broker.client_quotas import ClientQuotas
from kohort.broker.counters import BrokerCounters
from kohort.broker.request import AnswerInSteps, HangUp, ReplyTo, Request, Unanswered, unwritten
from kohort.broker.throttling import Throttling
from kohort.errors import ProtocolError
from kohort.steps import Pace, Steps
from kohort.wire.codec import Buffer
from kohort.wire.headers import build_response_in_steps
from kohort.wire.large_messages import let_go
from kohort.wire.schema import Message


@dataclass(slots=True, eq=False)
class Task:
    """One request that is not done yet."""

    request: Request
    steps: AnswerInSteps


Done = Sequence[Buffer] | Unanswered | HangUp
"""What became of a request: its response, framed; no response; or a reason to hang up."""
NOTHING_YET: Final = None


class LongWork:
    """All long requests of a broker."""

    def __init__(self, quotas: ClientQuotas, throttling: Throttling, counters: BrokerCounters) -> None:
        self._quotas = quotas
        self._throttling = throttling
        self._counters = counters
        self.begun = 0
        """How many there were."""
        self._tasks: deque[tuple[Request, Iterator[Done | None]]] = deque()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[ReplyTo]:
        """Yield where their answers go, for whoever looks from inside the process."""
        return (request.reply_to for request, _ in self._tasks)

    def add(self, task: Task) -> None:
        """Go on with ``task`` when its turn comes."""
        self.begun += 1
        self._tasks.append((task.request, self._whole(task)))

    def step(self, now_ms: int) -> tuple[ReplyTo, Done] | None:
        """Take a step of the request whose turn it is; whom there is something to tell, and what."""
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
            self._tasks.append((request, iter((HangUp("an error in the broker"),))))
            raise
        self._quotas.rest(request.reply_to.connection)
        self._tasks.append((request, steps))
        return None if done is NOTHING_YET else (request.reply_to, done)

    def _whole(self, task: Task) -> Iterator[Done | None]:
        """Serve, write the answer, let go of both."""
        request = task.request
        held: list[Message] = []
        try:
            answer = yield from task.steps
            if isinstance(answer, Message):
                yield from self._counters.by_api[request.reply_to.api_key].find_errors(answer, _pace())
            if answer is not Unanswered.LATER:  # and is told at once what that takes
                answer = self._throttling.settle(request.reply_to, answer, request.now_ms)
            if isinstance(answer, Message):
                held.append(answer)
                yield (yield from _response(request.reply_to, answer))
            else:
                yield answer
        except ProtocolError as error:
            yield unwritten(error)
        except HangUp as hang_up:
            yield hang_up
            answer = Unanswered.NEVER
        if answer is Unanswered.LATER:
            return  # who answers later needs the request
        answer = Unanswered.NEVER  # nobody else may hold what is let go
        if isinstance(request.message, Message):
            held.append(request.message)
            request.message = None
        yield from let_go(held)


def _pace() -> Callable[[float], bool]:
    return Pace(goes_on=True).is_due


def _response(reply_to: ReplyTo, answer: Message) -> Steps[list[Buffer]]:
    return build_response_in_steps(reply_to.correlation_id, answer, reply_to.version)

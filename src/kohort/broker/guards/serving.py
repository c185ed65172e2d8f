"""A request on its way through its guard: checked, handled as far as it may be, and answered whole."""

from __future__ import annotations

from collections.abc import Callable

from kohort.broker.guards.guard import Amend, Checking, Guard, Guarded
from kohort.broker.long_work import Task
from kohort.broker.request import Answer, AnswerInSteps, HangUp, ReplyTo, Request, Unanswered
from kohort.broker.state import BrokerState
from kohort.steps import Steps, at_once
from kohort.wire.large_messages import let_go
from kohort.wire.schema import Message


def guarded(
    state: BrokerState, request: Request, guard: Guard, handle: Callable[[BrokerState, Request], Answer | Task]
) -> AnswerInSteps:
    """Have ``handle`` serve what its caller may ask. Raises HangUp where what was refused cannot be said."""
    original = request.message
    found = guard(Checking(state, request))
    if not isinstance(found, Guarded):
        found = yield from found
    if found.answer is not None:
        if found.closing is not None:
            raise HangUp(found.closing, "acks=0")
        return found.answer
    answer = handle(state, request)
    if isinstance(answer, Task):
        answer = yield from answer.steps
    if answer is Unanswered.NEVER and found.closing is not None:
        raise HangUp(found.closing, "acks=0")
    if found.amend is not None:
        answer = yield from _amended(state, request, found.amend, answer)
    if request.message is not original:
        held, original = [original], None
        yield from let_go(held)
    return answer


def _amended(state: BrokerState, request: Request, amend: Amend, answer: Answer) -> AnswerInSteps:
    """Return an answer with what was refused; what is still to come is amended when it does."""
    if answer is Unanswered.LATER:
        released = _take_back(state, request.reply_to)
        if released is None:
            state.amendments[request.reply_to.connection] = lambda message: _at_once(amend(message))
            return answer
        answer = released
    if isinstance(answer, Unanswered):
        return answer
    amended = amend(answer)
    return amended if isinstance(amended, Message) else (yield from amended)


def _at_once(amended: Message | Steps[Message]) -> Message:
    return amended if isinstance(amended, Message) else at_once(amended)


def _take_back(state: BrokerState, reply_to: ReplyTo) -> Message | None:
    """Return the coordinator's answer, if it waits to be sent: a long one is written in steps from here."""
    for place, reply in enumerate(state.released):
        if reply.to == reply_to:
            del state.released[place]
            return reply.message
    return None

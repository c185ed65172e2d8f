"""A request on its way through its guard: checked, handled as far as it may be, and answered whole."""

from __future__ import annotations

from collections.abc import Callable

from kohort.broker.guards.guard import Checking, Guard, Guarded
from kohort.broker.long_work import Task
from kohort.broker.request import Answer, AnswerInSteps, HangUp, Request, Unanswered
from kohort.broker.state import BrokerState


def guarded(
    state: BrokerState, request: Request, guard: Guard, handle: Callable[[BrokerState, Request], Answer | Task]
) -> AnswerInSteps:
    """Have ``handle`` serve what its caller may ask. Raises HangUp where what was refused cannot be said."""
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
        if answer is Unanswered.LATER:
            state.amendments[request.reply_to.connection] = found.amend
        elif not isinstance(answer, Unanswered):
            return found.amend(answer)
    return answer

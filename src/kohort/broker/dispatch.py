"""Path of a request frame: header, version, body, guard, handler, error response.

The connection is closed for an API or version that is not served, as the protocol has no response for it
(protocol/requests.md#unsupported-requests). ApiVersions is the exception, so that a newer client learns the versions.

Large frames are decoded in steps, and handlers may yield between steps. The first step runs at once, the remaining
steps run in long_work.py.
"""

from __future__ import annotations

import importlib
import pkgutil
import struct
from collections.abc import Iterator, Mapping
from typing import Final

from kohort.broker import apis
from kohort.broker.api import BrokerApi
from kohort.broker.apis.api_versions import unsupported_version
from kohort.broker.authorization import Amend, Guard, GuardResult, Rights
from kohort.broker.connections.connection import LARGE_BYTES
from kohort.broker.long_work import Task, serve_in_parts, splitter_of
from kohort.broker.request import (
    Answer,
    AnswerInSteps,
    Caller,
    CloseConnection,
    ReplyTo,
    Request,
    Unanswered,
    refusal_of,
)
from kohort.broker.state import BrokerState
from kohort.errors import KohortError, ProtocolError
from kohort.steps import Steps, at_once
from kohort.wire.apis import API_VERSIONS, APIS, Api
from kohort.wire.codec import decode, decode_in_steps
from kohort.wire.headers import client_id_of, skip_tags
from kohort.wire.large_messages import free_in_steps
from kohort.wire.schema import Message

HEADER = struct.Struct(">hhi")
FREED_FRAME_BYTES: Final = 8 << 20
"""A larger frame is freed before its request is served, unless batches refer to it; few Produce requests are larger."""


def _declared() -> Iterator[BrokerApi]:
    for module in pkgutil.iter_modules(apis.__path__, f"{apis.__name__}."):
        for declared in vars(importlib.import_module(module.name)).values():
            if isinstance(declared, BrokerApi):
                yield declared


HANDLED: Final[dict[type[Message], BrokerApi]] = {api.request: api for api in _declared()}
"""API declarations from the modules of ``broker/apis``, as a dict: request type to API."""

SERVED: Final[Mapping[int, Api]] = {key: api for key, api in sorted(APIS.items()) if api.request in HANDLED}
"""All implemented APIs, as a dict: API key to API. ``served_apis.py`` limits them to those of a Kafka release."""


def dispatch(
    state: BrokerState, connection: int, caller: Caller, frame: bytes | bytearray, now_ms: int
) -> tuple[ReplyTo, Answer | Task]:
    """Serve one request frame. Raises CloseConnection if the protocol has no response to it."""
    if len(frame) < HEADER.size:
        raise CloseConnection(f"a request of {len(frame)} bytes is too short for its header", "short")
    key, version, correlation_id = HEADER.unpack_from(frame)
    reply_to = ReplyTo(connection, correlation_id, key, version)
    api = state.apis.get(key)
    if api is None:
        name = APIS[key].name if key in APIS else "unknown"
        raise CloseConnection(f"API {key} ({name}) is not served", "api")
    if not api.serves(version):
        if key == API_VERSIONS:
            return reply_to._replace(version=0), unsupported_version(state)
        raise CloseConnection(f"{api.name} version {version} is not served, only {api.low} to {api.high}", "version")
    try:
        client_id, body_at = client_id_of(frame)
        if version >= api.flexible_from:
            body_at = skip_tags(frame, body_at, "RequestHeader")
        request = Request(None, version, reply_to, client_id or "", caller, now_ms)
        if len(frame) > LARGE_BYTES:
            return reply_to, take_first_step(request, _served_in_steps(state, api, request, frame, body_at))
        request.message, _ = decode(api.request, version, frame, body_at)
    except ProtocolError as error:
        raise CloseConnection(f"malformed {api.name} version {version}: {error}", "malformed") from None
    return reply_to, _serve_decoded(state, api, request)


def _served_in_steps(
    state: BrokerState, api: Api, request: Request, frame: bytes | bytearray, body_at: int
) -> AnswerInSteps:
    try:
        request.message, _ = yield from decode_in_steps(api.request, request.version, frame, body_at)
    except ProtocolError as error:
        raise CloseConnection(f"malformed {api.name} version {request.version}: {error}", "malformed") from None
    if len(frame) > FREED_FRAME_BYTES:
        del frame
        yield  # the callers refer to the frame until the current event ends
    answer = _serve_decoded(state, api, request)
    return (yield from answer.steps) if isinstance(answer, Task) else answer


def _serve_decoded(state: BrokerState, api: Api, request: Request) -> Answer | Task:
    if state.intercept is not None and (answer := state.intercept(state.node.node_id, api, request)) is not None:
        return answer
    return serve(state, request)


def serve(state: BrokerState, request: Request) -> Answer | Task:
    """Check the client's rights and handle a request. Raises CloseConnection for an error without a response."""
    api = SERVED[request.reply_to.api_key]
    splitter = splitter_of(state, request, HANDLED[type(request.message)].cost)
    if splitter is not None:
        return take_first_step(request, _refusing(api, serve_in_parts(state, request, splitter, _serve_one)))
    return _serve_one(state, request)


def _serve_one(state: BrokerState, request: Request) -> Answer | Task:
    if state.access is None:
        return _handle(state, request)
    api = SERVED[request.reply_to.api_key]
    return take_first_step(request, _refusing(api, _guarded(state, request, HANDLED[api.request].guard)))


def _guarded(state: BrokerState, request: Request, guard: Guard) -> AnswerInSteps:
    """Handle a request without its denied resources. Raises CloseConnection for denials that have no response."""
    original = request.message
    found = guard(Rights(state, request))
    if not isinstance(found, GuardResult):
        found = yield from found
    if found.answer is not None:
        if found.closing is not None:
            raise CloseConnection(found.closing, "acks=0")
        return found.answer
    answer = _handle(state, request)
    if isinstance(answer, Task):
        answer = yield from answer.steps
    if answer is Unanswered.NEVER and found.closing is not None:
        raise CloseConnection(found.closing, "acks=0")
    if found.amend is not None:
        answer = yield from _amended(state, request, found.amend, answer)
    if request.message is not original:
        kept, original = [original], None
        yield from free_in_steps(kept)
    return answer


def _amended(state: BrokerState, request: Request, amend: Amend, answer: Answer) -> AnswerInSteps:
    if answer is Unanswered.LATER:
        released = state.take_released(request.reply_to)
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


def _handle(state: BrokerState, request: Request) -> Answer | Task:
    api = SERVED[request.reply_to.api_key]
    try:
        answer = HANDLED[api.request].handle(state, request)
    except KohortError as error:
        return _refuse(api, error)
    if isinstance(answer, (Message, Unanswered)):
        return answer
    return take_first_step(request, _refusing(api, answer))


def _refusing(api: Api, steps: AnswerInSteps) -> AnswerInSteps:
    try:
        return (yield from steps)
    except KohortError as error:
        return _refuse(api, error)


def take_first_step(request: Request, steps: AnswerInSteps) -> Answer | Task:
    try:
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    return Task(request, steps)


def _refuse(api: Api, error: KohortError) -> Message:
    refusal = refusal_of(error)
    fields = {f.name for f in api.response.FIELDS}
    if "error_code" not in fields:
        raise CloseConnection(f"{api.name} failed, and its response has no error field: {error}", "failed")
    text_fields = {"error_message": refusal.message} if "error_message" in fields else {}
    return api.response(error_code=int(refusal.code), **text_fields)  # type: ignore[call-arg]  # fields vary by API

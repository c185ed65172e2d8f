"""Scripted rules of a staged broker, and the requests that it received.

The code runs on the broker's loop; ``StagedBroker`` calls it from other threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.broker.request import Answer, CloseConnection, ConnectionId, Request, Unanswered
from kohort.errors import ErrorCode, UsageError
from kohort.nearest import did_you_mean
from kohort.wire.apis import APIS, Api
from kohort.wire.schema import FieldSpec, Message

CODE: Final = "error_code"
CODES: Final = (CODE, "partition_error_code")
FETCH, METADATA = 1, 3
OF_SESSIONS: Final = frozenset({ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH})
NAMES: Final = ("name", "topic", "topic_name", "group_id", "key", "resource_name")
NUMBERS: Final = ("partition_index", "partition", "index", "partition_id")


def error_response(api: Api, request: Message, version: int, code: ErrorCode) -> Message | None:
    """Return a response with an error code to ``request``; None if this version has no field for an error."""
    top = not (api.key == METADATA or (api.key == FETCH and code not in OF_SESSIONS))
    given = _filled(api.response, request, version, code, top=top)
    return api.response(**given) if given else None


def _filled(kind: type[Message], request: Message, version: int, code: ErrorCode, *, top: bool) -> dict[str, Any]:
    specs = {f.name: f for f in kind.FIELDS if version in f.versions}
    if CODE in specs and top:
        return {CODE: int(code)}
    found: dict[str, Any] = {}
    for spec in specs.values():
        element = _element(spec)
        if element is not None:
            elements = [_error_element(element, one, version, code) for one in _elements_of(request, version)]
            if any(elements):
                found[spec.name] = [element(**one) for one in elements]
                break
    return found


def _error_element(kind: type[Message], element_of_request: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    names = [f.name for f in kind.FIELDS if version in f.versions]
    found: dict[str, Any] = {name: int(code) for name in CODES if name in names}
    if isinstance(element_of_request, Message):
        if not found:
            found = _filled(kind, element_of_request, version, code, top=True)
        values = {
            f.name: getattr(element_of_request, f.name)
            for f in element_of_request.FIELDS
            if _element(f) is None and f.kind != "array"
        }
    else:
        values = dict.fromkeys(NUMBERS if isinstance(element_of_request, int) else NAMES, element_of_request)
    for alike in (NAMES, NUMBERS):
        value = next((values[name] for name in alike if name in values), None)
        target = next((name for name in alike if name in names), None)
        if found and value is not None and target is not None:
            found[target] = value
    for name in ("topic_id", "resource_type"):
        if found and name in names and name in values:
            found[name] = values[name]
    return found


def _elements_of(request: Message, version: int) -> Iterable[Any]:
    for spec in request.FIELDS:
        value = getattr(request, spec.name)
        if spec.kind == "array" and value and version in spec.versions:
            return list(value)
    return ()


def _element(spec: FieldSpec) -> type[Message] | None:
    of = spec.of
    return of if spec.kind == "array" and isinstance(of, type) and issubclass(of, Message) else None


SEEN_MOST: Final = 10_000
API_NAMES: Final = frozenset(api.name for api in APIS.values())


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A received request: API name (``"Fetch"``), version, client id, node id, decoded message.

    ``message`` has the protocol's fields, with underscores.
    """

    api: str
    version: int
    client_id: str
    message: Any
    node_id: int
    connection: ConnectionId

    def matches(self, api: str | None, client_id: str | None) -> bool:
        """Return True for a request of this API and client; None matches any."""
        return api in (None, self.api) and client_id in (None, self.client_id)


@dataclass(slots=True, eq=False)
class Rule:
    """A scripted effect on the next requests of an API.

    ``left``: number of further requests (None: unlimited). ``struck``: number of affected requests.
    """

    api: str
    client_id: str | None
    left: int | None
    struck: int = 0

    def takes(self, seen: SeenRequest) -> bool:
        """Return True if the rule applies to this request and is not used up."""
        return self.left != 0 and seen.matches(self.api, self.client_id)

    def count(self) -> None:
        """Count an affected request."""
        self.struck += 1
        if self.left is not None:
            self.left -= 1


Effect = Callable[[SeenRequest, Api, Request], Answer | None]


@dataclass(slots=True)
class Hold:
    rule: Rule | None = None
    kept: list[tuple[int, Request]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Awaited:
    api: str
    client_id: str | None
    count: int
    done: Future[list[SeenRequest]]


class Script:
    """Rules of a staged broker in order of creation, of which the first match decides; and the requests it received."""

    def __init__(self, lose_answer: Callable[[int, ConnectionId], None]) -> None:
        self.seen: deque[SeenRequest] = deque(maxlen=SEEN_MOST)
        self._rules: list[tuple[Rule, Effect]] = []
        self._awaited: list[Awaited] = []
        self._lose_answer = lose_answer

    def intercept(self, node_id: int, api: Api, request: Request) -> Answer | None:
        """Return the response of a rule in place of the broker's; None: the broker serves the request."""
        to = request.reply_to
        seen = SeenRequest(api.name, request.version, request.client_id, request.message, node_id, to.connection)
        self.seen.append(seen)
        answer = None
        for rule, effect in self._rules:
            if rule.takes(seen):
                rule.count()
                answer = effect(seen, api, request)
                break
        self._notify()
        return answer

    def fail(self, api: str, code: ErrorCode, times: int | None, client_id: str | None) -> Rule:
        def effect(_seen: SeenRequest, kind: Api, request: Request) -> Answer:
            answer = error_response(kind, request.message, request.version, code)
            if answer is None:
                raise CloseConnection(f"{api} version {request.version} has no field for {code.name}")
            return answer

        return self._add(Rule(checked_api(api), client_id, times), effect)

    def hang_up(self, api: str, times: int | None, client_id: str | None) -> Rule:
        def effect(seen: SeenRequest, _kind: Api, _request: Request) -> Answer:
            raise CloseConnection(f"{seen.api}: closed by a rule of the test")

        return self._add(Rule(checked_api(api), client_id, times), effect)

    def lose(self, api: str, times: int | None, client_id: str | None) -> Rule:
        def effect(seen: SeenRequest, _kind: Api, _request: Request) -> None:
            self._lose_answer(seen.node_id, seen.connection)

        return self._add(Rule(checked_api(api), client_id, times), effect)

    def hold(self, api: str, times: int | None, client_id: str | None) -> Hold:
        hold = Hold()

        def effect(seen: SeenRequest, _kind: Api, request: Request) -> Answer:
            hold.kept.append((seen.node_id, request))
            return Unanswered.LATER

        hold.rule = self._add(Rule(checked_api(api), client_id, times), effect)
        return hold

    def _add(self, rule: Rule, effect: Effect) -> Rule:
        self._rules.append((rule, effect))
        return rule

    def drop(self, rule: Rule | None = None) -> None:
        self._rules = [one for one in self._rules if rule is not None and one[0] is not rule]

    def requests(self, api: str | None, client_id: str | None) -> list[SeenRequest]:
        if api is not None:
            checked_api(api)
        return [seen for seen in self.seen if seen.matches(api, client_id)]

    def await_requests(self, api: str, count: int, client_id: str | None) -> Future[list[SeenRequest]]:
        """Return a future of the first requests of an API, done once ``count`` of them have arrived."""
        awaited = Awaited(checked_api(api), client_id, count, Future())
        self._awaited.append(awaited)
        self._notify()
        return awaited.done

    def _notify(self) -> None:
        for awaited in list(self._awaited):
            found = self.requests(awaited.api, awaited.client_id)
            if len(found) >= awaited.count or awaited.done.cancelled():
                self._awaited.remove(awaited)
                if awaited.done.set_running_or_notify_cancel():
                    awaited.done.set_result(found)


def checked_api(api: str) -> str:
    """Return the name of an API. Raises UsageError with the nearest name."""
    if api not in API_NAMES:
        raise UsageError(f"unknown API {api!r}{did_you_mean(api, API_NAMES)}")
    return api


def code_of(error: ErrorCode | str | int) -> ErrorCode:
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise UsageError(f"unknown error code {error!r}{did_you_mean(str(error), ErrorCode.__members__)}") from None

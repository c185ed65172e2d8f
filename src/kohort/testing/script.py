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


def refused(api: Api, request: Message, version: int, code: ErrorCode) -> Message | None:
    """Return the error response; None if this version has no field for an error."""
    top = not (api.key == METADATA or (api.key == FETCH and code not in OF_SESSIONS))
    given = _filled(api.response, request, version, code, top=top)
    return api.response(**given) if given else None


def _filled(kind: type[Message], asked: Message, version: int, code: ErrorCode, *, top: bool) -> dict[str, Any]:
    specs = {f.name: f for f in kind.FIELDS if version in f.versions}
    if CODE in specs and top:
        return {CODE: int(code)}
    found: dict[str, Any] = {}
    for spec in specs.values():
        element = _element(spec)
        if element is not None:
            elements = [_repeated(element, one, version, code) for one in _things(asked, version)]
            if any(elements):
                found[spec.name] = [element(**one) for one in elements]
                break
    return found


def _repeated(kind: type[Message], thing: Any, version: int, code: ErrorCode) -> dict[str, Any]:
    names = [f.name for f in kind.FIELDS if version in f.versions]
    found: dict[str, Any] = {name: int(code) for name in CODES if name in names}
    if isinstance(thing, Message):
        if not found:
            found = _filled(kind, thing, version, code, top=True)
        said = {f.name: getattr(thing, f.name) for f in thing.FIELDS if _element(f) is None and f.kind != "array"}
    else:
        said = dict.fromkeys(NUMBERS if isinstance(thing, int) else NAMES, thing)
    for alike in (NAMES, NUMBERS):
        value = next((said[name] for name in alike if name in said), None)
        target = next((name for name in alike if name in names), None)
        if found and value is not None and target is not None:
            found[target] = value
    if found and "topic_id" in names and "topic_id" in said:
        found["topic_id"] = said["topic_id"]
    if found and "resource_type" in names and "resource_type" in said:
        found["resource_type"] = said["resource_type"]
    return found


def _things(asked: Message, version: int) -> Iterable[Any]:
    for spec in asked.FIELDS:
        value = getattr(asked, spec.name)
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
    """A request as it arrived: the API's name (``"Fetch"``), its version, who asked, and the decoded message.

    ``message`` has the protocol's fields by their names with underscores. ``node_id`` is the node that was asked.
    """

    api: str
    version: int
    client_id: str
    message: Any
    node_id: int
    connection: ConnectionId

    def matches(self, api: str | None, client_id: str | None) -> bool:
        """True for a request of this API and client; None matches any."""
        return api in (None, self.api) and client_id in (None, self.client_id)


@dataclass(slots=True, eq=False)
class Rule:
    """What was asked of the next requests of one API. ``left``: to how many it will still happen (None: to all);
    ``struck``: to how many it has."""

    api: str
    client_id: str | None
    left: int | None
    struck: int = 0

    def takes(self, seen: SeenRequest) -> bool:
        """True if the rule applies to this request and is not used up."""
        return self.left != 0 and seen.matches(self.api, self.client_id)

    def count(self) -> None:
        """Count one more affected request."""
        self.struck += 1
        if self.left is not None:
            self.left -= 1


Effect = Callable[[SeenRequest, Api, Request], Answer | None]
"""The action on a request; None: serve it."""


@dataclass(slots=True)
class Hold:
    """Parked requests, until they are released."""

    rule: Rule | None = None
    kept: list[tuple[int, Request]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Awaited:
    api: str
    client_id: str | None
    count: int
    done: Future[list[SeenRequest]]


class Script:
    """Rules in order of creation; the first match decides."""

    def __init__(self, lose_answer: Callable[[int, ConnectionId], None]) -> None:
        self.seen: deque[SeenRequest] = deque(maxlen=SEEN_MOST)
        self._rules: list[tuple[Rule, Effect]] = []
        self._awaited: list[Awaited] = []
        self._lose_answer = lose_answer

    def intercept(self, node_id: int, api: Api, request: Request) -> Answer | None:
        """Return what a rule answers instead of the broker, None for the broker to serve it; see ``Intercept``."""
        to = request.reply_to
        seen = SeenRequest(api.name, request.version, request.client_id, request.message, node_id, to.connection)
        self.seen.append(seen)
        answer = None
        for rule, effect in self._rules:
            if rule.takes(seen):
                rule.count()
                answer = effect(seen, api, request)
                break
        self._tell()
        return answer

    # ------------------------------------------------------------ what can happen

    def fail(self, api: str, code: ErrorCode, times: int | None, client_id: str | None) -> Rule:
        def effect(_seen: SeenRequest, kind: Api, request: Request) -> Answer:
            answer = refused(kind, request.message, request.version, code)
            if answer is None:
                raise CloseConnection(f"{api} version {request.version} has no place for {code.name}")
            return answer

        return self._add(Rule(known(api), client_id, times), effect)

    def hang_up(self, api: str, times: int | None, client_id: str | None) -> Rule:
        def effect(seen: SeenRequest, _kind: Api, _request: Request) -> Answer:
            raise CloseConnection(f"{seen.api}: as the test wants it")

        return self._add(Rule(known(api), client_id, times), effect)

    def lose(self, api: str, times: int | None, client_id: str | None) -> Rule:
        def effect(seen: SeenRequest, _kind: Api, _request: Request) -> None:
            self._lose_answer(seen.node_id, seen.connection)

        return self._add(Rule(known(api), client_id, times), effect)

    def hold(self, api: str, times: int | None, client_id: str | None) -> Hold:
        hold = Hold()

        def effect(seen: SeenRequest, _kind: Api, request: Request) -> Answer:
            hold.kept.append((seen.node_id, request))
            return Unanswered.LATER

        hold.rule = self._add(Rule(known(api), client_id, times), effect)
        return hold

    def _add(self, rule: Rule, effect: Effect) -> Rule:
        self._rules.append((rule, effect))
        return rule

    def drop(self, rule: Rule | None = None) -> None:
        self._rules = [one for one in self._rules if rule is not None and one[0] is not rule]

    # ------------------------------------------------------------ what was seen

    def requests(self, api: str | None, client_id: str | None) -> list[SeenRequest]:
        if api is not None:
            known(api)
        return [seen for seen in self.seen if seen.matches(api, client_id)]

    def await_requests(self, api: str, count: int, client_id: str | None) -> Future[list[SeenRequest]]:
        """Return a future that is done once ``count`` have arrived since the start, or since they were forgotten."""
        awaited = Awaited(known(api), client_id, count, Future())
        self._awaited.append(awaited)
        self._tell()
        return awaited.done

    def _tell(self) -> None:
        for awaited in list(self._awaited):
            found = self.requests(awaited.api, awaited.client_id)
            if len(found) >= awaited.count or awaited.done.cancelled():
                self._awaited.remove(awaited)
                if awaited.done.set_running_or_notify_cancel():
                    awaited.done.set_result(found)


def known(api: str) -> str:
    """Return the name of an API. Raises UsageError with the nearest one."""
    if api not in API_NAMES:
        raise UsageError(f"there is no API {api!r}{did_you_mean(api, API_NAMES)}")
    return api


def code_of(error: ErrorCode | str | int) -> ErrorCode:
    """Return an error code by number or name. Raises UsageError."""
    try:
        return ErrorCode[error] if isinstance(error, str) else ErrorCode(error)
    except (KeyError, ValueError):
        raise UsageError(f"there is no error code {error!r}{did_you_mean(str(error), ErrorCode.__members__)}") from None

"""Run admin operations: generators that yield requests and pauses, without I/O.

An operation yields a list of requests, or a pause. It receives a response or an error for each request, in the same
order. Many operations run in parallel over one request engine. The other modules of this package define the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeVar

from kohort.client.admin.model import ConfigResource, PartitionOffset
from kohort.client.requests.denials import DENIED_RESOURCES, missing_right
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.request_state import retry_backoff
from kohort.client.requests.source import ANY_NODE, Poll, Promise, Unsent
from kohort.clock import Rng
from kohort.config.client import ClientConfig
from kohort.errors import ApiError, ApiTimeout, ConnectionFailed, ErrorCode, KohortError, ProtocolError, error_code
from kohort.model import TopicPartition
from kohort.wire.schema import Message

K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

MISMATCH_ERRORS: Final = (LookupError, ValueError, TypeError, AttributeError, RuntimeError)
"""Exceptions that an operation raises if items in a response are missing, duplicate or unknown.

RuntimeError is included because Python converts StopIteration in a generator to it.
"""
CONNECTION_RETRIES: Final = 1
"""Number of retries while no broker is reachable. It is small, so that the caller soon gets the error."""


class Results(Mapping[K, V]):
    """Results of an admin call for several items, such as topics or groups.

    ``results[item]`` returns the item's value, or raises the item's error. The mapping contains all items; ``errors``
    maps the failed items to their errors.
    """

    __slots__ = ("_values", "errors")

    def __init__(self) -> None:
        self._values: dict[K, V] = {}
        self.errors: dict[K, KohortError] = {}

    def add(self, item: K, value: V) -> None:
        """Add an item's value to the results."""
        self._values[item] = value

    def refuse(self, item: K, error: KohortError) -> None:
        """Add an item's error to the results."""
        self.errors[item] = error

    def add_or_refuse(self, item: K, value: V, code: int, message: str | None = None) -> None:
        """Add an item's value to the results if ``code`` is 0; otherwise add its error."""
        if code:
            self.errors[item] = ApiError(error_code(code), f"{item}: {message}" if message else str(item))
        else:
            self._values[item] = value

    def check(self) -> Results[K, V]:
        """Return these results, or raise the error of the first failed item."""
        for error in self.errors.values():
            raise error
        return self

    def __getitem__(self, item: K) -> V:
        if item in self.errors:
            raise self.errors[item]
        return self._values[item]

    def __iter__(self) -> Iterator[K]:
        yield from self._values
        yield from self.errors

    def __len__(self) -> int:
        return len(self._values) + len(self.errors)

    def __repr__(self) -> str:
        failed = {item: str(error) for item, error in self.errors.items()}
        return f"Results({self._values!r}, errors={failed!r})" if failed else f"Results({self._values!r})"


def results_of(items: Iterable[tuple[K, V, int, str | None]]) -> Results[K, V]:
    """Build results from (item, value, error code, error message) tuples."""
    results: Results[K, V] = Results()
    for item, value, code, message in items:
        results.add_or_refuse(item, value, code, message)
    return results


@dataclass(slots=True)
class Ask:
    request: Message
    node_id: int = ANY_NODE
    max_version: int | None = None
    shape: Callable[[Message, int], Message] | None = None


@dataclass(slots=True)
class Pause:
    attempt: int


Answer = Message | KohortError
Operation = Generator["list[Ask] | Pause", Sequence[Any], R]


@dataclass(slots=True, eq=False)
class _Running:
    name: str
    operation: Operation[Any]
    promise: Promise[Any]
    deadline_ms: int
    timeout_ms: int
    asks: list[Ask] = field(default_factory=list)
    answers: list[Answer | None] = field(default_factory=list)
    missing: int = 0
    resume_at_ms: int | None = None
    last_error: KohortError | None = None


class AdminMachine:
    def __init__(self, config: ClientConfig, metadata: Metadata, rng: Rng) -> None:
        self._config = config
        self._metadata = metadata
        self._backoff = retry_backoff(config, rng)
        self._running: list[_Running] = []

    def start(self, name: str, operation: Operation[R], timeout_ms: int, now_ms: int) -> Promise[R]:
        """Start an admin operation that times out after ``timeout_ms``. Return a promise of its result."""
        promise: Promise[R] = Promise()
        running = _Running(name, operation, promise, now_ms + timeout_ms, timeout_ms)
        self._running.append(running)
        self._advance(running, None, now_ms)
        return promise

    def poll(self, now_ms: int) -> Poll:
        unsent: list[Unsent] = []
        wakes: list[int] = []
        for running in list(self._running):
            if running.deadline_ms <= now_ms:
                self._time_out(running)
                continue
            if running.resume_at_ms is not None and running.resume_at_ms <= now_ms:
                running.resume_at_ms = None
                self._advance(running, [], now_ms)
            wakes.append(running.deadline_ms)
            if running.resume_at_ms is not None:
                wakes.append(running.resume_at_ms)
            timeout_ms = min(self._config.request_timeout_ms, running.deadline_ms - now_ms)
            for index, ask in enumerate(running.asks):
                request = Unsent(ask.node_id, ask.request, timeout_ms, max_version=ask.max_version, shape=ask.shape)
                request.context = (running, index, running.answers)
                unsent.append(request)
            running.asks = []
        return Poll(unsent, min(wakes, default=None))

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        self._take(sent, response, now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._take(sent, error, now_ms)

    def _take(self, sent: Unsent, answer: Answer, now_ms: int) -> None:
        running, index, answers = sent.context
        if running.promise.done or running.answers is not answers:
            return
        answers[index] = answer
        if isinstance(answer, KohortError):
            running.last_error = answer
        running.missing -= 1
        if not running.missing:
            self._advance(running, answers, now_ms)

    def _advance(self, running: _Running, answers: Sequence[Any] | None, now_ms: int) -> None:
        try:
            step = next(running.operation) if answers is None else running.operation.send(answers)
            while isinstance(step, list) and not step:
                step = running.operation.send([])
        except StopIteration as end:
            self._running.remove(running)
            running.promise.resolve(end.value)
        except KohortError as error:
            self._running.remove(running)
            running.promise.fail(error)
        except MISMATCH_ERRORS as error:
            self._running.remove(running)
            if answers is None:
                raise  # no response caused the error, so it is a bug or a wrong argument
            mismatch = ProtocolError(f"{running.name}: unexpected response ({error!r})")
            mismatch.__cause__ = error
            running.promise.fail(mismatch)
        else:
            if isinstance(step, Pause):
                running.resume_at_ms = now_ms + self._backoff.delay_ms(step.attempt)
            else:
                running.asks = step
                running.answers = [None] * len(step)
                running.missing = len(step)

    def _time_out(self, running: _Running) -> None:
        self._running.remove(running)
        running.operation.close()
        servers = ", ".join(self._config.bootstrap_servers)
        why = f"; the last failure: {running.last_error}" if running.last_error else ""
        text = f"{running.name} did not complete within {running.timeout_ms} ms (bootstrap.servers={servers}){why}"
        running.promise.fail(ApiTimeout(text))


def ask(
    request: Message,
    *,
    node_id: int = ANY_NODE,
    codes: Callable[[Any], Iterable[int]] = lambda _: (),
    shape: Callable[[Message, int], Message] | None = None,
    max_version: int | None = None,
) -> Operation[Any]:
    """Send one request and return its response; retry transient errors.

    ``codes``: function that returns those error codes of a response that concern the whole request. Raises permanent
    errors, and ConnectionFailed if no broker is reachable.
    """
    attempt = 0
    while True:
        (answer,) = yield [Ask(request, node_id, max_version, shape)]
        if not isinstance(answer, KohortError):
            bad = [error_code(code) for code in codes(answer) if code]
            if not bad:
                return answer
            answer = ApiError(bad[0], type(request).__name__.removesuffix("Request"))
        attempt += 1
        if not answer.retriable or (isinstance(answer, ConnectionFailed) and attempt > CONNECTION_RETRIES):
            raise answer
        yield Pause(attempt)


def run_together(operations: Sequence[Operation[R]]) -> Operation[list[R]]:
    """Run admin operations in parallel and send their requests together. The first error cancels all of them."""
    found: dict[int, R] = {}
    steps: dict[int, list[Ask] | Pause] = {}

    def advance(index: int, answers: Sequence[Any] | None) -> None:
        operation = operations[index]
        try:
            steps[index] = next(operation) if answers is None else operation.send(answers)
        except StopIteration as end:
            steps.pop(index, None)
            found[index] = end.value

    for index in range(len(operations)):
        advance(index, None)
    while steps:
        asking = {index: step for index, step in steps.items() if isinstance(step, list)}
        if asking:
            answers = yield [ask for asks in asking.values() for ask in asks]
            at = 0
            for index, asks in asking.items():
                advance(index, answers[at : at + len(asks)])
                at += len(asks)
            continue
        yield Pause(max(step.attempt for step in steps.values() if isinstance(step, Pause)))
        for index in list(steps):
            advance(index, [])
    return [found[index] for index in range(len(operations))]


def is_transient(code: int) -> bool:
    return code != 0 and error_code(code).retriable and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


_TOPIC: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
_ID: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_CLUSTER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED

REQUIRED_OPERATIONS: Final[Mapping[str, Mapping[ErrorCode, str]]] = MappingProxyType(
    {
        "create_topics": {_TOPIC: "CREATE"},
        "delete_topics": {_TOPIC: "DELETE"},
        "create_partitions": {_TOPIC: "ALTER"},
        "describe_topics": {_TOPIC: "DESCRIBE"},
        "list_offsets": {_TOPIC: "DESCRIBE"},
        "list_ends": {_TOPIC: "DESCRIBE"},
        "first_records": {_TOPIC: "READ"},
        "delete_records": {_TOPIC: "DELETE"},
        "describe_configs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "DESCRIBE_CONFIGS"),
        "alter_configs": dict.fromkeys((_TOPIC, _GROUP, _CLUSTER), "ALTER_CONFIGS"),
        "elect_leaders": {_CLUSTER: "ALTER"},
        "reassign_partitions": {_CLUSTER: "ALTER"},
        "list_reassignments": {_CLUSTER: "DESCRIBE"},
        "describe_log_dirs": {_CLUSTER: "DESCRIBE"},
        "describe_transactions": {_ID: "DESCRIBE"},
        "fence_producers": {_ID: "WRITE"},
        "describe_producers": {_TOPIC: "READ"},
        "abort_transaction": {_TOPIC: "DESCRIBE", _CLUSTER: "ALTER"},
        "describe_groups": {_GROUP: "DESCRIBE"},
        "delete_groups": {_GROUP: "DELETE"},
        "list_group_offsets": {_GROUP: "DESCRIBE", _TOPIC: "DESCRIBE"},
        "list_offsets_of_groups": {_GROUP: "DESCRIBE"},
        "alter_group_offsets": {_GROUP: "READ", _TOPIC: "READ"},
        "remove_group_members": {_GROUP: "READ"},
        "delete_group_offsets": {_GROUP: "DELETE", _TOPIC: "READ"},
        "describe_acls": {_CLUSTER: "DESCRIBE"},
        "create_acls": {_CLUSTER: "ALTER"},
        "delete_acls": {_CLUSTER: "ALTER"},
        "describe_user_scram_credentials": {_CLUSTER: "DESCRIBE"},
        "alter_user_scram_credentials": {_CLUSTER: "ALTER"},
        "describe_client_quotas": {_CLUSTER: "DESCRIBE_CONFIGS"},
        "alter_client_quotas": {_CLUSTER: "ALTER_CONFIGS"},
    }
)
"""ACL operations that each admin call needs, by type of resource.

Calls that omit denied items from their results are not in the mapping.
"""


def explain_denials(config: ClientConfig, call: str, about: str, operation: Operation[R]) -> Operation[R]:
    """Run an admin operation. Authorization errors name the missing ACL and the command that creates the ACL.

    ``about``: group id, for calls that return results for partitions of a group.
    """
    try:
        found = yield from operation
    except ApiError as error:
        raise _explained(config, call, about, error) from None
    if isinstance(found, Results):
        for item, refused in found.errors.items():
            found.errors[item] = _explained(config, call, _name(refused, item, about), refused)
    return found


def _explained(config: ClientConfig, call: str, name: str, error: KohortError) -> KohortError:
    if not isinstance(error, ApiError) or error.code not in DENIED_RESOURCES:
        return error
    operation = REQUIRED_OPERATIONS.get(call, {}).get(error.code, "")
    advice = missing_right(config, DENIED_RESOURCES[error.code], operation, name)
    return ApiError(error.code, error.message.rstrip(".") + advice) if advice else error


def _name(error: KohortError, item: Any, about: str) -> str:
    if isinstance(item, ConfigResource):
        return item.name
    if isinstance(item, PartitionOffset):
        item = item.partition
    if isinstance(item, TopicPartition):
        return item.topic if isinstance(error, ApiError) and error.code is _TOPIC else about
    return item if isinstance(item, str) else about

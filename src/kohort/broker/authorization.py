"""Rights of a client, and guards that check the rights before a handler runs (protocol/security.md#checks).

With an authorizer, the guard of an API removes entries about denied resources from the request. The handler serves the
remaining entries, and errors for the denied ones are added to its response. If no entry remains, the handler does not
run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.security.acls import ALL_OPERATIONS, CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.schema import Message

T = TypeVar("T")
Amend = Callable[[Any], Message | Steps[Message]]
"""Function that adds errors for denied resources to a handler's response, or removes hidden resources from it."""
CHECK_US: Final = 5
REFUSE_US: Final = 1.5
TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
ID_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
CLUSTER_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
DENIAL_TEXTS: Final = {
    TOPIC_DENIED: "Topic authorization failed.",
    GROUP_DENIED: "Group authorization failed.",
    ID_DENIED: "Transactional Id authorization failed.",
    CLUSTER_DENIED: "Cluster authorization failed.",
}


@dataclass(frozen=True, slots=True)
class GuardResult:
    """Result of an authorization guard: a response to send, or a function that changes the handler's response."""

    answer: Message | None = None
    """Response to a request whose resources are all denied."""
    amend: Amend | None = None
    closing: str | None = None
    """Reason to close the connection after the handler, if denials cannot be reported (acks=0 has no response)."""


PASSED: Final = GuardResult()


@dataclass(frozen=True, slots=True, eq=False)
class Rights:
    """Rights of the client that sent a request. Without an authorizer each client has all rights."""

    state: BrokerState
    request: Request

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str | None, *, quietly: bool = False
    ) -> bool:
        """Return True if the client may do ``operation`` on the resource.

        ``name`` of None: on at least one resource of the type, existing or not (KIP-679). ``quietly``: do not log a
        denial, because a different right may suffice.
        """
        access = self.state.access
        if access is None:
            return True
        caller = self.request.caller
        decision = access.decide(caller.principal, caller.host, operation, resource_type, name)
        if not decision.allowed and not quietly:
            self.state.audit.denied(self.request, operation, resource_type, name, decision)
        return decision.allowed

    def may_on_cluster(self, operation: Operation, *, quietly: bool = False) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def operations_of(self, resource_type: ResourceType, name: str) -> int:
        """Return the client's authorized operations on a resource, as a bit field (KIP-430)."""
        if self.state.access is None:
            return ALL_OPERATIONS[resource_type]
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.may(operation, resource_type, name, quietly=True)
        )

    def operations_of_cluster(self) -> int:
        """Return the client's authorized operations on the cluster as a bit field, 0 without DESCRIBE."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations_of(ResourceType.CLUSTER, CLUSTER_NAME)

    def authorized(
        self,
        operation: Operation,
        resource_type: ResourceType,
        items: Iterable[T],
        name_of: Callable[[T], str | None] | None = None,
        *,
        by_id: bool = False,
    ) -> Steps[tuple[list[T], list[T]]]:
        """Split request entries into allowed and denied ones, by the right to do ``operation`` on their resource.

        An entry is a resource name, or ``name_of`` returns its resource name. ``by_id``: entries have a ``topic_id``;
        unknown ids are allowed, as the handler rejects them.
        """
        pace = Pace()
        known: dict[str, bool] = {}
        allowed: list[T] = []
        denied: list[T] = []
        name_of = name_of or (self._topic_name if by_id else _name)
        for item in items:
            name = name_of(item)
            if name is not None and name not in known:
                known[name] = self.may(operation, resource_type, name)
            (allowed if name is None or known[name] else denied).append(item)
            if pace.is_due(CHECK_US):
                yield
        return allowed, denied

    def _topic_name(self, item: Any) -> str | None:
        return self.topic_name(item.topic_id)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.state.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def replace_fields(self, **fields: Any) -> None:
        """Replace fields of the request in a copy for the handler; the original request stays unchanged."""
        made = copy(self.request.message)
        for name, value in fields.items():
            setattr(made, name, value)
        self.request.message = made


def _name(item: Any) -> str:
    name: str = item if isinstance(item, str) else item.name
    return name


Guard = Callable[[Rights], GuardResult | Steps[GuardResult]]


def unguarded(_checking: Rights) -> GuardResult:
    """Let any client send the request: the API needs no right, or its handler checks each resource."""
    return PASSED


@dataclass(frozen=True, slots=True)
class Denials:
    """Response entries for denied resources of a request."""

    request_field: str
    response_field: str
    items: list[Any]
    """Response entries, each with the error of a denied resource."""

    def add(self, answer: Message) -> Message:
        """Return the handler's response, with its entries before the error entries.

        The list of errors is extended in place: it may have a million entries.
        """
        self.items[:0] = getattr(answer, self.response_field)
        setattr(answer, self.response_field, self.items)
        return answer


def serve_allowed(rights: Rights, allowed: list[Any], refused: Denials, response: type[Message]) -> GuardResult:
    """Let the handler serve the allowed entries of a request; add errors for the denied entries to the response."""
    if not refused.items:
        return PASSED
    if not allowed:
        return GuardResult(answer=refused.add(response()))
    rights.replace_fields(**{refused.request_field: allowed})
    return GuardResult(amend=refused.add)


def refused_by_topic(
    topics: Iterable[Any],
    partitions_of: Callable[[Any], Iterable[Any]],
    refuse: Callable[[Any], Message],
    gather: Callable[[Any, list[Any]], T],
) -> Steps[list[T]]:
    """Build response entries of denied topics, with an error for each requested partition."""
    pace = Pace(goes_on=True)
    entries = []
    for topic in topics:
        partitions = []
        for one in partitions_of(topic):
            partitions.append(refuse(one))
            if pace.is_due(REFUSE_US):
                yield
        entries.append(gather(topic, partitions))
        if pace.is_due(REFUSE_US):
            yield
    return entries


def filter_visible(items: list[T], is_visible: Callable[[T], bool]) -> Steps[list[T]]:
    pace = Pace()
    kept = []
    for item in items:
        if is_visible(item):
            kept.append(item)
        if pace.is_due(CHECK_US):
            yield
    return kept


@dataclass(frozen=True, slots=True)
class TopicsRule:
    """Authorization guard of an API whose request and response have an array ``topics``."""

    operation: Operation
    response: type[Message]
    refuse: Callable[[Any], Message]
    gather: Callable[[Any, list[Any]], Message]
    name_of: Callable[[Any], str] = lambda topic: topic.name
    partitions_of: Callable[[Any], Iterable[Any]] = lambda topic: topic.partitions

    def __call__(self, rights: Rights) -> Steps[GuardResult]:
        topics = rights.request.message.topics
        allowed, denied = yield from rights.authorized(self.operation, ResourceType.TOPIC, topics, self.name_of)
        refused = yield from refused_by_topic(denied, self.partitions_of, self.refuse, self.gather)
        return serve_allowed(rights, allowed, Denials("topics", "topics", refused), self.response)


def guard_cluster(operation: Operation, refuse: Callable[[Any, int, str], Message | Steps[Message]]) -> Guard:
    """Return a guard that requires the right to do one operation on the cluster.

    ``refuse(request, code, message)`` builds the response to a client without the right.
    """

    def guard(rights: Rights) -> Steps[GuardResult]:
        if rights.may_on_cluster(operation):
            return PASSED
        text = f"{rights.request.caller.principal} needs {operation.name} on Cluster:{CLUSTER_NAME}"
        refused = refuse(rights.request.message, CLUSTER_DENIED, text)
        return GuardResult(refused if isinstance(refused, Message) else (yield from refused))

    return guard

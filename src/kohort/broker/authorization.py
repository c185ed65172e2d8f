"""Rights of a caller, and the guards that stand before the handlers (protocol/security.md#checks).

Where there is an authorizer, the guard of an API takes out of a request what its caller may not do, and builds the
answer for that. The handler serves the rest and knows nothing of it; the refused part is added to its answer. A request
without an allowed part does not reach the handler.
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
"""Adds refused entries to the handler's answer, or removes hidden ones from it."""
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
"""Kafka's own messages."""


@dataclass(frozen=True, slots=True)
class GuardResult:
    """Result of a guard."""

    answer: Message | None = None
    """The answer, if nothing is left for the handler."""
    amend: Amend | None = None
    """Change of the handler's answer."""
    closing: str | None = None
    """Reason to close the connection after the handler, if the request has no answer."""


PASSED: Final = GuardResult()


@dataclass(frozen=True, slots=True, eq=False)
class Rights:
    """One request, and the rights of its caller. Without an authorizer any caller may do anything."""

    state: BrokerState
    request: Request

    def may(
        self, operation: Operation, resource_type: ResourceType, name: str | None, *, quietly: bool = False
    ) -> bool:
        """Tell whether the caller may do ``operation`` on the resource; with None: on at least one resource of the
        type, whether it exists or not (KIP-679).

        ``quietly``: a denial is no line of the audit, since another right may do as well.
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
        """Return the operations that the caller may do on a resource, as the bit field of answers (KIP-430)."""
        if self.state.access is None:
            return ALL_OPERATIONS[resource_type]
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.may(operation, resource_type, name, quietly=True)
        )

    def operations_of_cluster(self) -> int:
        """Return the operations on the cluster; 0 without the right to describe it."""
        if not self.may_on_cluster(Operation.DESCRIBE):
            return 0
        return self.operations_of(ResourceType.CLUSTER, CLUSTER_NAME)

    def authorized(
        self, operation: Operation, resource_type: ResourceType, items: Iterable[T], name_of: Callable[[T], str | None]
    ) -> Steps[tuple[list[T], list[T]]]:
        """Return the items on whose resource the caller may do ``operation``, and the others.

        An item without a name counts as allowed: its handler reports that there is no such thing.
        """
        pace = Pace()
        known: dict[str, bool] = {}
        allowed: list[T] = []
        denied: list[T] = []
        for item in items:
            name = name_of(item)
            is_allowed = True
            if name is not None:
                if name not in known:
                    known[name] = self.may(operation, resource_type, name)
                is_allowed = known[name]
            (allowed if is_allowed else denied).append(item)
            if pace.is_due(CHECK_US):
                yield
        return allowed, denied

    def cluster_message(self, operation: Operation) -> str:
        """Return the error message for a missing right to the cluster."""
        return f"{self.request.caller.principal} needs {operation.name} on Cluster:{CLUSTER_NAME}"

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.state.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def replace_fields(self, **fields: Any) -> None:
        """Replace fields of the request before the handler reads it."""
        made = copy(self.request.message)
        for name, value in fields.items():
            setattr(made, name, value)
        self.request.message = made


Guard = Callable[[Rights], GuardResult | Steps[GuardResult]]


def unguarded(_checking: Rights) -> GuardResult:
    """Pass a request that any client may send, or whose handler checks each resource itself."""
    return PASSED


@dataclass(frozen=True, slots=True)
class Denials:
    """Refused items of one array."""

    request_field: str
    """The array of the request."""
    response_field: str
    """The array of the answer."""
    items: list[Any]
    """Their entries of the answer, which takes over the list."""

    def add(self, answer: Any) -> Message:
        """Add the entries to an answer without a copy: there may be a million."""
        self.items[:0] = getattr(answer, self.response_field)
        setattr(answer, self.response_field, self.items)
        made: Message = answer
        return made


def serve_allowed(rights: Rights, allowed: list[Any], refused: Denials, response: type[Message]) -> GuardResult:
    """Have the handler serve the allowed items, if there are any, and add the refused ones to its answer."""
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
    """Return the entries of topics whose partitions are all refused."""
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
    """Return the items of an answer that the caller may see."""
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
    """Guard of an API whose request and answer have an array ``topics``, with an entry for each topic."""

    operation: Operation
    response: type[Message]
    refuse: Callable[[Any], Message]
    """Entry of a refused partition."""
    gather: Callable[[Any, list[Any]], Message]
    """Entry of a topic, from those of its partitions."""
    name_of: Callable[[Any], str] = lambda topic: topic.name
    partitions_of: Callable[[Any], Iterable[Any]] = lambda topic: topic.partitions

    def __call__(self, rights: Rights) -> Steps[GuardResult]:
        topics = rights.request.message.topics
        allowed, denied = yield from rights.authorized(self.operation, ResourceType.TOPIC, topics, self.name_of)
        refused = yield from refused_by_topic(denied, self.partitions_of, self.refuse, self.gather)
        return serve_allowed(rights, allowed, Denials("topics", "topics", refused), self.response)


def guard_cluster(operation: Operation, refuse: Callable[[Any, int, str], Message | Steps[Message]]) -> Guard:
    """Return the guard of an API that takes one right to the cluster.

    ``refuse(request, code, message)`` builds the answer for a caller without it.
    """

    def guard(rights: Rights) -> Steps[GuardResult]:
        if rights.may_on_cluster(operation):
            return PASSED
        refused = refuse(rights.request.message, CLUSTER_DENIED, rights.cluster_message(operation))
        return GuardResult(refused if isinstance(refused, Message) else (yield from refused))

    return guard

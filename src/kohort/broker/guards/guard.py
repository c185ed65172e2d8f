"""What stands before a handler where there is an authorizer: a guard.

A guard takes out of a request what its caller may not do, and says what is answered for that. The handler serves the
rest and knows nothing of it; what was taken out is added to its answer. Where nothing is left, the handler is not asked
(protocol/security.md#checks).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kohort.broker.authorization import CHECK_US, may, may_on_cluster, may_on_some, operations_of, refusal_words, sifted
from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.security.acls import CLUSTER_NAME, Operation, ResourceType
from kohort.steps import Pace, Steps
from kohort.wire.schema import Message

T = TypeVar("T")
Amend = Callable[[Any], Message | Steps[Message]]
"""Adds to an answer what was refused at once, or takes away what must not be told."""
REFUSE_US: Final = 1.5


@dataclass(frozen=True, slots=True)
class Guarded:
    """What a guard found."""

    answer: Message | None = None
    """The answer where the handler has nothing to do."""
    amend: Amend | None = None
    """What becomes of the handler's answer."""
    closing: str | None = None
    """Why the connection is closed once the handler is done, where the request has no answer."""


PASSED: Final = Guarded()


@dataclass(frozen=True, slots=True, eq=False)
class Checking:
    """One request that is being checked."""

    state: BrokerState
    request: Request

    def may(self, operation: Operation, resource_type: ResourceType, name: str, *, quietly: bool = False) -> bool:
        return may(self.state, self.request, operation, resource_type, name, quietly=quietly)

    def may_on_cluster(self, operation: Operation, *, quietly: bool = False) -> bool:
        return may_on_cluster(self.state, self.request, operation, quietly=quietly)

    def may_on_some(self, operation: Operation, resource_type: ResourceType) -> bool:
        return may_on_some(self.state, self.request, operation, resource_type)

    def operations_of(self, resource_type: ResourceType, name: str) -> int:
        return operations_of(self.state, self.request, resource_type, name)

    def sifted(
        self,
        operation: Operation,
        resource_type: ResourceType,
        items: Sequence[T],
        name_of: Callable[[T], str | None],
    ) -> Steps[tuple[list[T], list[T]]]:
        """Return the items on whose resource the caller may do ``operation``, and the others."""
        return sifted(self.state, self.request, operation, resource_type, items, name_of)

    def cluster_words(self, operation: Operation) -> str:
        """Return who lacks which right to the cluster."""
        return refusal_words(self.request, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of a topic; None where there is none of this id."""
        topic = self.state.topics.by_id(topic_id)
        return None if topic is None else topic.name

    def keep(self, **fields: Any) -> None:
        """Have the handler see the request with these fields changed."""
        made = copy(self.request.message)
        for name, value in fields.items():
            setattr(made, name, value)
        self.request.message = made


Guard = Callable[[Checking], Guarded | Steps[Guarded]]


def unguarded(_checking: Checking) -> Guarded:
    """Let a request pass: everybody may ask it, or its handler asks for each thing that it comes to."""
    return PASSED


@dataclass(frozen=True, slots=True)
class Denials:
    """What is refused of an array of a request, and where the answer has it."""

    asked: str
    """The array of the request."""
    answered: str
    """The array of the answer."""
    items: list[Any]
    """What is answered for them; the answer's own from then on."""

    def add(self, answer: Any) -> Message:
        """Add it to the answer; what may be a million items is not copied."""
        self.items[:0] = getattr(answer, self.answered)
        setattr(answer, self.answered, self.items)
        made: Message = answer
        return made


def without(checking: Checking, allowed: list[Any], refused: Denials, response: type[Message]) -> Guarded:
    """Have the handler serve what is allowed, if there is something, and add what is refused."""
    if not refused.items:
        return PASSED
    if not allowed:
        return Guarded(answer=refused.add(response()))
    checking.keep(**{refused.asked: allowed})
    return Guarded(amend=refused.add)


def refused_by_topic(
    topics: Iterable[Any],
    partitions_of: Callable[[Any], Iterable[Any]],
    refuse: Callable[[Any], Message],
    gather: Callable[[Any, list[Any]], T],
) -> Steps[list[T]]:
    """Return what is answered for topics of which no partition may be served."""
    pace = Pace(goes_on=True)
    told = []
    for topic in topics:
        partitions = []
        for one in partitions_of(topic):
            partitions.append(refuse(one))
            if pace.is_due(REFUSE_US):
                yield
        told.append(gather(topic, partitions))
        if pace.is_due(REFUSE_US):
            yield
    return told


def kept(items: list[T], is_kept: Callable[[T], bool]) -> Steps[list[T]]:
    """Return the items of an answer that may be told."""
    pace = Pace()
    told = []
    for item in items:
        if is_kept(item):
            told.append(item)
        if pace.is_due(CHECK_US):
            yield
    return told


@dataclass(frozen=True, slots=True)
class ArrayRule:
    """A request of which each item of one array is about a resource, and is answered for itself."""

    operation: Operation
    resource_type: ResourceType
    asked: str
    name_of: Callable[[Any], str]
    answered: str
    response: type[Message]
    refuse: Callable[[Any], Message]
    """The answer for a partition that may not be served."""
    gather: Callable[[Any, list[Any]], Message]
    """The answer for an item, of those for its partitions."""
    partitions_of: Callable[[Any], Iterable[Any]] = lambda topic: topic.partitions
    or_on_cluster: Operation | None = None
    """A right to the cluster that does as well; it is asked for first, without a line in the audit."""


def guard_array(rule: ArrayRule) -> Guard:
    """Return the guard of such an API."""

    def guard(checking: Checking) -> Steps[Guarded]:
        if rule.or_on_cluster is not None and checking.may_on_cluster(rule.or_on_cluster, quietly=True):
            return PASSED
        items = getattr(checking.request.message, rule.asked)
        allowed, denied = yield from checking.sifted(rule.operation, rule.resource_type, items, rule.name_of)
        told = yield from refused_by_topic(denied, rule.partitions_of, rule.refuse, rule.gather)
        return without(checking, allowed, Denials(rule.asked, rule.answered, told), rule.response)

    return guard


def guard_cluster(operation: Operation, refuse: Callable[[Any, int, str], Message | Steps[Message]]) -> Guard:
    """Return the guard of an API that takes one right to the cluster; ``refuse(message, code, words)`` is its answer
    to whoever has not got it."""

    def guard(checking: Checking) -> Steps[Guarded]:
        if checking.may_on_cluster(operation):
            return PASSED
        words = checking.cluster_words(operation)
        refused = refuse(checking.request.message, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, words)
        return Guarded(refused if isinstance(refused, Message) else (yield from refused))

    return guard

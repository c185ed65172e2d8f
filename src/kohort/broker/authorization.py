"""What is asked before anything is done: may the caller do this (protocol/security.md#checks)?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from kohort.broker.request import Request
from kohort.broker.state import BrokerState
from kohort.security.acls import ALL_OPERATIONS, CLUSTER_NAME, OPERATIONS_OF, Operation, ResourceType
from kohort.steps import Pace, SpreadDict, Steps

T = TypeVar("T")
CHECK_US: Final = 5
NO_OPERATIONS: Final = 0


def may(
    state: BrokerState,
    request: Request,
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    quietly: bool = False,
) -> bool:
    """Tell whether the caller may do ``operation`` on the resource; always where there is no authorizer.

    ``quietly``: a denial is no line of the audit, since another right may do as well.
    """
    return state.access is None or _decide(state, request, operation, resource_type, name, quietly=quietly)


def may_on_cluster(state: BrokerState, request: Request, operation: Operation, *, quietly: bool = False) -> bool:
    """Tell whether the caller may do ``operation`` on the cluster."""
    return may(state, request, operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)


def may_on_some(state: BrokerState, request: Request, operation: Operation, resource_type: ResourceType) -> bool:
    """Tell whether the caller may do ``operation`` on at least one resource of the type, there or not (KIP-679)."""
    return state.access is None or _decide(state, request, operation, resource_type, None, quietly=False)


def _decide(
    state: BrokerState,
    request: Request,
    operation: Operation,
    resource_type: ResourceType,
    name: str | None,
    *,
    quietly: bool,
) -> bool:
    assert state.access is not None
    caller = request.caller
    decision = state.access.decide(caller.principal, caller.host, operation, resource_type, name)
    if not decision.allowed and not quietly:
        state.audit.denied(request, operation, resource_type, name, decision)
    return decision.allowed


def operations_of(state: BrokerState, request: Request, resource_type: ResourceType, name: str) -> int:
    """Return what the caller may do to a resource, as the bits that answers have (KIP-430)."""
    if state.access is None:
        return ALL_OPERATIONS[resource_type]
    return sum(
        1 << operation
        for operation in OPERATIONS_OF[resource_type]
        if may(state, request, operation, resource_type, name, quietly=True)
    )


def operations_of_cluster(state: BrokerState, request: Request) -> int:
    """Return what the caller may do to the cluster; nothing is told to who may not describe it."""
    if not may_on_cluster(state, request, Operation.DESCRIBE):
        return NO_OPERATIONS
    return operations_of(state, request, ResourceType.CLUSTER, CLUSTER_NAME)


def refusal_words(request: Request, operation: Operation, resource_type: ResourceType, name: str) -> str:
    """Return who lacks which right."""
    kind = "".join(word.capitalize() for word in resource_type.name.split("_"))
    return f"{request.caller.principal} needs {operation.name} on {kind}:{name}"


def sifted(
    state: BrokerState,
    request: Request,
    operation: Operation,
    resource_type: ResourceType,
    items: Iterable[T],
    name_of: Callable[[T], str | None],
) -> Steps[tuple[list[T], list[T]]]:
    """Return the items on whose resource the caller may do ``operation``, and the others.

    An item without a name is among the first: that there is no such thing is for its handler to say.
    """
    pace = Pace()
    known: SpreadDict[str, bool] = SpreadDict()
    allowed: list[T] = []
    denied: list[T] = []
    for item in items:
        name = name_of(item)
        is_allowed = True
        if name is not None:
            part = known.part(name)
            found = part.get(name)
            if found is None:
                found = part[name] = may(state, request, operation, resource_type, name)
            is_allowed = found
        (allowed if is_allowed else denied).append(item)
        if pace.is_due(CHECK_US):
            yield
    yield from known.let_go(pace)
    return allowed, denied

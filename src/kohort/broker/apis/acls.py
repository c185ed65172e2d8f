"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31), versions 1-3. KIP-11, KIP-140, KIP-290.

As in Kafka, each API returns SECURITY_DISABLED without an authorizer, and an unknown enum value closes the connection.
All changes of one request are durable, in one write, before its response (protocol/security.md#acls).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final, TypeVar

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import REFUSE_US, guard_cluster
from kohort.broker.cluster.access_control import ACLS_MOST, AccessControl, check_acl
from kohort.broker.request import AnswerInSteps, CloseConnection, Request, refusal_of
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import Acl, AclChoice, Operation, PatternType, Permission, ResourceType
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import acls as wire
from kohort.wire.schema import Message

E = TypeVar("E", bound=IntEnum)
CODE: Final = ErrorCode.SECURITY_DISABLED
WORDS: Final = "No Authorizer is configured on the broker"
TAKEN_MOST: Final = 2 * ACLS_MOST
"""Maximum number of ACLs that one DeleteAcls request may match, over all its filters."""
READ_US: Final = 8
ITEM_US: Final = 1


def describe_acls(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeAclsRequest = request.message
    if state.access is None:
        return wire.DescribeAclsResponse(error_code=CODE, error_message=WORDS)
    choice = _choice(message)
    pace = Pace()
    found: dict[tuple[int, str, int], wire.DescribeAclsResource] = {}
    for acl in (yield from _taken(state.access, choice, pace)):
        key = acl.resource_type, acl.name, acl.pattern
        if key not in found:
            found[key] = wire.DescribeAclsResource(
                resource_type=acl.resource_type, resource_name=acl.name, pattern_type=acl.pattern
            )
        found[key].acls.append(
            wire.AclDescription(
                principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
            )
        )
        if pace.is_due(ITEM_US):
            yield
    return wire.DescribeAclsResponse(error_message=None, resources=list(found.values()))


def create_acls(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.CreateAclsRequest = request.message
    pace = Pace()
    if state.access is None:
        return (yield from _none_created(message, CODE, WORDS))
    results: list[wire.AclCreationResult] = []
    valid: list[Acl] = []
    made = wire.AclCreationResult(error_message=None)
    for creation in message.creations:
        acl = _acl(creation)
        try:
            check_acl(acl)
        except ApiError as error:
            results.append(wire.AclCreationResult(**refusal_of(error).fields))
        else:
            valid.append(acl)
            results.append(made)
        if pace.is_due(READ_US):
            yield
    try:
        state.access.change(add=valid)
    except ApiError as error:
        refused = wire.AclCreationResult(**refusal_of(error).fields)
        results = [refused if result is made else result for result in results]
    return wire.CreateAclsResponse(results=results)


def delete_acls(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DeleteAclsRequest = request.message
    pace = Pace()
    if state.access is None:
        return (yield from _none_deleted(message, CODE, WORDS))
    choices = [_choice(filter_) for filter_ in message.filters]
    matching: list[list[Acl]] = []
    count = 0
    for choice in choices:
        acls = yield from _taken(state.access, choice, pace)
        matching.append(acls)
        count += len(acls)
        if count > TAKEN_MOST:
            text = f"the filters match more than {TAKEN_MOST} ACLs"
            return (yield from _none_deleted(message, ErrorCode.POLICY_VIOLATION, text))
    try:
        state.access.change(remove=[acl for acls in matching for acl in acls])
    except ApiError as error:
        refusal = refusal_of(error)
        return (yield from _none_deleted(message, refusal.code, refusal.message))
    results = []
    for acls in matching:
        results.append(wire.DeleteAclsFilterResult(error_message=None, matching_acls=[_deleted(acl) for acl in acls]))
        if pace.is_due(ITEM_US * len(acls)):
            yield
    return wire.DeleteAclsResponse(filter_results=results)


def _taken(access: AccessControl, choice: AclChoice, pace: Pace) -> Steps[list[Acl]]:
    matching = []
    for acl in access:
        if choice.takes(acl):
            matching.append(acl)
        if pace.is_due(ITEM_US):
            yield
    return matching


def _deleted(acl: Acl) -> wire.DeleteAclsMatchingAcl:
    return wire.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _acl(creation: wire.AclCreation) -> Acl:
    return Acl(
        _known(ResourceType, creation.resource_type),
        creation.resource_name,
        _known(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _known(Operation, creation.operation),
        _known(Permission, creation.permission_type),
    )


def _choice(filter_: wire.DescribeAclsRequest | wire.AclFilter) -> AclChoice:
    return AclChoice(
        _known(ResourceType, filter_.resource_type_filter),
        filter_.resource_name_filter,
        _known(PatternType, filter_.pattern_type_filter),
        filter_.principal_filter,
        filter_.host_filter,
        _known(Operation, filter_.operation),
        _known(Permission, filter_.permission_type),
    )


def _known(of: type[E], value: Any) -> E:
    """Return the enum member for a value of a request; close the connection if the value is unknown, as Kafka does."""
    try:
        found = of(value)
    except ValueError:
        found = of(0)
    if not found:
        raise CloseConnection(f"{of.__name__} {value} is unknown", "acls")
    return found


def _none_created(message: wire.CreateAclsRequest, code: int, text: str) -> Steps[Message]:
    refused = wire.AclCreationResult(error_code=code, error_message=text)
    return wire.CreateAclsResponse(results=(yield from each(message.creations, lambda _: refused, REFUSE_US)))


def _none_deleted(message: wire.DeleteAclsRequest, code: int, text: str) -> Steps[Message]:
    refused = wire.DeleteAclsFilterResult(error_code=code, error_message=text)
    return wire.DeleteAclsResponse(filter_results=(yield from each(message.filters, lambda _: refused, REFUSE_US)))


DESCRIBE_ACLS = BrokerApi(
    wire.DescribeAclsRequest,
    describe_acls,
    guard_cluster(
        Operation.DESCRIBE, lambda _message, code, text: wire.DescribeAclsResponse(error_code=code, error_message=text)
    ),
    Cost(AnswerBound.STATE),
)
CREATE_ACLS = BrokerApi(
    wire.CreateAclsRequest, create_acls, guard_cluster(Operation.ALTER, _none_created), Cost(AnswerBound.REQUEST)
)
DELETE_ACLS = BrokerApi(
    wire.DeleteAclsRequest, delete_acls, guard_cluster(Operation.ALTER, _none_deleted), Cost(AnswerBound.REQUEST)
)

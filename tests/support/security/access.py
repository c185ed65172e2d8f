"""ACLs of a cluster, set by raw requests at the unrestricted listener."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kohort.security.acls import Operation, PatternType, Permission, ResourceType
from kohort.wire.messages.acls import (
    AclCreation,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from support.raw.raw_client import RawClient
from support.waiting import eventually

VERSION = 3
EVERYTHING = {
    ResourceType.TOPIC: "*",
    ResourceType.GROUP: "*",
    ResourceType.CLUSTER: "kafka-cluster",
    ResourceType.TRANSACTIONAL_ID: "*",
}


class Grant(NamedTuple):
    """One ACL for any host."""

    resource_type: ResourceType
    name: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{self.permission.name} {self.operation.name} on {self.resource_type.name} {self.name}"


def grant(setup: str, user: str, grants: Iterable[Grant]) -> None:
    """Grant ACLs to ``user``; return when the contacted broker knows them."""
    remaining = list(grants)
    creations = [
        AclCreation(
            resource_type=g.resource_type, resource_name=g.name, resource_pattern_type=g.pattern,
            principal=f"User:{user}", host="*", operation=g.operation, permission_type=g.permission,
        )
        for g in remaining
    ]  # fmt: skip
    with RawClient(setup) as wire:
        results = wire.ask(CreateAclsRequest(creations=creations), VERSION).results
        assert [result.error_code for result in results] == [0] * len(remaining), results
        eventually(lambda: granted(wire, user) >= set(remaining), f"{user} has not {remaining}")


def all_of(user: str) -> dict[str, Any]:
    """Return the filter fields that match all ACLs of ``user``."""
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": f"User:{user}",
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    }


def take_all(setup: str, user: str) -> None:
    """Remove all ACLs of ``user``; return when the contacted broker has removed them."""
    filter_ = AclFilter(**all_of(user))
    with RawClient(setup) as wire:
        (result,) = wire.ask(DeleteAclsRequest(filters=[filter_]), VERSION).filter_results
        assert result.error_code == 0, result
        eventually(lambda: not granted(wire, user), f"{user} still has ACLs")


def granted(wire: RawClient, user: str) -> set[Grant]:
    request = DescribeAclsRequest(**all_of(user))
    answer = wire.ask(request, VERSION)
    assert answer.error_code == 0, answer
    return {
        Grant(
            ResourceType(r.resource_type),
            r.resource_name,
            Operation(acl.operation),
            Permission(acl.permission_type),
            PatternType(r.pattern_type),
        )
        for r in answer.resources
        for acl in r.acls
    }


def allow_all(setup: str, user: str) -> None:
    """Allow ``user`` every operation."""
    grant(setup, user, [Grant(kind, name, Operation.ALL) for kind, name in EVERYTHING.items()])

"""Operations, resources, ACLs and ACL filters, with Kafka's numbers (KIP-11, KIP-290)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

USER: Final = "User"


class Principal(NamedTuple):
    """Kafka principal. Authenticated clients have type ``User``; principals in ACLs may have other types."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")


def user(name: str) -> Principal:
    return Principal(USER, name)


def parse_principal(text: str) -> Principal:
    kind, colon, name = text.partition(":")
    if not colon:
        raise ValueError(
            f"Could not parse principal from `{text}` (no colon is present separating the principal type from the "
            "principal name)"
        )
    return Principal(kind, name)


CLUSTER_NAME: Final = "kafka-cluster"
WILDCARD: Final = "*"
"""Resource name of an ACL for all resources of a type; host of an ACL for all hosts."""
NOT_REQUESTED: Final = -0x80000000
"""Value of the authorized operations in a response if the request did not ask for them (KIP-430)."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PatternType(IntEnum):
    """Pattern types of an ACL's resource name (KIP-290). ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """Rule that allows or denies an operation on a resource for a principal and a host."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"StandardAcl(resourceType={self.resource_type.name}, resourceName={self.name}, "
            f"patternType={self.pattern.name}, principal={self.principal}, host={self.host}, "
            f"operation={self.operation.name}, permissionType={self.permission.name})"
        )


class AclChoice(NamedTuple):
    """Filter of ACLs: None and ANY match all values; pattern MATCH matches each ACL that applies to ``name``."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def takes(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self._takes_pattern(acl)
        )

    def _takes_pattern(self, acl: Acl) -> bool:
        if self.pattern is PatternType.MATCH:
            if self.name is None:
                return True
            if acl.pattern is PatternType.PREFIXED:
                return self.name.startswith(acl.name)
            return acl.name in (self.name, WILDCARD)
        return self.pattern in (PatternType.ANY, acl.pattern) and self.name in (None, acl.name)


IMPLIED_BY: Final[Mapping[Operation, frozenset[Operation]]] = {
    operation: frozenset({operation, Operation.ALL}) for operation in Operation
} | {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.ALL, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALL, Operation.ALTER_CONFIGS}),
}
"""Operations whose allow rules also allow the key. A deny rule applies to its own operation only, or to all."""


def _operations(names: str) -> tuple[Operation, ...]:
    return tuple(Operation[name] for name in names.split())


OPERATIONS_OF: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: _operations("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ResourceType.GROUP: _operations("READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    ResourceType.CLUSTER: _operations(
        "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
    ),
}
"""Operations of each resource type, as reported in responses (KIP-430)."""
ALL_OPERATIONS: Final[Mapping[ResourceType, int]] = {
    of: sum(1 << operation for operation in operations) for of, operations in OPERATIONS_OF.items()
}
"""``OPERATIONS_OF`` as bits: authorized operations in responses of a broker without an authorizer."""

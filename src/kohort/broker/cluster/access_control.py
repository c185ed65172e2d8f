"""ACLs of a cluster, and a cache of authorizer decisions.

The ACLs are the section ``acls`` of ``kohort-security.json``. A change is durable before its response and holds on all
nodes (protocol/security.md#acls).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kohort.broker.cluster.security_store import SECURITY_FILE, SecurityStore
from kohort.config.broker import BrokerConfig
from kohort.errors import ApiError, ConfigError, ErrorCode, StorageError
from kohort.log.storage import MISFITS
from kohort.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
    parse_principal,
)
from kohort.security.authorizer import Authorizer, Decision

SECTION: Final = "acls"
ACLS_MOST: Final = 50_000
"""Maximum number of ACLs; each change rewrites all of them on disk."""
REMEMBERED: Final = 20_000
"""Maximum number of cached authorizer decisions; above it the cache is cleared."""
NAME_MAX: Final = 300
"""Maximum length of a resource name in the cache: unauthenticated clients can invent long names."""


class AccessControl:
    def __init__(self, config: BrokerConfig, store: SecurityStore) -> None:
        """Load the stored ACLs. Raises StorageError for invalid ACLs, ConfigError for invalid ``super.users``."""
        self._store = store
        self._super_users = _super_users(config.super_users)
        self._allow_if_no_acl = config.allow_everyone_if_no_acl_found
        self._acls: dict[Acl, None] = dict.fromkeys(_read(store.section(SECTION)))
        self._authorizer = self._made()
        self._decided: dict[tuple[Principal, str, Operation, ResourceType, str | None], Decision] = {}

    def __iter__(self) -> Iterator[Acl]:
        return iter(tuple(self._acls))

    def __len__(self) -> int:
        return len(self._acls)

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str | None
    ) -> Decision:
        """Return the authorizer's decision on an operation.

        ``name`` of None: the operation on at least one resource of the type.
        """
        key = principal, host, operation, resource_type, name
        known = self._decided.get(key)
        if known is not None:
            return known
        if name is None:
            decided = self._authorizer.decide_on_some(principal, host, operation, resource_type)
        else:
            decided = self._authorizer.decide(principal, host, operation, resource_type, name)
        if name is None or len(name) <= NAME_MAX:
            if len(self._decided) >= REMEMBERED:
                self._decided.clear()
            self._decided[key] = decided
        return decided

    def change(self, add: Iterable[Acl] = (), remove: Iterable[Acl] = ()) -> None:
        removed = frozenset(remove)
        acls = {acl: None for acl in self._acls if acl not in removed} | dict.fromkeys(add)
        if acls == self._acls:
            return
        if len(acls) > max(ACLS_MOST, len(self._acls)):
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"{len(acls)} ACLs exceed the limit of {ACLS_MOST}")
        self._store.replace(SECTION, [_written(acl) for acl in acls])
        self._acls = acls
        self._authorizer = self._made()
        self._decided = {}

    def _made(self) -> Authorizer:
        return Authorizer(self._acls, self._super_users, allow_if_no_acl=self._allow_if_no_acl)


def _super_users(text: str) -> list[Principal]:
    try:
        return [parse_principal(one.strip()) for one in text.split(";") if one.strip()]
    except ValueError as error:
        raise ConfigError(f"super.users: {error}") from None


def _written(acl: Acl) -> dict[str, str]:
    return {
        "resourceType": acl.resource_type.name,
        "resourceName": acl.name,
        "patternType": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permissionType": acl.permission.name,
    }


def _read(section: list[Any]) -> Iterator[Acl]:
    for place, stored in enumerate(section):
        try:
            acl = Acl(
                ResourceType[stored["resourceType"]],
                _text(stored["resourceName"]),
                PatternType[stored["patternType"]],
                _text(stored["principal"]),
                _text(stored["host"]),
                Operation[stored["operation"]],
                Permission[stored["permissionType"]],
            )
            check_acl(acl)
        except (*MISFITS, ApiError) as error:
            raise StorageError(
                f"{SECURITY_FILE} cannot be read: entry {place} of {SECTION!r} is not an ACL ({error!r}). "
                "Repair it: without it, clients may have rights that it denies"
            ) from error
        yield acl


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def check_acl(acl: Acl) -> None:
    """Raise ApiError with Kafka's message for an invalid ACL."""
    for what, value in (
        ("resourceType", acl.resource_type),
        ("patternType", acl.pattern),
        ("operation", acl.operation),
        ("permissionType", acl.permission),
    ):
        if value.name in ("UNKNOWN", "ANY", "MATCH"):
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid {what} {value.name}")
    try:
        parse_principal(acl.principal)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")

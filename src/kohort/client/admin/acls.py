"""ACLs and the admin operations on them (KIP-11, KIP-140, KIP-290).

Names are Kafka's in lower case: ``topic``, ``describe_configs``, ``allow``, ``prefixed``. The spellings of Kafka's
tools, ``DescribeConfigs`` and ``DESCRIBE_CONFIGS``, are accepted, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from kohort.client.admin.operations import Operation, Results, ask, results_of
from kohort.errors import ApiError, UsageError, error_code
from kohort.nearest import did_you_mean
from kohort.security import acls as numbers
from kohort.wire.messages import acls as wire

ANY: Final = "any"


@dataclass(frozen=True, slots=True)
class AclBinding:
    """One ACL: ``AclBinding("topic", "orders", "User:alice", "read")`` lets alice read orders.

    ``principal``: ``User:NAME``, or ``User:*`` for everyone. ``host``: client address, or ``*``.
    ``pattern_type="prefixed"`` matches every name with this prefix; the name ``*`` matches all names. The resource of
    type ``cluster`` is named ``kafka-cluster``. ``permission="deny"`` overrides ``allow``.
    """

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission: str = "allow"
    host: str = "*"
    pattern_type: str = "literal"

    def __post_init__(self) -> None:
        _normalize(self)
        for field in _FIELDS:
            if getattr(self, field) in (ANY, "match"):
                raise UsageError(f"{field}={getattr(self, field)!r} is allowed in filters only, not in an ACL")

    @property
    def filter(self) -> AclBindingFilter:
        """Return the filter that matches exactly this ACL, for ``delete_acls``."""
        return AclBindingFilter(
            self.resource_type,
            self.resource_name,
            self.principal,
            self.operation,
            self.permission,
            self.host,
            self.pattern_type,
        )

    def __str__(self) -> str:
        pattern = "" if self.pattern_type == "literal" else f" ({self.pattern_type})"
        where = "" if self.host == "*" else f" from {self.host}"
        what = f"{self.resource_type} {self.resource_name}{pattern}"
        return f"{self.permission} {self.principal}{where} to {self.operation} {what}"


@dataclass(frozen=True, slots=True)
class AclBindingFilter:
    """Filter of ACLs. An omitted field matches every value, so ``AclBindingFilter()`` matches all ACLs.

    ``pattern_type="match"`` matches every ACL that applies to a resource with the given name: literal ACLs for the
    name, prefixed ACLs for a prefix of the name, and ACLs for ``*``.
    """

    resource_type: str = ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: str = ANY
    permission: str = ANY
    host: str | None = None
    pattern_type: str = ANY

    def __post_init__(self) -> None:
        _normalize(self)


_FIELDS: Final[dict[str, type[IntEnum]]] = {
    "resource_type": numbers.ResourceType,
    "operation": numbers.Operation,
    "permission": numbers.Permission,
    "pattern_type": numbers.PatternType,
}


def _normalize(acl: AclBinding | AclBindingFilter) -> None:
    for field, numbered in _FIELDS.items():
        object.__setattr__(acl, field, _enum_name(field, getattr(acl, field), numbered))


def _enum_name(field: str, value: str, numbered: type[IntEnum]) -> str:
    """Return ``value`` as an enum name in lower case. Raises UsageError for an unknown name."""
    by_letters = {_letters(member.name): member.name.lower() for member in numbered}
    word = by_letters.get(_letters(value)) if isinstance(value, str) else None
    if word is None:
        words = [name for name in by_letters.values() if name != "unknown"]
        near = did_you_mean(str(value).lower(), words)
        raise UsageError(f"{field}={value!r}: expected one of {', '.join(words)}{near}")
    return word


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalpha())


def _number(numbered: type[IntEnum], word: str) -> int:
    return numbered[word.upper()].value


def _word(numbered: type[IntEnum], number: int) -> str:
    return next((member.name.lower() for member in numbered if member == number), "unknown")


def describe_acls(acl_filter: AclBindingFilter) -> Operation[list[AclBinding]]:
    request = wire.DescribeAclsRequest(
        resource_type_filter=_number(numbers.ResourceType, acl_filter.resource_type),
        resource_name_filter=acl_filter.resource_name,
        pattern_type_filter=_number(numbers.PatternType, acl_filter.pattern_type),
        principal_filter=acl_filter.principal,
        host_filter=acl_filter.host,
        operation=_number(numbers.Operation, acl_filter.operation),
        permission_type=_number(numbers.Permission, acl_filter.permission),
    )
    response: wire.DescribeAclsResponse = yield from ask(request)
    if response.error_code:
        raise ApiError(error_code(response.error_code), response.error_message or "DescribeAcls")
    found = [
        _binding(resource.resource_name, resource, acl) for resource in response.resources for acl in resource.acls
    ]
    return sorted(found, key=_order)


def _order(acl: AclBinding) -> tuple[str, ...]:
    what = (acl.resource_type, acl.resource_name, acl.pattern_type)
    return (*what, acl.principal, acl.host, acl.operation, acl.permission)


def create_acls(bindings: Sequence[AclBinding]) -> Operation[Results[AclBinding, None]]:
    creations = [
        wire.AclCreation(
            resource_type=_number(numbers.ResourceType, acl.resource_type),
            resource_name=acl.resource_name,
            resource_pattern_type=_number(numbers.PatternType, acl.pattern_type),
            principal=acl.principal,
            host=acl.host,
            operation=_number(numbers.Operation, acl.operation),
            permission_type=_number(numbers.Permission, acl.permission),
        )
        for acl in bindings
    ]
    response: wire.CreateAclsResponse = yield from ask(wire.CreateAclsRequest(creations=creations))
    answered = zip(bindings, response.results, strict=False)
    return results_of((acl, None, result.error_code, result.error_message) for acl, result in answered)


def delete_acls(filters: Sequence[AclBindingFilter]) -> Operation[Results[AclBindingFilter, tuple[AclBinding, ...]]]:
    requested = [
        wire.AclFilter(
            resource_type_filter=_number(numbers.ResourceType, one.resource_type),
            resource_name_filter=one.resource_name,
            pattern_type_filter=_number(numbers.PatternType, one.pattern_type),
            principal_filter=one.principal,
            host_filter=one.host,
            operation=_number(numbers.Operation, one.operation),
            permission_type=_number(numbers.Permission, one.permission),
        )
        for one in filters
    ]
    response: wire.DeleteAclsResponse = yield from ask(wire.DeleteAclsRequest(filters=requested))
    results: Results[AclBindingFilter, tuple[AclBinding, ...]] = Results()
    for acl_filter, result in zip(filters, response.filter_results, strict=False):
        failed = next((m for m in result.matching_acls if m.error_code), result)
        deleted = tuple(
            sorted((_binding(m.resource_name, m, m) for m in result.matching_acls if not m.error_code), key=_order)
        )
        results.add_or_refuse(acl_filter, deleted, failed.error_code, failed.error_message)
    return results


def _binding(name: str, resource: Any, acl: Any) -> AclBinding:
    return AclBinding(
        _word(numbers.ResourceType, resource.resource_type),
        name,
        acl.principal,
        _word(numbers.Operation, acl.operation),
        _word(numbers.Permission, acl.permission_type),
        acl.host,
        _word(numbers.PatternType, resource.pattern_type),
    )

"""Kafka's StandardAuthorizer (protocol/security.md#authorizer; KIP-11, KIP-290, KIP-801).

An authorizer is immutable; changed ACLs need a new one. Indexes of ACLs by resource name, prefix and principal make
ten thousand ACLs cost as little as one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple

from kohort.security.acls import IMPLIED_BY, WILDCARD, Acl, Operation, PatternType, Permission, Principal, ResourceType

SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"
ANY_NAME: Final = "hardcode"
"""Topic name that Kafka checks first when any topic suffices."""


class Decision(NamedTuple):
    """Authorization decision. ``rule``: the ACL that decided, else the name of the rule that needs no ACL."""

    allowed: bool
    rule: str | Acl

    @property
    def reason(self) -> str:
        return f"MatchingAcl(acl={self.rule})" if isinstance(self.rule, Acl) else self.rule


class _Rule(NamedTuple):
    acl: Acl
    network: IPv4Network | IPv6Network | None

    def is_from(self, host: str) -> bool:
        named = self.acl.host
        return named in (WILDCARD, host) or (self.network is not None and _is_in(host, self.network))


_Resource = dict[str, list[_Rule]]


class Authorizer:
    def __init__(
        self, acls: Iterable[Acl] = (), super_users: Iterable[Principal] = (), *, allow_if_no_acl: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        self._literals: dict[tuple[ResourceType, str], _Resource] = {}
        self._prefixes: dict[tuple[ResourceType, str], _Resource] = {}
        lengths: defaultdict[ResourceType, set[int]] = defaultdict(set)
        networks: dict[str, IPv4Network | IPv6Network | None] = {}
        for acl in acls:
            if acl.host not in networks:
                networks[acl.host] = _network(acl.host)
            by_name = self._literals
            if acl.pattern is PatternType.PREFIXED:
                by_name = self._prefixes
                lengths[acl.resource_type].add(len(acl.name))
            resource = by_name.setdefault((acl.resource_type, acl.name), {})
            resource.setdefault(acl.principal, []).append(_Rule(acl, networks[acl.host]))
        self._lengths = {of: sorted(all_) for of, all_ in lengths.items()}

    def decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Decide on one operation: deny ACLs precede allow ACLs, ``allow_if_no_acl`` is for resources without ACL."""
        if principal in self._super_users:
            return Decision(True, SUPER_USER)
        allowed_by = IMPLIED_BY[operation]
        principals = (str(principal), f"{principal.type}:{WILDCARD}")
        has_acls = False
        allowing: Acl | None = None
        for resource in self._fitting(resource_type, name):
            has_acls = True
            for rule in _about(resource, principals):
                acl = rule.acl
                if acl.permission is Permission.DENY:
                    if acl.operation in (operation, Operation.ALL) and rule.is_from(host):
                        return Decision(False, acl)
                elif allowing is None and acl.operation in allowed_by and rule.is_from(host):
                    allowing = acl
        if allowing is not None:
            return Decision(True, allowing)
        if not has_acls and self._allow_if_no_acl:
            return Decision(True, DEFAULT_ALLOW)
        return Decision(False, DEFAULT_DENY)

    def decide_on_some(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> Decision:
        """Allow the operation if an ACL allows it on any resource that no deny ACL covers (KIP-679)."""
        decided = self.decide(principal, host, operation, resource_type, ANY_NAME)
        if decided.allowed:
            return decided
        principals = (str(principal), f"{principal.type}:{WILDCARD}")
        denied: set[tuple[PatternType, str]] = set()
        allowing: list[Acl] = []
        for by_name in (self._literals, self._prefixes):
            for (of, _), resource in by_name.items():
                if of is not resource_type:
                    continue
                for rule in _about(resource, principals):
                    acl = rule.acl
                    if acl.operation not in (operation, Operation.ALL) or not rule.is_from(host):
                        continue
                    if acl.permission is Permission.ALLOW:
                        allowing.append(acl)
                    elif acl.pattern is PatternType.LITERAL and acl.name == WILDCARD:
                        return Decision(False, acl)
                    else:
                        denied.add((acl.pattern, acl.name))
        for acl in allowing:
            is_wild = acl.pattern is PatternType.LITERAL and acl.name == WILDCARD
            if is_wild or not _is_covered(acl, denied):
                return Decision(True, acl)
        return Decision(False, DEFAULT_DENY)

    def _fitting(self, resource_type: ResourceType, name: str) -> Iterator[_Resource]:
        literals = self._literals
        if (found := literals.get((resource_type, name))) is not None:
            yield found
        if name != WILDCARD and (found := literals.get((resource_type, WILDCARD))) is not None:
            yield found
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                break
            if (found := self._prefixes.get((resource_type, name[:length]))) is not None:
                yield found


def _about(resource: _Resource, principals: tuple[str, str]) -> Iterator[_Rule]:
    for name in dict.fromkeys(principals):
        yield from resource.get(name, ())


def _is_covered(acl: Acl, denied: set[tuple[PatternType, str]]) -> bool:
    if acl.pattern is PatternType.LITERAL and (PatternType.LITERAL, acl.name) in denied:
        return True
    return any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))


def _network(host: str) -> IPv4Network | IPv6Network | None:
    with suppress(ValueError):
        return ip_network(host, strict=False) if "/" in host else None
    return None


def _is_in(host: str, network: IPv4Network | IPv6Network) -> bool:
    with suppress(ValueError):
        return ip_address(host) in network
    return False

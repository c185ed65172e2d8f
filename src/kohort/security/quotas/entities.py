"""Entities of quotas, their values and filters, with Kafka's errors (KIP-55, KIP-546, KIP-612)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from ipaddress import ip_address
from typing import Final

from kohort.errors import ApiError, ErrorCode

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (CLIENT_ID, USER, IP)

Entity = tuple[tuple[str, str | None], ...]
"""Pairs of entity type and name, in the order of ENTITY_TYPES; None names the default entity of the type."""


class Quota(StrEnum):
    PRODUCED = "producer_byte_rate"
    FETCHED = "consumer_byte_rate"
    REQUEST_TIME = "request_percentage"
    MUTATIONS = "controller_mutation_rate"
    CONNECTIONS = "connection_creation_rate"


WHOLE: Final = {
    Quota.PRODUCED: ("a LONG", 2.0**63),
    Quota.FETCHED: ("a LONG", 2.0**63),
    Quota.CONNECTIONS: ("an INT", 2.0**31 - 1),
}
"""Quotas with integer values, each with Kafka's type name and the largest value."""
FRACTION_MOST: Final = 1e-6
"""Largest fractional part of a quota value that counts as an integer."""


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the quota entity of pairs of type and name; of repeated types the last name counts. Raises ApiError."""
    named = dict(parts)
    if not named:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in named.items():
        if kind not in ENTITY_TYPES:
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if IP in named:
        if len(named) > 1:
            raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
        if named[IP] is not None and address_of(named[IP]) is None:
            raise _invalid(f"{named[IP]} is not a valid IP or resolvable host.")
    return tuple((kind, named[kind]) for kind in ENTITY_TYPES if kind in named)


def address_of(name: str | None) -> str | None:
    """Return the canonical form of an IP address, else None. Host names are not resolved."""
    try:
        return str(ip_address((name or "").removeprefix("[").removesuffix("]")))
    except ValueError:
        return None


def check_value(entity: Entity, key: str, value: float) -> Quota:
    """Return the quota named ``key``. Raises ApiError for a quota or a value that the entity cannot have."""
    of_address = entity[0][0] == IP
    if key not in {str(quota) for quota in Quota} or (key == Quota.CONNECTIONS) != of_address:
        raise _invalid(f"Invalid configuration key {key}")
    quota = Quota(key)
    if not value > 0:  # also rejects NaN
        raise _invalid(f"Quota {key} must be greater than 0")
    if quota in WHOLE:
        type_name, most = WHOLE[quota]
        if value > most:
            raise _invalid(f"Proposed value for {key} is too large for {type_name}.")
        if value % 1.0 > FRACTION_MOST:
            raise _invalid(f"{key} cannot be a fractional value.")
    return quota


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)


class Match(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(slots=True)
class QuotaFilter:
    """Filter of quota entities by types and names. ``strict``: an entity with further types does not match."""

    strict: bool
    named: dict[str, str | None] = field(default_factory=dict)
    of_any_name: set[str] = field(default_factory=set)

    def takes(self, entity: Entity) -> bool:
        names = dict(entity)
        if self.strict and len(names) != len(self.named) + len(self.of_any_name):
            return False
        exact = all(kind in names and names[kind] == name for kind, name in self.named.items())
        return exact and all(kind in names for kind in self.of_any_name)


def filter_of(components: Iterable[tuple[str, int, str | None]], *, strict: bool) -> QuotaFilter:
    """Return the filter of components, each an entity type, a match type and a name. Raises ApiError."""
    made = QuotaFilter(strict)
    for kind, match, name in components:
        _check(made, kind)
        if match == Match.EXACT:
            if name is None:
                raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            made.named[kind] = name
        elif match == Match.DEFAULT:
            if name is not None:
                raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            made.named[kind] = None
        elif match == Match.ANY:
            if name is not None:
                raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            made.of_any_name.add(kind)
        else:
            raise _invalid(f"Unknown match type {match}")
    kinds = made.named.keys() | made.of_any_name
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return made


def _check(made: QuotaFilter, kind: str) -> None:
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in made.named or kind in made.of_any_name:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")

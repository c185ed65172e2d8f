"""Which entities a DescribeClientQuotas asks for (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from kohort.errors import ApiError, ErrorCode
from kohort.security.quotas.entities import ENTITY_TYPES, IP, Entity


class Match(IntEnum):
    """How a component of a filter looks at names."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(slots=True)
class QuotaFilter:
    """The types that an entity must have, with these names or with any; ``strict``: and no other types."""

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
    """Return the filter of these components: type, kind of match, name. Raises ApiError."""
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
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId"
            " filter component."
        )
    return made


def _check(made: QuotaFilter, kind: str) -> None:
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in made.named or kind in made.of_any_name:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ENTITY_TYPES:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")


def _invalid(words: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, words)

"""Admin operations on quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kohort.client.admin.operations import Operation, Results, ask, results_of
from kohort.client.admin.topics import to_controller
from kohort.client.requests.metadata import Metadata
from kohort.errors import ApiError, UsageError, error_code
from kohort.wire.messages import quotas as wire


class QuotaMatch(IntEnum):
    """Value that a quota entity has in place of a name, for several users, client ids or addresses.

    DEFAULT: all users, client ids or addresses without a quota of their own. ANY (in filters only): every name.
    """

    DEFAULT = 1
    ANY = 2


EXACT: Final = 0
_TYPES: Final = {"user": "user", "client-id": "client_id", "ip": "ip"}


@dataclass(frozen=True, slots=True)
class ClientQuotaEntity:
    """Entity with a quota: a user, a client id, a user with a client id, or an address.

    Each part is a name or ``QuotaMatch.DEFAULT``. ``ClientQuotaEntity(user="alice", client_id=QuotaMatch.DEFAULT)`` is
    alice with any client id that has no quota of its own. A filter of ``describe_client_quotas`` may also use
    ``QuotaMatch.ANY``.
    """

    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None

    def __str__(self) -> str:
        parts = [f"{kind} {'<default>' if name is None else name}" for kind, name in _named_parts(self)]
        return ", ".join(parts) or "no entity"


def _parts(entity: ClientQuotaEntity) -> Iterator[tuple[str, str | QuotaMatch]]:
    for kind, field in _TYPES.items():
        name = getattr(entity, field)
        if name is not None:
            yield kind, name


def _named_parts(entity: ClientQuotaEntity) -> Iterator[tuple[str, str | None]]:
    for kind, name in _parts(entity):
        yield kind, None if isinstance(name, QuotaMatch) else name


def describe_client_quotas(
    entity_filter: ClientQuotaEntity, *, strict: bool
) -> Operation[dict[ClientQuotaEntity, dict[str, float]]]:
    components = [
        wire.QuotaFilterComponent(entity_type=kind, match_type=int(name), match=None)
        if isinstance(name, QuotaMatch)
        else wire.QuotaFilterComponent(entity_type=kind, match_type=EXACT, match=name)
        for kind, name in _parts(entity_filter)
    ]
    request = wire.DescribeClientQuotasRequest(components=components, strict=strict)
    response: wire.DescribeClientQuotasResponse = yield from ask(request)
    if response.error_code:
        raise ApiError(error_code(response.error_code), response.error_message or "DescribeClientQuotas")
    found = {
        _entity(entry.entity): {v.key: v.value for v in sorted(entry.values, key=lambda v: v.key)}
        for entry in response.entries or ()
    }
    return dict(sorted(found.items(), key=lambda item: str(item[0])))


def alter_client_quotas(
    metadata: Metadata, changes: Mapping[ClientQuotaEntity, Mapping[str, float | None]], *, validate_only: bool
) -> Operation[Results[ClientQuotaEntity, None]]:
    for entity in changes:
        if QuotaMatch.ANY in (entity.user, entity.client_id, entity.ip):
            raise UsageError(
                f"{entity}: QuotaMatch.ANY is allowed in filters only; a quota needs a name or QuotaMatch.DEFAULT"
            )
    request = wire.AlterClientQuotasRequest(
        entries=[
            wire.QuotaAlteration(
                entity=[
                    wire.QuotaEntityPart(entity_type=kind, entity_name=name) for kind, name in _named_parts(entity)
                ],
                ops=[
                    wire.QuotaOperation(key=key, value=0.0 if value is None else float(value), remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ],
        validate_only=validate_only,
    )
    response: wire.AlterClientQuotasResponse = yield from to_controller(
        metadata, request, lambda r: [entry.error_code for entry in r.entries]
    )
    return results_of((_entity(e.entity), None, e.error_code, e.error_message) for e in response.entries)


def _entity(parts: list[wire.QuotaEntityPart]) -> ClientQuotaEntity:
    names: dict[str, str | QuotaMatch] = {
        _TYPES[part.entity_type]: QuotaMatch.DEFAULT if part.entity_name is None else part.entity_name
        for part in parts
        if part.entity_type in _TYPES
    }
    return ClientQuotaEntity(**names)

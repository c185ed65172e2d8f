"""Quotas of a cluster, and the effective quota of a client.

The most specific quota counts: user before client id, a name before the default
(protocol/security.md#quota-precedence).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kohort.security.quotas.entities import CLIENT_ID, IP, USER, Entity, Quota, address_of, check_value, entity_of

SHARED_BY_USER: Final = ""
"""Client id of a Limit that all client ids of a user share; user of a Limit that all users of a client id share."""
ENTITY_BYTES: Final = 200
NO_LIMIT_TEXT: Final = "Infinity"
"""JSON text of an infinite value, because JSON has no such number."""


class Limit(NamedTuple):
    """Effective quota, and the user, the client id, or both, whose clients share it."""

    value: float
    user: str
    client_id: str


class QuotaTable:
    def __init__(self, section: Iterable[Any] = ()) -> None:
        """Load the output of ``as_section``. Raises ApiError, or the errors of malformed JSON."""
        self._by_entity: dict[Entity, dict[Quota, float]] = {}
        self._by_quota: dict[Quota, dict[Entity, float]] = {}
        self._by_address: dict[str | None, float] = {}
        for kept in section:
            entity = entity_of(kept["entity"].items())
            if not all(name is None or isinstance(name, str) for _, name in entity):
                raise ValueError(f"{entity} has a name that is not text")
            self._by_entity[entity] = {
                check_value(entity, key, float(value)): float(value) for key, value in kept["values"].items()
            }
        self._index()

    def __bool__(self) -> bool:
        """Return True if any quota other than the connection rate of IP addresses is set."""
        return bool(self._by_quota)

    def __iter__(self) -> Iterator[tuple[Entity, Mapping[Quota, float]]]:
        return iter(self._by_entity.items())

    def as_section(self) -> list[Any]:
        def as_json(values: Mapping[Quota, float]) -> dict[str, Any]:
            return {str(quota): NO_LIMIT_TEXT if v == float("inf") else v for quota, v in values.items()}

        return [{"entity": dict(entity), "values": as_json(values)} for entity, values in self._by_entity.items()]

    def altered(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> QuotaTable:
        """Return the table after checked ``changes``; None removes a value."""
        made = QuotaTable()
        made._by_entity = dict(self._by_entity)
        for entity, values in changes.items():
            quotas = made._by_entity[entity] = dict(made._by_entity.get(entity, {}))
            for key, value in values.items():
                if value is not None:
                    quotas[Quota(key)] = value
                else:
                    quotas.pop(key, None)  # type: ignore[call-overload]  # an unknown name is not in the table
            if not quotas:
                del made._by_entity[entity]
        made._index()
        return made

    @property
    def held_bytes(self) -> int:
        names = sum(len(name or "") for entity in self._by_entity for _, name in entity)
        return ENTITY_BYTES * len(self._by_entity) + names

    def limit(self, quota: Quota, user: str, client_id: str) -> Limit | None:
        values = self._by_quota.get(quota)
        if values is None:
            return None
        for of_user, of_client in ((user, client_id), (user, None)):
            value = values.get(((CLIENT_ID, of_client), (USER, of_user)))
            if value is not None:
                return Limit(value, user, client_id)
        if (value := values.get(((USER, user),))) is not None:
            return Limit(value, user, SHARED_BY_USER)
        for of_client in (client_id, None):
            value = values.get(((CLIENT_ID, of_client), (USER, None)))
            if value is not None:
                return Limit(value, user, client_id)
        if (value := values.get(((USER, None),))) is not None:
            return Limit(value, user, SHARED_BY_USER)
        for of_client in (client_id, None):
            if (value := values.get(((CLIENT_ID, of_client),))) is not None:
                return Limit(value, SHARED_BY_USER, client_id)
        return None

    def connection_rate(self, host: str) -> float | None:
        """Return the allowed connections per second from an address."""
        if not self._by_address:
            return None
        return self._by_address.get(host, self._by_address.get(None))

    def _index(self) -> None:
        for entity, values in self._by_entity.items():
            for quota, value in values.items():
                kind, name = entity[0]
                if kind == IP:
                    self._by_address[address_of(name)] = value
                else:
                    self._by_quota.setdefault(quota, {})[entity] = value


def checked_change(entity: Entity, values: Iterable[tuple[str, float | None]]) -> dict[str, float | None]:
    """Return the checked values as a dict: quota name to value, or to None if the quota is removed. Raises ApiError."""
    change: dict[str, float | None] = {}
    for key, value in values:
        if value is not None:
            check_value(entity, key, value)
        change[key] = value
    return change

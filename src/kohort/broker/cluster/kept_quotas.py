"""The quotas of a cluster, kept with its ACLs and users: one table for all its nodes, each of which measures by
itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.broker.cluster.security_store import SECURITY_FILE, SecurityStore
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import MISFITS
from kohort.security.quotas.entities import Entity
from kohort.security.quotas.table import QuotaTable

SECTION: Final = "quotas"
MOST_BYTES: Final = 8 << 20
"""Of all quotas, by estimate: the file is written anew with every change."""


class KeptQuotas:
    """The table in force. ``any_on_requests`` is what everyone who serves a request looks at, so it is a plain
    field."""

    __slots__ = ("_store", "any_on_requests", "table")

    def __init__(self, store: SecurityStore) -> None:
        """Take what is kept. Raises StorageError where it is no table of quotas."""
        self._store = store
        try:
            self.table = QuotaTable(store.section(SECTION))
        except (*MISFITS, ApiError) as error:
            advice = "Mend it, or take the section out to begin without quotas"
            raise StorageError(f"{SECURITY_FILE}: {SECTION} cannot be read ({error!r}). {advice}") from error
        self.any_on_requests = bool(self.table)

    def alter(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> None:
        """Change quotas, from now on and for good; None removes one. Raises ApiError where that cannot be written."""
        table = self.table.altered(changes)
        if table.held_bytes > max(MOST_BYTES, self.table.held_bytes):
            raise ApiError(ErrorCode.POLICY_VIOLATION, f"there is no room for more quotas than {MOST_BYTES} bytes hold")
        self._store.replace(SECTION, table.as_section())
        self.table = table
        self.any_on_requests = bool(table)

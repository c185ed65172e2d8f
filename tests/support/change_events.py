"""A small database whose changes become Debezium's records: seeded, with restarts of the connector."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

PLACEHOLDER: Final = "__debezium_unavailable_value"
SCHEMA: Final = "id long, name string, price decimal(12,2), at timestamp_ntz, day date, tags array<string>"
_EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
_FIELDS: Final = [
    {"type": "int64", "field": "id"},
    {"type": "string", "optional": True, "field": "name"},
    {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}, "field": "price"},
    {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "field": "at"},
    {"type": "int32", "name": "io.debezium.time.Date", "field": "day"},
    {"type": "array", "items": {"type": "string"}, "field": "tags"},
]
_VALUE: Final = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": _FIELDS, "field": f} for f in ("before", "after")],
}
_KEY: Final = {"type": "struct", "fields": _FIELDS[:1]}


class ChangeRecord(NamedTuple):
    """A record of the change topic; ``value`` is None for a tombstone."""

    partition: int
    key: bytes
    value: bytes | None


@dataclass
class ChangedTable:
    """A table with random changes, and the records that a connector sends for them.

    ``schemas``: True if records carry their schema. A restarted connector sends its last records again.
    """

    seed: int
    schemas: bool = True
    partitions: int = 3
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    records: list[ChangeRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lsn = 0

    def change(self, records: int) -> None:
        """Change rows, until at least ``records`` new records exist."""
        enough = len(self.records) + records
        while len(self.records) < enough:
            draw = self._random.random()
            if draw < 0.35 or not self.rows:
                self._insert(self._random.randrange(5000), self._row())
            elif draw < 0.75:
                self._update(self._random.choice(list(self.rows)))
            elif draw < 0.9:
                self._delete(self._random.choice(list(self.rows)))
            elif draw < 0.97:
                self._change_key(self._random.choice(list(self.rows)), self._random.randrange(5000))
            elif self.records:
                self.records += self.records[-self._random.randrange(1, 30) :]  # the connector restarts

    def _row(self) -> dict[str, Any]:
        pick = self._random
        return {
            "name": None if pick.random() < 0.1 else f"item {pick.randrange(10**6)}",
            "price": Decimal(pick.randrange(-(10**9), 10**9)).scaleb(-2),
            "at": (_EPOCH + timedelta(microseconds=pick.randrange(10**15))).replace(tzinfo=None),
            "day": date(2026, 1, 1) + timedelta(days=pick.randrange(-40_000, 40_000)),
            "tags": [f"t{pick.randrange(9)}" for _ in range(pick.randrange(3))],
        }

    def _insert(self, key: int, row: dict[str, Any]) -> None:
        if key in self.rows:
            return
        self.rows[key] = {"id": key, **row}
        self._send(key, "c" if self._random.random() < 0.9 else "r", None, self._encoded(self.rows[key]))

    def _update(self, key: int) -> None:
        fresh = self._row()
        after = self._encoded({**self.rows[key], **fresh})
        if self._random.random() < 0.3:  # the update does not touch the long text, so the database does not send it
            fresh["name"], after["name"] = self.rows[key]["name"], PLACEHOLDER
        self.rows[key] |= fresh
        self._send(key, "u", None, after)

    def _delete(self, key: int) -> None:
        old = self._random.choice([None, {"id": key}, self._encoded(self.rows[key])])
        del self.rows[key]
        self._send(key, "d", old, None)
        self._append(key, None)

    def _change_key(self, key: int, new: int) -> None:
        if new in self.rows:
            return
        row = self.rows[key]
        self._delete(key)
        self._insert(new, {name: value for name, value in row.items() if name != "id"})

    def _send(self, key: int, op: str, before: Any, after: Any) -> None:
        self._lsn += self._random.randrange(1, 100)
        source = {
            "connector": "postgresql",
            "table": "items",
            "lsn": self._lsn,
            "ts_ms": self._random.randrange(10**12),
        }
        event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": self._random.randrange(10**12)}
        self._append(key, self._json(event, _VALUE))

    def _append(self, key: int, value: bytes | None) -> None:
        self.records.append(ChangeRecord(key % self.partitions, self._json({"id": key}, _KEY), value))

    def _json(self, payload: Any, schema: Any) -> bytes:
        return json.dumps({"schema": schema, "payload": payload} if self.schemas else payload).encode()

    @staticmethod
    def _encoded(row: dict[str, Any]) -> dict[str, Any]:
        unscaled = int(row["price"].scaleb(2))
        price = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        micros = (row["at"].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        days = row["day"].toordinal() - date(1970, 1, 1).toordinal()
        return {**row, "price": b64encode(price).decode(), "at": micros, "day": days}

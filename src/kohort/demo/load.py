"""Loads the tables as topics: a JSON record for each row, keyed by origin and hour, acknowledged or an error."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.producing.producer import Producer

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.producing.delivery import Delivery

PARTITIONS: Final = 6
_ROWS_AT_ONCE: Final = 2000


def records_of(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each row; flights and weather of one origin and hour share a key, so a partition."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield key_of(row), encode(row).encode()


def key_of(row: dict[str, Any]) -> bytes:
    """``EWR 2013-01-01T10``: the airport and the hour."""
    return f"{row['origin']} {row['time_hour'][:13]}".encode()


def load_table(bootstrap: str, topic: str, table: pa.Table, on_rows: Callable[[int], None]) -> int:
    """Send every row; return how many were acknowledged. ``on_rows`` is told how many were handed over since."""
    deliveries: list[Delivery] = []
    with Producer(
        bootstrap_servers=bootstrap, client_id="demo-loader", compression_type="lz4", batch_size=262144, linger_ms=20
    ) as producer:
        told = 0
        for key, value in records_of(table):
            deliveries.append(producer.send(topic, value, key))
            if len(deliveries) - told >= _ROWS_AT_ONCE:
                on_rows(len(deliveries) - told)
                told = len(deliveries)
        producer.flush()
        on_rows(len(deliveries) - told)
    for delivery in deliveries:
        error = delivery.exception()
        if error is not None:
            raise error
    return len(deliveries)

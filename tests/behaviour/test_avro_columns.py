"""Avro values with schema ids through a broker: ``poll_arrow``, ``iter_arrow`` and handlers."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

import kohort
from kohort import AvroFormat, TopicPartition, UndecodableValue
from kohort.schemas.framing import reference_bytes
from support.waiting import eventually

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
fastavro = pytest.importorskip("fastavro")

DEADLINE_S = 100
PARTITIONS = 1
OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
SCHEMAS = {1: json.dumps(OLD), 2: json.dumps(NEW)}


def value(schema_id: int, order: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(SCHEMAS[schema_id])), order)
    return reference_bytes(schema_id) + out.getvalue()


VALUES = [
    value(1 + n % 2, {"id": n, "note": f"n{n}"} if n % 2 else {"id": n}) if n != 6 else b"not Avro" for n in range(10)
]
ROWS = [{"offset": n, "id": n, "note": f"n{n}" if n % 2 else None} for n in range(10) if n != 6]


@pytest.fixture
def orders(bootstrap: str, topic: str) -> Iterator[str]:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for one in VALUES:
            producer.send(topic, one, partition=0)
        producer.flush()
        yield topic


def options(bootstrap: str, topic: str) -> dict[str, Any]:
    return {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}


def test_avro_values_become_columns_and_an_invalid_value_ends_the_table(bootstrap, orders):
    avro = AvroFormat(SCHEMAS[2], registry=SCHEMAS)
    rows: list[dict[str, Any]] = []
    with kohort.Consumer(**options(bootstrap, orders), enable_auto_commit=False) as consumer:
        partition = TopicPartition(orders, 0)
        consumer.assign([partition])

        def poll() -> None:
            rows.extend(consumer.poll_arrow(5000, columns=["offset"], avro=avro).to_pylist())

        with pytest.raises(UndecodableValue, match=rf"{orders}-0 at offset 6: .*no schema id") as bad:
            eventually(poll, deadline_s=DEADLINE_S, pause_s=0)
        assert rows == ROWS[:6]
        assert consumer.position(partition) == 6
        consumer.seek(partition, bad.value.offset + 1)
        eventually(lambda: poll() or len(rows) == 9, deadline_s=DEADLINE_S, pause_s=0)

    assert rows == ROWS


def test_error_of_registry_loses_no_record(bootstrap, orders):
    answers: list[Any] = [ConnectionError("down"), SCHEMAS[2], ConnectionError("down again"), SCHEMAS[1]]

    def registry(_: int) -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    avro = AvroFormat(registry=registry)
    with kohort.Consumer(**options(bootstrap, orders), enable_auto_commit=False) as consumer:
        partition = TopicPartition(orders, 0)
        consumer.assign([partition])
        for problem in ("down", "down again"):
            with pytest.raises(ConnectionError, match=problem):
                eventually(lambda: consumer.poll_arrow(5000, avro=avro).num_rows, deadline_s=DEADLINE_S, pause_s=0)
            assert consumer.position(partition) == 0
        found = consumer.poll_arrow(5000, columns=["offset"], avro=avro, avro_errors=True)

    assert [row["id"] for row in found.to_pylist()] == [0, 1, 2, 3, 4, 5, None, 7, 8, 9]
    assert [row["offset"] for row in found.to_pylist() if row["avro_error"]] == [6]


def test_iter_arrow_yields_avro_columns_to_blocking_and_asyncio_consumers(bootstrap, orders):
    avro = AvroFormat(SCHEMAS[2], registry=SCHEMAS)

    async def read() -> list[dict[str, Any]]:
        async with kohort.AsyncConsumer(**options(bootstrap, f"{orders}-async")) as consumer:
            consumer.assign([TopicPartition(orders, 0)])
            async for batch in consumer.iter_arrow(columns=["offset"], avro=avro, avro_errors=True):
                return batch.to_pylist()
        return []

    with kohort.Consumer(**options(bootstrap, orders)) as consumer:
        consumer.assign([TopicPartition(orders, 0)])
        batch = next(consumer.iter_arrow(columns=["offset"], avro=avro, avro_errors=True))

    assert asyncio.run(read()) == batch.to_pylist()
    assert [row["id"] for row in batch.to_pylist()] == [0, 1, 2, 3, 4, 5, None, 7, 8, 9]


def test_claim_of_a_handler_yields_avro_columns(bootstrap, orders):
    found: list[dict[str, Any]] = []
    avro = AvroFormat(SCHEMAS[2], registry=SCHEMAS)

    class Handler(kohort.GroupHandler):
        def consume_claim(self, session: kohort.GroupSession, claim: kohort.Claim) -> None:
            for batch in claim.iter_arrow(columns=["offset"], avro=avro, avro_errors=True):
                found.extend(batch.to_pylist())
                group.stop()

    with kohort.ConsumerGroup(**options(bootstrap, orders)) as group:
        group.run(orders, Handler())

    assert [row["id"] for row in found] == [0, 1, 2, 3, 4, 5, None, 7, 8, 9]

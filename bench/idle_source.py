"""Minimal streaming source in Python: 100 rows per micro-batch, without external data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

ROWS = 100


class IdleReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's names, and its arguments
        return {"at": 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802, ARG002
        return {"at": start["at"] + ROWS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        schema = pa.schema([("key", pa.binary()), ("value", pa.binary())])
        first, last = partition.value
        yield pa.RecordBatch.from_arrays([pa.array([b"x" * 200] * (last - first), pa.binary())] * 2, schema=schema)

    def commit(self, end: dict[str, int]) -> None:
        pass


class IdleSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "idle"

    def schema(self) -> str:
        return "key binary, value binary"

    def streamReader(self, schema: Any) -> IdleReader:  # noqa: N802, ARG002
        return IdleReader()

"""Writes rows to a topic from Spark's workers with kohort's producer, and counts what brokers acknowledged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.config.security_names import translated
from kohort.errors import ApiError, ErrorCode
from kohort.spark.options.client import connecting

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_CLIENT_ID: Final = "kohort-pipeline"


def deliver(frame: DataFrame, client: Mapping[str, Any], *, letters: bool = False) -> int:
    """Send rows of (topic, key, value, headers); return how many were acknowledged, all or an error.

    At least once: a task that Spark repeats sends its rows again. ``letters``: dead letters, of which one that is too
    large for its topic goes without its value.
    """
    settings = {"client.id": _CLIENT_ID, "compression.type": "lz4", **client}

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from kohort.spark.sending.send import LetterSender, RowSender, send_rows

        sent = send_rows(batches, settings, LetterSender if letters else RowSender)
        yield pa.RecordBatch.from_pydict({"sent": pa.array([sent], pa.int64())})

    rows = frame.select("topic", "key", "value", "headers").mapInArrow(send, "sent long").collect()
    return sum(row["sent"] for row in rows)


def ensure_topic(client: Mapping[str, Any], topic: str, partitions: int = 1) -> None:
    """Create the topic unless it is there."""
    from kohort.aio.admin import Admin

    with Admin({"client.id": _CLIENT_ID, **connecting(translated(client))}) as admin:
        try:
            admin.create_topics({topic: partitions})
        except ApiError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

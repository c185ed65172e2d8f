"""All rows of record columns in one batch."""

from __future__ import annotations

from kohort.columns.encode import LARGEST_BODY, RecordColumns, encode_partitions
from kohort.wire.compression import Codec


def encode_batch(columns: RecordColumns, codec: Codec = Codec.NONE) -> bytes:
    (batch,) = encode_partitions(columns, partitions=1, batch_bytes=LARGEST_BODY, codec=codec)
    return batch.data

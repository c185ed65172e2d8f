"""Decompression and recompression of a producer's batch, where the topic demands it.

``cleanup.policy=compact``: every record must have a key. ``compression.type``: a batch in another codec is compressed
again; only length and CRC change besides (protocol/records.md#what-a-broker-rewrites).

A megabyte may expand many times, so the work is done in steps, up to one bound for every topic: any client may create
topics. Kafka has no bound, as it reads records as a stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kohort.errors import ApiError, CorruptRecord, ErrorCode, RecordsRefused
from kohort.log.keyed_records import keyed_records
from kohort.steps import Pace, Steps
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec, compress_in_steps, decompressed
from kohort.wire.record_batch import CODEC_BITS, HEADER_BYTES, SMALLEST_LENGTH, BatchHeader, pack_batch

PRODUCER: Final = "producer"
CODECS: Final[Mapping[str, Codec | None]] = {
    PRODUCER: None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
OPENED_MAX_BYTES: Final = 16 << 20
"""Bound of decompressed records: sixteen times the default ``max.message.bytes``."""
NAMED_MAX: Final = 1_000
"""Rejected records that the response names: a batch may hold a million."""
CHECK_US: Final = 2


class PreparedBatch(NamedTuple):
    batch: Buffer
    header: BatchHeader


def opened(
    batch: Buffer, header: BatchHeader, codec: Codec | None, max_bytes: int, *, with_keys: bool
) -> Steps[PreparedBatch]:
    """Return ``batch`` and its header in ``codec``; unchanged if it already is, or for None.

    Raises ApiError INVALID_RECORD if its records cannot be read, RecordsRefused if, ``with_keys``, some have no key;
    MESSAGE_TOO_LARGE if the new batch is larger than ``max_bytes``, the topic's ``max.message.bytes``.
    """
    if codec is header.codec:
        codec = None
    if codec is None and not with_keys:
        return PreparedBatch(batch, header)
    try:
        body = decompressed(header.codec, memoryview(batch)[HEADER_BYTES : header.size], OPENED_MAX_BYTES)
        if with_keys:
            yield from _check_keys(body, header)
    except CorruptRecord as error:
        raise ApiError(ErrorCode.INVALID_RECORD, error.problem) from error
    if codec is None:
        return PreparedBatch(batch, header)
    payload = yield from compress_in_steps(codec, body)
    made = header._replace(
        attributes=header.attributes & ~CODEC_BITS | codec, batch_length=SMALLEST_LENGTH + len(payload)
    )
    if made.size > max_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {made.size} bytes once it is {codec.name.lower()}; max.message.bytes is {max_bytes}",
        )
    return PreparedBatch(pack_batch(made, payload), made)


def _check_keys(body: Buffer, header: BatchHeader) -> Steps[None]:
    pace = Pace()
    refused: list[tuple[int, str]] = []
    count = 0
    for index, record in enumerate(keyed_records(body, header)):
        if record.key is None:
            count += 1
            if count <= NAMED_MAX:
                refused.append((index, f"record {index} has no key, and the topic is compacted"))
        if pace.is_due(CHECK_US):
            yield
    if refused:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, refused, count)

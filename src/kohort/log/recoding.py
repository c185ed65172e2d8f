"""Decompression and recompression of a producer's batch if the topic requires it.

With ``cleanup.policy=compact`` every record needs a key. With ``compression.type`` a batch in another codec is
recompressed; apart from the codec, only its length and CRC change (protocol/records.md#rewritten-batches).

The work runs in steps and has one size limit for all topics, because a small batch may expand to many megabytes.
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
"""Maximum bytes of the decompressed records of a batch: sixteen times the default ``max.message.bytes``."""
NAMED_MAX: Final = 1_000
"""Maximum number of rejected records that a response names: a batch may have a million."""
CHECK_US: Final = 2


class PreparedBatch(NamedTuple):
    batch: Buffer
    header: BatchHeader


def opened(
    batch: Buffer, header: BatchHeader, codec: Codec | None, max_bytes: int, *, with_keys: bool
) -> Steps[PreparedBatch]:
    """Return ``batch`` and its header in ``codec``; unchanged if it has that codec or ``codec`` is None.

    Raises ApiError INVALID_RECORD for malformed records, MESSAGE_TOO_LARGE if the new batch exceeds ``max_bytes``.
    Raises RecordsRefused if records have no key, but ``with_keys`` requires keys.
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
            f"batch has {made.size} bytes in {codec.name.lower()}; max.message.bytes is {max_bytes}",
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
                refused.append((index, f"record {index} has no key, but the topic is compacted"))
        if pace.is_due(CHECK_US):
            yield
    if refused:
        raise RecordsRefused(ErrorCode.INVALID_RECORD, refused, count)

"""``compression.type``: where a topic names a codec of its own, a batch that came with another is compressed anew.

The records themselves stay as they are; only their wrapping changes, and with it length and CRC. Facts 6.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.errors import ApiError, CorruptRecord, ErrorCode
from kohort.log.keyed import body_of
from kohort.wire.codec import Buffer
from kohort.wire.compression import Codec, compress
from kohort.wire.record_batch import CODEC_BITS, SMALLEST_LENGTH, BatchHeader, pack_batch

PRODUCER: Final = "producer"
"""Whatever the producer chose is kept."""
CODECS: Final[Mapping[str, Codec | None]] = {
    PRODUCER: None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""What ``compression.type`` may be."""


def recoded(batch: Buffer, header: BatchHeader, codec: Codec | None, max_bytes: int) -> tuple[Buffer, BatchHeader]:
    """``batch`` and its header under ``codec``; untouched where it has it already, or None is wanted.

    Raises ApiError INVALID_RECORD if its records cannot be read, MESSAGE_TOO_LARGE if the new batch is larger than
    ``max_bytes``, the topic's ``max.message.bytes``.
    """
    if codec is None or header.codec is codec:
        return batch, header
    try:
        payload = compress(codec, body_of(batch, header))
    except CorruptRecord as error:
        raise ApiError(ErrorCode.INVALID_RECORD, error.problem) from error
    made = header._replace(
        attributes=header.attributes & ~CODEC_BITS | codec,
        batch_length=SMALLEST_LENGTH + len(payload),
    )
    if made.size > max_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {made.size} bytes once it is {codec.name.lower()}; max.message.bytes is {max_bytes}",
        )
    return pack_batch(made, payload), made

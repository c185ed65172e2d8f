"""Checks of a batch before its append, and the rewrite of its header (protocol/records.md#rejected-batches).

The broker reads the records only to check keys in compacted topics (keyed_records.py) and to change the codec
(recoding.py); all other checks use the batch header. Two deviations from Kafka follow:
- The maximum timestamp of the header is checked and stored; Kafka reads each record and recomputes the maximum.
- Consumers detect malformed records, not the broker: a valid CRC proves that the producer sent these bytes.
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from kohort.config.topic import TopicConfig
from kohort.errors import ApiError, CorruptRecord, ErrorCode
from kohort.wire.codec import Buffer
from kohort.wire.record_batch import (
    CRC_STARTS_AT,
    LENGTH_ENDS_AT,
    LOG_APPEND_TIME,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    check_crc,
    parse_batch_header,
)

MAGIC_AT: Final = 16
LENGTH_AT: Final = 8
_length: Final = struct.Struct(">i")
_head: Final = struct.Struct(">qiibI")
_summed: Final = struct.Struct(">hiqq")
_after_max_timestamp: Final = CRC_STARTS_AT + _summed.size


def checked_header(batch: Buffer, config: TopicConfig, now_ms: int, *, from_client: bool) -> BatchHeader:
    """Return the header of the single batch in ``batch``. Raises ApiError with Kafka's code.

    A batch that the broker writes (``from_client`` false) skips the checks of client errors.
    """
    header = _one_batch(batch)
    size = len(batch)
    if size > config.max_message_bytes:
        problem = f"batch has {size} bytes; max.message.bytes is {config.max_message_bytes}"
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, problem)
    if size > config.segment_bytes:
        problem = f"batch has {size} bytes; segment.bytes is {config.segment_bytes}"
        raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, problem)
    if from_client:
        _check_crc(batch, header)
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise _invalid(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    if from_client:
        _check_client_batch(header, config, now_ms)
    return header


def intact_header(batch: Buffer) -> BatchHeader:
    """Return the header of the single batch in ``batch``. Raises ApiError CORRUPT_MESSAGE (retriable)."""
    header = _one_batch(batch)
    _check_crc(batch, header)
    return header


def _one_batch(batch: Buffer) -> BatchHeader:
    try:
        header = parse_batch_header(batch)
    except CorruptRecord as error:
        raise _no_batch(batch, error) from error
    size = header.size
    if size > len(batch):
        raise _not_whole(batch)
    if size < len(batch):
        _check_crc(batch, header)  # a damaged length also leaves extra bytes
        raise _invalid(f"{len(batch) - size} bytes after a batch of {size}; expected exactly one batch")
    return header


def _no_batch(batch: Buffer, error: CorruptRecord) -> ApiError:
    if len(batch) > MAGIC_AT and batch[MAGIC_AT] != MAGIC:
        return _invalid(f"batch has format {batch[MAGIC_AT]}; only format {MAGIC} is accepted")
    if not len(batch):
        return _invalid("no batch; expected exactly one batch")
    if len(batch) < LENGTH_ENDS_AT or LENGTH_ENDS_AT + _length.unpack_from(batch, LENGTH_AT)[0] > len(batch):
        return _not_whole(batch)
    return _corrupt(error.problem)


def _not_whole(batch: Buffer) -> ApiError:
    """Return CORRUPT_MESSAGE, a retriable error, for a damaged or truncated batch. Kafka sends INVALID_RECORD."""
    return _corrupt(f"{len(batch)} bytes are not a complete batch; expected exactly one batch")


def _check_crc(batch: Buffer, header: BatchHeader) -> None:
    try:
        check_crc(batch, 0, header)
    except CorruptRecord as error:
        raise _corrupt(error.problem) from error


def _check_client_batch(header: BatchHeader, config: TopicConfig, now_ms: int) -> None:
    if header.base_offset != 0:
        raise _invalid(f"base offset is {header.base_offset}; producers send 0")
    producer_id = header.producer_id
    if header.is_control:
        raise _invalid("control batch from a client; only brokers write control batches")
    try:
        _ = header.codec
    except CorruptRecord as error:
        raise _invalid(error.problem) from error
    if header.is_transactional and producer_id < 0:
        raise _invalid("transactional batch without a producer id")
    if producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(f"producer {producer_id} has epoch {header.producer_epoch} and sequence {header.base_sequence}")
    if header.timestamp_type == LOG_APPEND_TIME:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "producers must not set the timestamp type LogAppendTime")
    if header.max_timestamp >= 0 and config.message_timestamp_type != "LogAppendTime":
        _check_timestamp(header.max_timestamp, config, now_ms)


def _check_timestamp(timestamp_ms: int, config: TopicConfig, now_ms: int) -> None:
    age_ms, before_ms = now_ms - timestamp_ms, config.message_timestamp_before_max_ms
    after_ms = config.message_timestamp_after_max_ms
    if age_ms > before_ms:
        problem = f"timestamp {timestamp_ms} is {age_ms} ms ago; message.timestamp.before.max.ms is {before_ms}"
    elif -age_ms > after_ms:
        problem = f"timestamp {timestamp_ms} is {-age_ms} ms ahead; message.timestamp.after.max.ms is {after_ms}"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TIMESTAMP, problem)


def with_append_time(
    batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int
) -> list[Buffer]:
    """Return ``batch`` at its offset with LogAppendTime: a new header with a new CRC, and a view of the rest."""
    attributes = header.attributes | TIMESTAMP_TYPE_BIT
    summed = _summed.pack(attributes, header.last_offset_delta, header.base_timestamp, now_ms)
    rest = memoryview(batch)[_after_max_timestamp:]
    crc = crc32c.crc32c(rest, crc32c.crc32c(summed))
    head = _head.pack(base_offset, header.batch_length, leader_epoch, header.magic, crc)
    return [head + summed, rest]


def _corrupt(problem: str) -> ApiError:
    return ApiError(ErrorCode.CORRUPT_MESSAGE, problem)


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, problem)

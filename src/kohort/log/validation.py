"""Checks of a batch before its append, and the rewrite of its header (protocol/records.md#what-a-broker-refuses).

The broker opens records only for their keys in compacted topics (keyed_records.py) and for the codec of a topic
(recoding.py); other checks use the header. Deviations that follow:
- timestamps are checked, and kept, by the header's maximum; Kafka reads each record and recomputes the maximum;
- records that do not parse are found by their reader, though the CRC proves that the producer sent them so.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class BatchRules:
    max_message_bytes: int
    segment_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> BatchRules:
        return cls(
            config.max_message_bytes,
            config.segment_bytes,
            config.message_timestamp_type == "LogAppendTime",
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
        )


def checked_header(batch: Buffer, rules: BatchRules, now_ms: int, *, from_client: bool) -> BatchHeader:
    """Return the header of the single batch in ``batch``. Raises ApiError with Kafka's code.

    A batch of the broker's own (``from_client`` false) is spared what only a stranger can get wrong.
    """
    header = _one_batch(batch)
    size = len(batch)
    if size > rules.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; max.message.bytes is {rules.max_message_bytes}"
        )
    if size > rules.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes; segment.bytes is {rules.segment_bytes}"
        )
    if from_client:
        _check_crc(batch, header)
    _check_count(header)
    if from_client:
        _check_client_batch(header, rules, now_ms)
    return header


def intact_header(batch: Buffer) -> BatchHeader:
    """Return the header of the one batch in ``batch``, before it is appended.

    Raises ApiError CORRUPT_MESSAGE, which the producer retries, if it was damaged.
    """
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
        _check_crc(batch, header)  # a length that was damaged leaves a rest, too
        raise _invalid(f"{len(batch) - size} bytes after a batch of {size}; exactly one is expected")
    return header


def _no_batch(batch: Buffer, error: CorruptRecord) -> ApiError:
    if len(batch) > MAGIC_AT and batch[MAGIC_AT] != MAGIC:
        return _invalid(f"a batch of format {batch[MAGIC_AT]}; only format {MAGIC} is accepted")
    if not len(batch):
        return _invalid("no batch; exactly one is expected")
    if len(batch) < LENGTH_ENDS_AT or LENGTH_ENDS_AT + _length.unpack_from(batch, LENGTH_AT)[0] > len(batch):
        return _not_whole(batch)
    return _corrupt(error.problem)


def _not_whole(batch: Buffer) -> ApiError:
    """Reject a damaged or cut batch as retriable. Kafka answers INVALID_RECORD, and the producer gives up."""
    return _corrupt(f"{len(batch)} bytes that are not the whole of a batch; exactly one is expected")


def _check_count(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
        raise _invalid(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")


def _check_crc(batch: Buffer, header: BatchHeader) -> None:
    try:
        check_crc(batch, 0, header)
    except CorruptRecord as error:
        raise _corrupt(error.problem) from error


def _check_client_batch(header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    if header.base_offset != 0:
        raise _invalid(f"a base offset of {header.base_offset}; a producer sends 0")
    producer_id = header.producer_id
    if header.is_control:
        raise _invalid("a control batch; only a broker writes those")
    try:
        _ = header.codec
    except CorruptRecord as error:
        raise _invalid(error.problem) from error
    if header.is_transactional and producer_id < 0:
        raise _invalid("a transactional batch without a producer id")
    if producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(f"producer {producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}")
    if header.timestamp_type == LOG_APPEND_TIME:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, "a producer may not set the timestamp type LogAppendTime")
    if not rules.log_append_time and header.max_timestamp >= 0:
        _check_timestamp(header.max_timestamp, rules, now_ms)


def _check_timestamp(timestamp_ms: int, rules: BatchRules, now_ms: int) -> None:
    if now_ms - timestamp_ms > rules.timestamp_before_max_ms:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {timestamp_ms} is {now_ms - timestamp_ms} ms ago;"
            f" message.timestamp.before.max.ms is {rules.timestamp_before_max_ms}",
        )
    if timestamp_ms - now_ms > rules.timestamp_after_max_ms:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"timestamp {timestamp_ms} is {timestamp_ms - now_ms} ms ahead;"
            f" message.timestamp.after.max.ms is {rules.timestamp_after_max_ms}",
        )


def with_append_time(
    batch: Buffer, header: BatchHeader, base_offset: int, leader_epoch: int, now_ms: int
) -> list[Buffer]:
    """Return ``batch`` at its offset with the append time: new type, time and CRC, the rest a view."""
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

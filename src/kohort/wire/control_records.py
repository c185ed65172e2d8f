"""Control batches: the markers that end a transaction in a partition (KIP-98; protocol/records.md#control-records).

A marker is one record in a transactional control batch of the producer it speaks of. No consumer hands it out.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kohort.errors import CorruptRecord, ProtocolError
from kohort.wire.codec import Buffer, decode, encode_bytes
from kohort.wire.messages.transaction_records import ControlRecordKey, EndTxnMarker
from kohort.wire.record_batch import BatchHeader, NewRecord, build_batch, read_batch

ABORT: Final = 0
COMMIT: Final = 1
MARKER_MAX_BYTES: Final = 1 << 10


class Marker(NamedTuple):
    """How the transaction of a producer ended. ``coordinator_epoch`` is the leader epoch of who decided."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


def build_marker(marker: Marker, now_ms: int) -> bytes:
    """Return the control batch of ``marker``."""
    key = encode_bytes(ControlRecordKey(version=0, type=COMMIT if marker.committed else ABORT), 0)
    value = encode_bytes(EndTxnMarker(version=0, coordinator_epoch=marker.coordinator_epoch), 0)
    return build_batch(
        [NewRecord(key, value, (), now_ms)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def parse_marker(batch: Buffer, header: BatchHeader) -> Marker | None:
    """Return the marker in a control batch; None for a control batch of another kind, or one that compaction has
    emptied.

    Raises CorruptRecord for what is neither.
    """
    if not header.is_transactional or not header.record_count:
        return None
    (record,) = read_batch(batch, max_bytes=MARKER_MAX_BYTES)[:1]
    try:
        key, _ = decode(ControlRecordKey, 0, record.key or b"")
        if key.type not in (ABORT, COMMIT):
            return None
        value, _ = decode(EndTxnMarker, 0, record.value or b"")
    except (ProtocolError, struct.error) as error:
        raise CorruptRecord(f"a control record that cannot be read: {error}", offset=header.base_offset) from error
    return Marker(header.producer_id, header.producer_epoch, key.type == COMMIT, value.coordinator_epoch)

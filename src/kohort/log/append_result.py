"""What goes into an append to a log, and what comes out."""

from __future__ import annotations

from typing import NamedTuple

from kohort.wire.codec import Buffer
from kohort.wire.record_batch import BatchHeader


class PreparedBatch(NamedTuple):
    """A producer's batch that may be appended, and its header."""

    batch: Buffer
    header: BatchHeader


class AppendResult(NamedTuple):
    """Where a batch came to lie. ``log_append_time_ms`` is -1 where records keep their own times."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False
    awaits_flush: bool = False
    """The answer may leave only when ``has_reached_disk(last_offset)``."""

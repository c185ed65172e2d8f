"""The two sparse indexes of a segment, in Kafka's file format.

``.index`` maps an int32 relative offset, the last of a batch, to the batch's int32 position. ``.timeindex`` maps an
int64 timestamp to the int32 relative offset that ends the first batch with this timestamp or a later one.

Both columns of both indexes increase. The entries are kept in memory, in two arrays. They are written to the file only
from time to time, because recovery after an unclean stop does not use index files.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Final

from kohort.wire.codec import Buffer

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")

OFFSET_ENTRY_SIZE: Final = _OFFSET_ENTRY.size
TIME_ENTRY_SIZE: Final = _TIME_ENTRY.size
RELATIVE_OFFSET_MAX: Final = 0x7FFFFFFF


class OffsetIndex:
    """Map of an offset to a file position at or before its batch."""

    __slots__ = ("_offsets", "_positions", "saved")

    def __init__(self) -> None:
        self._offsets = array("i")
        self._positions = array("i")
        self.saved = 0

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._offsets, self._positions, strict=True)

    @property
    def last_position(self) -> int:
        return self._positions[-1] if self._positions else 0

    def append(self, relative_offset: int, position: int) -> None:
        """Add an entry if both numbers increase: a damaged entry of the index file may have larger numbers."""
        if not self._offsets or (relative_offset > self._offsets[-1] and position > self._positions[-1]):
            self._offsets.append(relative_offset)
            self._positions.append(position)

    def floors(self, relative_offset: int) -> Iterator[tuple[int, int]]:
        """Yield the entries up to ``relative_offset``, in descending order."""
        for i in range(bisect_right(self._offsets, relative_offset) - 1, -1, -1):
            yield self._offsets[i], self._positions[i]

    def lookup(self, relative_offset: int) -> int:
        """Return the greatest indexed position at or before ``relative_offset``, else 0."""
        i = bisect_right(self._offsets, relative_offset) - 1
        return self._positions[i] if i >= 0 else 0

    def unsaved(self) -> bytes:
        pairs = zip(self._offsets[self.saved :], self._positions[self.saved :], strict=True)
        flat = list(chain.from_iterable(pairs))
        return struct.pack(f">{len(flat)}i", *flat)

    @classmethod
    def parse(cls, data: Buffer, log_size: int) -> OffsetIndex:
        """Parse the index file of a log of ``log_size`` bytes. Raises ValueError."""
        if len(data) % OFFSET_ENTRY_SIZE:
            raise ValueError(f"{len(data)} bytes are not a multiple of {OFFSET_ENTRY_SIZE}")
        flat = struct.unpack(f">{len(data) // 4}i", data)
        index = cls()
        index._offsets = array("i", flat[::2])
        index._positions = array("i", flat[1::2])
        index.saved = len(index)
        if not (_grows(index._offsets) and _grows(index._positions)):
            raise ValueError("entries do not increase")
        if index and (index._offsets[0] < 0 or index._positions[0] < 0):
            raise ValueError("the first entry is negative")
        if index and index.last_position >= log_size:
            raise ValueError(f"position {index.last_position} is beyond the log's {log_size} bytes")
        return index


class TimeIndex:
    """Map of a timestamp to an offset; all batches before that offset are older."""

    __slots__ = ("_offsets", "_timestamps", "saved")

    def __init__(self) -> None:
        self._timestamps = array("q")
        self._offsets = array("i")
        self.saved = 0

    def __len__(self) -> int:
        return len(self._timestamps)

    @property
    def last(self) -> tuple[int, int] | None:
        return (self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def maybe_append(self, timestamp_ms: int, relative_offset: int) -> None:
        """Add an entry if its timestamp is the latest and its offset does not decrease."""
        last = self.last
        if timestamp_ms >= 0 and (last is None or (timestamp_ms > last[0] and relative_offset >= last[1])):
            self._timestamps.append(timestamp_ms)
            self._offsets.append(relative_offset)

    def lookup(self, timestamp_ms: int) -> int | None:
        """Return the end of the first batch with the greatest indexed timestamp up to ``timestamp_ms``.

        All batches before it are older than ``timestamp_ms``. None if no indexed timestamp is old enough.
        """
        i = bisect_right(self._timestamps, timestamp_ms) - 1
        return self._offsets[i] if i >= 0 else None

    def unsaved(self) -> bytes:
        pairs = zip(self._timestamps[self.saved :], self._offsets[self.saved :], strict=True)
        return b"".join(_TIME_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs)

    @classmethod
    def parse(cls, data: Buffer) -> TimeIndex:
        """Parse the index file. Raises ValueError."""
        if len(data) % TIME_ENTRY_SIZE:
            raise ValueError(f"{len(data)} bytes are not a multiple of {TIME_ENTRY_SIZE}")
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(data):
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
        index.saved = len(index)
        if index and min(index._timestamps[0], index._offsets[0]) < 0:
            raise ValueError("the first entry is negative")
        if not _grows(index._timestamps) or any(b < a for a, b in pairwise(index._offsets)):
            raise ValueError("entries do not increase")
        return index


def _grows(values: array[int]) -> bool:
    return all(a < b for a, b in pairwise(values))

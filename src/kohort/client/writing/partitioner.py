"""Which partition a record goes to: by its key as Java's clients do, or the same one for a while without a key.

Records with equal keys meet in one partition whatever client sent them, so the hash is Java's murmur2. Records without
a key stick to one partition until ``batch.size`` bytes went there and then move to another (KIP-794): full batches
instead of many small ones.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kohort.clock import Rng

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Java's ``Utils.murmur2``, as an unsigned 32-bit number."""
    size = len(data)
    h = _SEED ^ size
    whole = size & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    rest = data[whole:]
    if rest:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


@lru_cache(maxsize=8192)
def _positive_hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return where every Kafka client with default settings puts this key."""
    return _positive_hash(key) % partitions


class StickyPartitioner:
    """Partitions for the records of one topic that have no key."""

    __slots__ = ("_bytes", "_current", "_most", "_rng")

    def __init__(self, most_bytes: int, rng: Rng) -> None:
        self._most = most_bytes
        self._rng = rng
        self._current = -1
        self._bytes = 0

    def pick(self, size: int, partitions: int) -> int:
        """Return the partition of a record of ``size`` bytes, among ``partitions``."""
        if self._current < 0 or self._bytes >= self._most or self._current >= partitions:
            self._current = self._next(partitions)
            self._bytes = 0
        self._bytes += size
        return self._current

    def _next(self, partitions: int) -> int:
        if partitions == 1:
            return 0
        drawn = self._rng.randrange(0, partitions)
        return drawn if drawn != self._current else (drawn + 1) % partitions

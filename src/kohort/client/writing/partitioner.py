"""Choose a record's partition: by the hash of its key, or without a key the sticky partition.

Records with equal keys share a partition only if all producers use the same hash. The default is Java's murmur2;
librdkafka's default, CRC32, is ``partitioner=consistent_random`` here. Records without a key stick to one partition
for ``batch.size`` bytes, which fills batches (KIP-794).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import UsageError

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return the murmur2 hash of Java's client (``Utils.murmur2``) as an unsigned 32-bit number."""
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


def fnv1a(data: bytes) -> int:
    """Return the absolute value of the signed 32-bit FNV-1a hash, as in librdkafka and Sarama."""
    h = 0x811C9DC5
    for byte in data:
        h = (h ^ byte) * 0x01000193 & _MASK
    return h if h < 0x80000000 else _MASK + 1 - h


Partitioner = Callable[[bytes | None, int], int | None]
"""Function of a key and a number of partitions. It returns the partition, or None to let the producer choose."""


def _hashed(
    hash_of: Callable[[bytes], int], *, empty_is_none: bool = False, none_is_empty: bool = False
) -> Partitioner:

    def partition(key: bytes | None, partitions: int) -> int | None:
        if key is None and none_is_empty:
            key = b""
        return None if key is None or (empty_is_none and not key) else hash_of(key) % partitions

    return partition


BY_NAME: Final[Mapping[str, Partitioner]] = {
    "murmur2_random": _hashed(_positive_hash),
    "murmur2": _hashed(_positive_hash, none_is_empty=True),
    "consistent_random": _hashed(zlib.crc32, empty_is_none=True),
    "consistent": _hashed(zlib.crc32, none_is_empty=True),
    "fnv1a_random": _hashed(fnv1a),
    "fnv1a": _hashed(fnv1a, none_is_empty=True),
    "random": lambda _key, _partitions: None,
}


def is_default(config: ProducerConfig) -> bool:
    return config.partitioner == "murmur2_random" and not config.partitioner_ignore_keys


def partitioner_of(config: ProducerConfig) -> Partitioner:
    if config.partitioner_ignore_keys:
        return BY_NAME["random"]
    function = config.partitioner
    return BY_NAME[function] if isinstance(function, str) else _checked(function)


def _checked(function: Callable[[bytes | None, int], Any]) -> Partitioner:

    def partition(key: bytes | None, partitions: int) -> int | None:
        chosen = function(key, partitions)
        if chosen is None:
            return None
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < partitions:
            last = partitions - 1
            raise UsageError(f"the partitioner returned {chosen!r} for key {key!r}, not a partition from 0 to {last}")
        return chosen

    return partition


class StickyPartitioner:
    __slots__ = ("_bytes", "_current", "_most", "_rng")

    def __init__(self, most_bytes: int, rng: Rng) -> None:
        self._most = most_bytes
        self._rng = rng
        self._current = -1
        self._bytes = 0

    def pick(self, size: int, partitions: int) -> int:
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

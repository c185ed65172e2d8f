"""Exactly-once check: a transactional copy has each input record once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kohort.log.partition import PartitionLog
from kohort.wire.record_batch import parse_marker
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.durability import batches_on, records_of


def values_on(log: PartitionLog) -> list[bytes]:
    """Return the committed values of the log in commit order, without open transactions."""
    counts: list[bytes] = []
    open_ones: dict[int, list[bytes]] = {}
    for batch, header in batches_on(log):
        if header.is_control:
            marker = parse_marker(batch, header)
            found = open_ones.pop(header.producer_id, [])
            counts += found if marker is not None and marker.committed else []
            continue
        into = open_ones.setdefault(header.producer_id, []) if header.is_transactional else counts
        into += [record.value or b"" for record in records_of(batch)]
    return counts


def check_copied_once(inputs: Iterable[PartitionLog], outputs: Iterable[PartitionLog]) -> None:
    originals = Counter(value for log in inputs for value in values_on(log))
    copied = Counter(value for log in outputs for value in values_on(log))
    if missing := originals - copied:
        raise CheckFailed(f"not copied: {_some(missing)}")
    if too_many := copied - originals:
        raise CheckFailed(f"copied more than once: {_some(too_many)}")


def _some(values: Counter[bytes]) -> str:
    return ", ".join(f"{value!r} ({times})" for value, times in sorted(values.items())[:5])

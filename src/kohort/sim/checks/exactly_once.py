"""What a group copied in transactions is what was there to copy: each record once, whatever struck whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kohort.log.partition import PartitionLog
from kohort.sim.checks.broken import CheckFailed
from kohort.sim.checks.durability import batches_on, records_of
from kohort.wire.control_records import parse_marker


def values_on(log: PartitionLog) -> list[bytes]:
    """Every value of the log that counts, transactions of which the end is not known left out."""
    return [value for values in committed_on(log) for value in values]


def committed_on(log: PartitionLog) -> Iterator[list[bytes]]:
    """The values of each transaction as it is committed; what is of none comes alone."""
    open_ones: dict[int, list[bytes]] = {}
    for batch, header in batches_on(log):
        if header.is_control:
            marker = parse_marker(batch, header)
            found = open_ones.pop(header.producer_id, [])
            if marker is not None and marker.committed:
                yield found
            continue
        values = [record.value or b"" for record in records_of(batch)]
        if header.is_transactional:
            open_ones.setdefault(header.producer_id, []).extend(values)
        else:
            yield values


def check_copied_once(inputs: Iterable[PartitionLog], outputs: Iterable[PartitionLog]) -> None:
    given = Counter(value for log in inputs for value in values_on(log))
    copied = Counter(value for log in outputs for value in values_on(log))
    if missing := given - copied:
        raise CheckFailed(f"never copied: {_some(missing)}")
    if too_many := copied - given:
        raise CheckFailed(f"copied too often: {_some(too_many)}")


def _some(values: Counter[bytes]) -> str:
    return ", ".join(f"{value!r} ({times})" for value, times in sorted(values.items())[:5])

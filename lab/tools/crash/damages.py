"""Damages of a stopped broker's files (flipped bits, truncated or missing files), with the required reports.

Damaged acknowledged records are lost on a single machine. So each kind of damage names the offsets of the lost records
and the required words of the broker's log. Its own parser of batch headers finds the batches, independent of kohort.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

USERS = ("in", "out")
"""Topics with known contents."""
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
EPOCHS, OWN_ID, TOPICS = "leader-epoch-checkpoint", "partition.metadata", "kohort-topics.json"
HEADER = struct.Struct(">qi11xi")
"""Base offset, length of the rest, offset delta of the last record."""
LENGTH_ENDS_AT = 12
RECORDS_AT = 61
NOTHING = "nothing"


class StoredBatch(NamedTuple):
    """A batch in a file: position, length, first and last offset."""

    at: int
    size: int
    base: int
    last: int


@dataclass(slots=True)
class Harm:
    """Damage of a folder and its expected effects."""

    what: str
    expected_lines: list[str] = field(default_factory=list)
    """Required parts of the broker's log lines."""
    lost: dict[tuple[str, int], range] = field(default_factory=dict)
    """Lost offsets of user topics."""
    unreadable: bool = False
    """True if the records remain, and reads of them return an error."""
    refused: bool = False
    """True if the broker must not start."""


Damage = Callable[[Path, random.Random], Harm | None]


def batches(log: Path) -> Iterator[StoredBatch]:
    """Yield the whole batches of a segment."""
    data, at = log.read_bytes(), 0
    while at + RECORDS_AT <= len(data):
        base, length, delta = HEADER.unpack_from(data, at)
        size = LENGTH_ENDS_AT + length
        if length <= 0 or at + size > len(data):
            return
        yield StoredBatch(at, size, base, base + delta)
        at += size


def flipped_before_it_was_flushed(data: Path, rng: random.Random) -> Harm | None:
    """Flip a bit in a closed segment that the start reads: the log is truncated there, as in Kafka."""
    log = _closed(data, rng)
    if log is None:
        return None
    _set_recovery_point(data, log.parent, None)
    batch = _flip(log, rng)
    name, later = log.parent.name, _segments(log.parent)
    later = later[later.index(log) + 1 :]
    expected_lines = [
        f"{name}: truncated {log.stat().st_size - batch.at} bytes at offset {batch.base} from {log.name}: "
    ]
    if later:
        size = sum(one.stat().st_size for one in later)
        expected_lines.append(f"{name}: deleted {len(later)} later segments ({size} bytes), from {later[0].name} on")
    return Harm(f"a bit of {name}/{log.name}", expected_lines, _lost(name, batch.base, _end(log.parent)))


def flipped_after_it_was_flushed(data: Path, rng: random.Random) -> Harm | None:
    """Flip a bit below the recovery point, which no start reads, as in Kafka: reads there fail."""
    log = _closed(data, rng)
    if log is None:
        return None
    _set_recovery_point(data, log.parent, _end(log.parent))
    batch = _flip(log, rng)
    name = log.parent.name
    return Harm(f"a bit of {name}/{log.name}, flushed", [], _lost(name, batch.base, batch.last + 1), unreadable=True)


def segment_deleted(data: Path, rng: random.Random) -> Harm | None:
    """Delete a segment between others, with its indexes."""
    log = _closed(data, rng, first=1)
    if log is None:
        return None
    name, all_of_it = log.parent.name, _segments(log.parent)
    at = all_of_it.index(log)
    begins, ends = int(log.stem), int(all_of_it[at + 1].stem)
    for path in log.parent.glob(f"{log.stem}.*"):
        path.unlink()
    missing = f"{name}: offsets {begins} to {ends - 1} are missing: {all_of_it[at - 1].name} ends before"
    return Harm(f"{name}/{log.name} gone", [missing], _lost(name, begins, ends))


def end_removed(data: Path, rng: random.Random) -> Harm | None:
    """Remove flushed batches at the end of a log."""
    log = _last(data, USERS, rng)
    if log is None:
        return None
    _set_recovery_point(data, log.parent, end := _end(log.parent))
    batch = rng.choice(list(batches(log)))
    _cut(log, batch.at)
    name = log.parent.name
    expected_line = f"{name}: offsets {batch.base} to {end - 1} are missing: "
    return Harm(f"the end of {name}, flushed", [expected_line], _lost(name, batch.base, end))


def _torn(data: Path, rng: random.Random, topics: tuple[str, ...]) -> Harm | None:
    log = _last(data, topics, rng)
    if log is None:
        return None
    _set_recovery_point(data, log.parent, None)
    batch, end = rng.choice(list(batches(log))), _end(log.parent)
    kept = rng.randrange(1, batch.size)
    _cut(log, batch.at + kept)
    name = log.parent.name
    expected_line = f"{name}: truncated {kept} bytes at offset {batch.base} from {log.name}: "
    lost = _lost(name, batch.base, end) if topics == USERS else {}
    return Harm(f"{name} torn", [expected_line], lost)


def log_torn(data: Path, rng: random.Random) -> Harm | None:
    """Truncate a log of a user topic within a batch."""
    return _torn(data, rng, USERS)


def offsets_torn(data: Path, rng: random.Random) -> Harm | None:
    """Truncate ``__consumer_offsets`` within a batch: later commits are lost, groups resume at earlier ones."""
    return _torn(data, rng, ("__consumer_offsets",))


def transactions_torn(data: Path, rng: random.Random) -> Harm | None:
    """Truncate ``__transaction_state`` within a batch."""
    return _torn(data, rng, ("__transaction_state",))


def epochs_deleted(data: Path, rng: random.Random) -> Harm | None:
    """Delete the leader epochs of a partition; its batches contain them too."""
    folder = _last(data, USERS, rng)
    if folder is None:
        return None
    (folder.parent / EPOCHS).unlink()
    return Harm(f"{folder.parent.name}/{EPOCHS} gone", [f"{folder.parent.name}: {EPOCHS} is missing"])


def topic_id_deleted(data: Path, rng: random.Random) -> Harm | None:
    """Delete the file with a folder's topic id."""
    folder = _last(data, USERS, rng)
    if folder is None:
        return None
    (folder.parent / OWN_ID).unlink()
    return Harm(f"{folder.parent.name}/{OWN_ID} gone", [f"{folder.parent.name}: {OWN_ID} was missing"])


def checkpoints_deleted(data: Path, _rng: random.Random) -> Harm:
    """Delete the checkpoints of all logs: the start reads all logs, without loss and without a log line."""
    for path in data.glob("*-checkpoint"):
        path.unlink()
    return Harm("the checkpoints gone")


def partition_deleted(data: Path, rng: random.Random) -> Harm | None:
    """Delete the folder of a partition."""
    log = _last(data, USERS, rng)
    if log is None:
        return None
    name, end = log.parent.name, _end(log.parent)
    for path in log.parent.iterdir():
        path.unlink()
    log.parent.rmdir()
    return Harm(f"{name} gone", [f"{name}: its folder was missing; the partition begins empty"], _lost(name, 0, end))


def catalogue_deleted(data: Path, _rng: random.Random) -> Harm:
    """Delete the list of topics: the folders show the topics, but not their options."""
    (data / TOPICS).unlink()
    return Harm(f"{TOPICS} gone", [f"{TOPICS} is missing: read"])


def catalogue_torn(data: Path, rng: random.Random) -> Harm:
    """Truncate the list of topics: the start fails with its name, because its contents are unknown."""
    _cut(data / TOPICS, rng.randrange(1, (data / TOPICS).stat().st_size - 1))
    return Harm(f"{TOPICS} torn", [TOPICS], refused=True)


DAMAGES: list[Damage] = [
    flipped_before_it_was_flushed,
    flipped_after_it_was_flushed,
    segment_deleted,
    end_removed,
    log_torn,
    offsets_torn,
    transactions_torn,
    epochs_deleted,
    topic_id_deleted,
    checkpoints_deleted,
    partition_deleted,
    catalogue_deleted,
    catalogue_torn,
]


# ---------------------------------------------------------------- existing files


def _folders(data: Path, topics: tuple[str, ...]) -> list[Path]:
    return sorted(path for path in data.iterdir() if path.is_dir() and path.name.rpartition("-")[0] in topics)


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def _closed(data: Path, rng: random.Random, first: int = 0) -> Path | None:
    """Return a closed segment of a user topic, not before number ``first`` of its log."""
    found = [log for folder in _folders(data, USERS) for log in _segments(folder)[first:-1] if log.stat().st_size]
    return rng.choice(found) if found else None


def _last(data: Path, topics: tuple[str, ...], rng: random.Random) -> Path | None:
    """Return the last segment with batches of a log of these topics."""
    last = [segments[-1] for folder in _folders(data, topics) if (segments := _segments(folder))]
    found = [log for log in last if any(batches(log))]
    return rng.choice(found) if found else None


def _end(folder: Path) -> int:
    """Return the end offset of a log."""
    return max((batch.last + 1 for log in _segments(folder) for batch in batches(log)), default=0)


def _lost(folder: str, begins: int, ends: int) -> dict[tuple[str, int], range]:
    topic, _, partition = folder.rpartition("-")
    return {(topic, int(partition)): range(begins, ends)}


# ---------------------------------------------------------------- damages


def _flip(log: Path, rng: random.Random) -> StoredBatch:
    """Flip a bit in the records of a batch; return the batch."""
    batch = rng.choice(list(batches(log)))
    data = bytearray(log.read_bytes())
    data[batch.at + rng.randrange(RECORDS_AT, batch.size)] ^= 1 << rng.randrange(8)
    log.write_bytes(data)
    return batch


def _cut(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def _set_recovery_point(data: Path, folder: Path, offset: int | None) -> None:
    """Set the recovery point of a log; None removes it."""
    path = data / RECOVERY_POINTS
    lines = path.read_text().splitlines()[2:] if path.exists() else []
    topic, _, partition = folder.name.rpartition("-")
    kept = [line for line in lines if line.split()[:2] != [topic, partition]]
    if offset is not None:
        kept.append(f"{topic} {partition} {offset}")
    path.write_text("".join(f"{line}\n" for line in ("0", str(len(kept)), *kept)))

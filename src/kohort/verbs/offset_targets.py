"""Where offsets of a group are taken: the same as by Kafka's own tool, by the same rules.

An offset that the log does not have becomes the nearest that it has; a time that no record has reached yet is the end
of the log; what is shifted must have been committed; what stays (``to-current``) and was not committed is the end.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kohort.errors import UsageError
from kohort.model import TopicPartition
from kohort.verbs.group_state import ends_of
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin

Offsets = Mapping[TopicPartition, int]
FilePlan = Mapping[str, dict[TopicPartition, int]]
"""By group; under the empty name what is for the one group that is reset."""
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Way:
    """Where to: the option's name without dashes, and its value; of a file what it says, of times milliseconds."""

    name: str
    value: int = 0
    plan: FilePlan = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Where:
    """What a group has committed, and which of it is to be moved."""

    group_id: str
    committed: Offsets
    partitions: Sequence[TopicPartition]


def offsets_for(admin: Admin, way: Way, where: Where) -> dict[TopicPartition, int]:
    """Return the new offset of each partition, sorted. Raises NothingThere for a partition that does not exist, and
    RefusedByState for one that cannot be shifted."""
    if way.name == "from-file":
        return within(admin, way.plan.get(where.group_id) or way.plan.get("", {}))
    partitions = where.partitions
    if way.name in ("to-earliest", "to-latest"):
        return existing(partitions, ends_of(admin, partitions, way.name.removeprefix("to-")))
    if way.name == "to-offset":
        return within(admin, dict.fromkeys(partitions, way.value))
    if way.name == "to-current":
        ends = existing(partitions, ends_of(admin, partitions, "latest"))
        return {tp: where.committed.get(tp, ends[tp]) for tp in ends}
    if way.name == "shift-by":
        for tp in partitions:
            if tp not in where.committed:
                raise RefusedByState(f"{tp} cannot be shifted: group {where.group_id!r} has committed nothing for it")
        shifted = {tp: min(max(where.committed[tp] + way.value, 0), INT64_MAX) for tp in partitions}
        return within(admin, shifted)
    return first_after(admin, partitions, way.value)


def within(admin: Admin, targets: Offsets) -> dict[TopicPartition, int]:
    """Return the targets, each moved to the nearest offset that the log has."""
    starts, ends = ends_of(admin, targets, "earliest"), ends_of(admin, targets, "latest")
    existing(targets, ends)
    return {tp: min(max(targets[tp], starts[tp]), ends[tp]) for tp in sorted(targets)}


def first_after(admin: Admin, partitions: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
    """Return the first record of that time or later; behind the last record where there is none."""
    ends = existing(partitions, ends_of(admin, partitions, "latest"))
    found = admin.list_offsets(dict.fromkeys(partitions, at_ms), timeout_ms=ADMIN_MS).check()
    return {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp] for tp in ends}


def existing(wanted: Iterable[TopicPartition], found: Offsets) -> dict[TopicPartition, int]:
    """Return what was found, sorted. Raises NothingThere where that is not all."""
    missing = sorted(set(wanted) - set(found))
    if missing:
        names = ", ".join(str(tp) for tp in missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise NothingThere(f"{names}: no such partition")
    return {tp: found[tp] for tp in sorted(found)}


def partitions_named(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions that ``--topic TOPIC`` and ``--topic TOPIC:0,3`` name. Raises NothingThere for a topic or a
    partition that does not exist, UsageError for what is no such text."""
    wanted: dict[TopicPartition, None] = {}
    for text in topics:
        name, _, numbers = text.partition(":")
        chosen = parse_numbers(text, numbers)
        described = admin.describe_topics([name], timeout_ms=ADMIN_MS)
        count = len(described[name].partitions)
        for number in chosen or range(count):
            if number >= count:
                raise NothingThere(f"--topic {text}: {name} has {count} partitions, 0 to {count - 1}")
            wanted[TopicPartition(name, number)] = None
    return sorted(wanted)


def parse_numbers(text: str, numbers: str) -> list[int]:
    """``0,3`` as numbers."""
    if not numbers and not text.endswith(":"):
        return []
    if not all(n.isascii() and n.isdecimal() and len(n) < 10 for n in numbers.split(",")):
        raise UsageError(f"{text!r}: expected TOPIC or TOPIC:0,3")
    return [int(n) for n in numbers.split(",")]


def parse_time(text: str) -> int:
    """Milliseconds of an ISO 8601 time; UTC where it names no zone. Raises UsageError for any other text."""
    try:
        at = dt.datetime.fromisoformat(text)
        at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at
        at_ms = int(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        at_ms = -1
    if at_ms < 0:
        raise UsageError(f"{text!r} is no time such as 2026-11-20T08:00:00")
    return at_ms

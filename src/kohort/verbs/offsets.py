"""Committed offsets of a group: reset as in Kafka's own tool, read new offsets from CSV files, clone a group."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kohort.errors import KohortError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.results.groups import DeletedOffset, MovedPartition
from kohort.verbs.groups import check_inactive, describe, described_or_none, ends_of, no_such_group
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription

Offsets = Mapping[TopicPartition, int]
FilePlan = Mapping[str, dict[TopicPartition, int]]
"""New offsets of each group from a CSV file. The group name is empty if the file has no column for the group."""
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class OffsetTarget:
    """Target of an offset reset.

    ``name``: option that sets the target, without dashes. ``value``: its number, or its time in ms. ``plan``: offsets
    of a file, for --from-file.
    """

    name: str
    value: int = 0
    plan: FilePlan = field(default_factory=dict)


def offsets_for(
    admin: Admin, way: OffsetTarget, group_id: str, committed: Offsets, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the offset to commit for each partition in a reset. Raises NothingThere, RefusedByState."""
    if way.name == "from-file":
        return within(admin, way.plan.get(group_id) or way.plan.get("", {}))
    if way.name in ("to-earliest", "to-latest"):
        return existing(partitions, ends_of(admin, partitions, way.name.removeprefix("to-")))
    if way.name == "to-offset":
        return within(admin, dict.fromkeys(partitions, way.value))
    if way.name == "to-current":
        ends = existing(partitions, ends_of(admin, partitions, "latest"))
        return {tp: committed.get(tp, ends[tp]) for tp in ends}
    if way.name == "shift-by":
        for tp in partitions:
            if tp not in committed:
                raise RefusedByState(f"cannot shift {tp}: group {group_id!r} has no committed offset for it")
        shifted = {tp: min(max(committed[tp] + way.value, 0), INT64_MAX) for tp in partitions}
        return within(admin, shifted)
    return first_after(admin, partitions, way.value)


def committed_offsets(admin: Admin, group_id: str) -> dict[TopicPartition, int]:
    found = admin.list_group_offsets(group_id, timeout_ms=ADMIN_MS).check()
    return {tp: at.offset for tp, at in found.items() if at is not None}


def within(admin: Admin, targets: Offsets) -> dict[TopicPartition, int]:
    """Limit each offset to the range from log start to log end."""
    starts, ends = ends_of(admin, targets, "earliest"), ends_of(admin, targets, "latest")
    existing(targets, ends)
    return {tp: min(max(targets[tp], starts[tp]), ends[tp]) for tp in sorted(targets)}


def first_after(admin: Admin, partitions: Sequence[TopicPartition], at_ms: int) -> dict[TopicPartition, int]:
    """Return the first offset at or after a timestamp for each partition.

    Without such an offset, return the log end.
    """
    ends = existing(partitions, ends_of(admin, partitions, "latest"))
    found = admin.list_offsets(dict.fromkeys(partitions, at_ms), timeout_ms=ADMIN_MS).check()
    return {tp: found[tp].offset if found[tp].offset >= 0 else ends[tp] for tp in ends}


def existing(wanted: Iterable[TopicPartition], found: Offsets) -> dict[TopicPartition, int]:
    """Return the offsets ``found``, in order of the partitions.

    Raises NothingThere if a ``wanted`` partition is missing.
    """
    missing = sorted(set(wanted) - set(found))
    if missing:
        names = ", ".join(str(tp) for tp in missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise NothingThere(f"{names}: the partition does not exist")
    return {tp: found[tp] for tp in sorted(found)}


def parse_partitions(admin: Admin, topics: Sequence[str]) -> list[TopicPartition]:
    """Parse texts like ``orders`` (all its partitions) or ``orders:0,3``. Raises NothingThere, UsageError."""
    wanted: dict[TopicPartition, None] = {}
    for text in topics:
        name, _, numbers = text.partition(":")
        chosen = parse_numbers(text, numbers)
        described = admin.describe_topics([name], timeout_ms=ADMIN_MS)
        count = len(described[name].partitions)
        for number in chosen or range(count):
            if number >= count:
                raise NothingThere(f"--topic {text}: topic {name} has partitions 0 to {count - 1}")
            wanted[TopicPartition(name, number)] = None
    return sorted(wanted)


def parse_numbers(text: str, numbers: str) -> list[int]:
    if not numbers and not text.endswith(":"):
        return []
    if not all(n.isascii() and n.isdecimal() and len(n) < 10 for n in numbers.split(",")):
        raise UsageError(f"{text!r}: expected TOPIC or TOPIC:0,3")
    return [int(n) for n in numbers.split(",")]


def parse_time(text: str) -> int:
    """Parse an ISO 8601 time (UTC by default) to a timestamp in ms. Raises UsageError."""
    try:
        at = dt.datetime.fromisoformat(text)
        at = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at
        at_ms = int(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        at_ms = -1
    if at_ms < 0:
        raise UsageError(f"{text!r}: expected a time such as 2026-11-20T08:00:00")
    return at_ms


SHOWN: Final = 80
"""Maximum number of characters of a CSV line that an error message quotes."""


def read_plan(text: str, *, one_group: bool) -> dict[str, dict[TopicPartition, int]]:
    """Parse the CSV lines ``[group,]topic,partition,offset`` of a reset. Raises UsageError with the line number."""
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(_rows_of(text), 1):
        if not row:
            continue
        cells = ["", *row] if len(row) == 3 and one_group else row
        figures = [cell.strip() for cell in cells[2:]]
        if len(cells) != 4 or not all(f.isascii() and f.isdecimal() and len(f) < 19 for f in figures):
            expected = f"{'topic,partition,offset or ' if one_group else ''}group,topic,partition,offset"
            raise UsageError(f"line {number}: {','.join(row)[:SHOWN]!r}: expected {expected}")
        plan.setdefault(cells[0], {})[TopicPartition(cells[1], int(figures[0]))] = int(figures[1])
    return plan


def _rows_of(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text)))
    except csv.Error as error:  # the csv module rejects fields over 128 KiB and NUL characters
        raise UsageError(f"invalid CSV: {error}") from None


def export_text(offsets: Mapping[str, Offsets], *, one_group: bool) -> str:
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for group_id, moved in offsets.items():
        for tp, offset in moved.items():
            rows.writerow([*([] if one_group else [group_id]), tp.topic, tp.partition, offset])
    return out.getvalue()


@dataclass(slots=True)
class Moved:
    """Committed offsets of a group before and after a reset. ``about`` is None if the group does not exist."""

    before: Mapping[TopicPartition, int]
    after: dict[TopicPartition, int]
    about: GroupDescription | None
    failed: Mapping[TopicPartition, KohortError] = field(default_factory=dict)
    missing: Sequence[TopicPartition] = ()
    with_metadata: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """New offsets together with the commit metadata of the cloned group. Empty for a reset."""

    @property
    def written(self) -> Mapping[TopicPartition, int | OffsetAndMetadata]:
        return self.with_metadata or self.after


def move(admin: Admin, group_id: str, topics: Sequence[str], way: OffsetTarget, *, execute: bool) -> Moved:
    """Compute the new offsets of a group for a reset, and commit them if ``execute``.

    Raises NothingThere, RefusedByState.
    """
    about = described_or_none(admin, group_id)
    if about is None and not topics and way.name != "from-file":
        raise no_such_group(admin, group_id)
    if execute and about is not None:
        check_inactive(about, "reset", most=10)
    committed = {} if about is None else committed_offsets(admin, group_id)
    missing: list[TopicPartition] = []
    if topics:
        partitions = parse_partitions(admin, topics)
    else:
        partitions = sorted(ends_of(admin, committed, "latest"))
        missing = sorted(set(committed) - set(partitions))
        if not partitions and way.name != "from-file":
            raise NothingThere(f"group {group_id!r} has no committed offsets: set --topic")
    after = offsets_for(admin, way, group_id, committed, partitions)
    if not after:
        raise NothingThere(f"the file has no offsets for group {group_id!r}")
    failed = admin.alter_group_offsets(group_id, after, check=False, timeout_ms=ADMIN_MS).errors if execute else {}
    return Moved(committed, after, about, failed, missing)


def moved_rows(moved: Mapping[str, Moved]) -> list[MovedPartition]:
    return [
        MovedPartition(
            group=group_id,
            topic=tp.topic,
            partition=tp.partition,
            new_offset=offset,
            prior_offset=prior,
            skipped=None if prior is None else max(0, offset - prior),
            read_again=None if prior is None else max(0, prior - offset),
            error=None if tp not in each.failed else str(each.failed[tp]),
        )
        for group_id, each in moved.items()
        for tp, offset in each.after.items()
        for prior in (each.before.get(tp),)
    ]


def clone_offsets(admin: Admin, source: str, target: str, *, execute: bool) -> Moved:
    """Copy committed offsets and commit metadata of the group ``source`` to the group ``target``.

    Without ``execute``, only computes the new offsets. Raises UsageError, NothingThere, RefusedByState.
    """
    if source == target:
        raise UsageError(f"{source!r} and {target!r} are the same group")
    describe(admin, source)
    found = admin.list_group_offsets(source, timeout_ms=ADMIN_MS).check()
    given = {tp: at for tp in sorted(found) if (at := found[tp]) is not None}
    if not given:
        raise NothingThere(f"group {source!r} has no committed offsets")
    about = described_or_none(admin, target)
    committed = {} if about is None else committed_offsets(admin, target)
    if execute and about is not None:
        check_inactive(about, "changed", most=10)
    failed = admin.alter_group_offsets(target, given, check=False, timeout_ms=ADMIN_MS).errors if execute else {}
    return Moved(committed, {tp: at.offset for tp, at in given.items()}, about, failed, with_metadata=given)


def deleted_rows(partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int]) -> list[DeletedOffset]:
    return [DeletedOffset(topic=tp.topic, partition=tp.partition, offset=committed[tp]) for tp in partitions]


def committed_of(committed: Iterable[TopicPartition], topics: Sequence[str]) -> list[TopicPartition]:
    chosen: set[TopicPartition] = set()
    for text in topics:
        name, _, numbers = text.partition(":")
        only = parse_numbers(text, numbers)
        chosen |= {tp for tp in committed if tp.topic == name and (not only or tp.partition in only)}
    return sorted(chosen)

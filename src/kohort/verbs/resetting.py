"""Resets of groups: the plan, what it would skip or read again, and the act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kohort.errors import KohortError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.results.groups import MovedPartition
from kohort.verbs.group_state import described_or_none, ends_of, names_of_members, no_such_group
from kohort.verbs.offset_targets import Way, Where, offsets_for, partitions_named
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription


@dataclass(slots=True)
class Moved:
    """What became of one group: where it was, where it goes, and its description, None for one that does not exist."""

    before: Mapping[TopicPartition, int]
    after: dict[TopicPartition, int]
    about: GroupDescription | None
    failed: Mapping[TopicPartition, KohortError] = field(default_factory=dict)
    """Partitions that stay where they are, since the coordinator refused them."""
    gone: Sequence[TopicPartition] = ()
    """Partitions that stay where they are, since they do not exist any more."""
    with_metadata: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """Of what is another group's: ``after`` as that group has committed it."""

    @property
    def written(self) -> Mapping[TopicPartition, int | OffsetAndMetadata]:
        """Return what is committed when it is done."""
        return self.with_metadata or self.after


def move(admin: Admin, group_id: str, topics: Sequence[str], way: Way, *, execute: bool) -> Moved:
    """Return where a group goes; with ``execute`` it is there.

    Partitions that the coordinator refuses are in ``failed``. Raises NothingThere for what does not exist,
    RefusedByState for a group that has members.
    """
    about = described_or_none(admin, group_id)
    if about is None and not topics and way.name != "from-file":
        raise no_such_group(admin, group_id)
    if execute and about is not None and about.members:
        raise RefusedByState(
            f"group {group_id!r} is {about.state} and cannot be reset while it has members: "
            f"{names_of_members(about, most=10)}"
        )
    committed = {}
    if about is not None:
        found = admin.list_group_offsets(group_id, timeout_ms=ADMIN_MS).check()
        committed = {tp: at.offset for tp in found if (at := found[tp]) is not None}
    gone: list[TopicPartition] = []
    if topics:
        partitions = partitions_named(admin, topics)
    else:
        partitions = sorted(ends_of(admin, committed, "latest"))
        gone = sorted(set(committed) - set(partitions))
        if not partitions and way.name != "from-file":
            raise NothingThere(f"group {group_id!r} has committed nothing: name a --topic")
    after = offsets_for(admin, way, Where(group_id, committed, partitions))
    if not after:
        raise NothingThere(f"the file says nothing of group {group_id!r}")
    failed = admin.alter_group_offsets(group_id, after, check=False, timeout_ms=ADMIN_MS).errors if execute else {}
    return Moved(committed, after, about, failed, gone)


def moved_rows(moved: Mapping[str, Moved]) -> list[MovedPartition]:
    """Return each partition, and what its move skips or reads again."""
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

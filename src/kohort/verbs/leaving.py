"""Who is to leave a group, and what of it is to be forgotten, by the names that users give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kohort.model import TopicPartition
from kohort.nearest import did_you_mean
from kohort.results.groups import DeletedOffset, RemovedMember
from kohort.verbs.offset_targets import parse_numbers
from kohort.verbs.refusals import NothingThere
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, MemberDescription
    from kohort.client.admin.operations import Results


def members_named(about: GroupDescription, names: Sequence[str]) -> list[MemberDescription]:
    """Return the members of these ids or instance ids. Raises NothingThere for a name that no member has."""
    by_id = {m.member_id: m for m in about.members}
    by_instance = {m.group_instance_id: m for m in about.members if m.group_instance_id is not None}
    known = {**by_id, **by_instance}
    for name in names:
        if name not in known:
            near = did_you_mean(name, [*by_instance, *by_id])
            raise NothingThere(f"group {about.group_id!r} has no member {name!r}{near}")
    return list({known[name].member_id: known[name] for name in names}.values())


def remove_members(
    admin: Admin, group_id: str, chosen: Sequence[MemberDescription], reason: str
) -> tuple[list[MemberDescription], Results[str, None]]:
    """Take members out of a group; return those that are out, and the results, with the errors of the others."""
    static = [m.group_instance_id for m in chosen if m.group_instance_id is not None]
    dynamic = [m.member_id for m in chosen if m.group_instance_id is None]
    results = admin.remove_group_members(
        group_id, dynamic, instance_ids=static, reason=reason, check=False, timeout_ms=ADMIN_MS
    )
    return [m for m in chosen if (m.group_instance_id or m.member_id) not in results.errors], results


def removed_rows(members: Iterable[MemberDescription]) -> list[RemovedMember]:
    """Return members that are taken out, as values."""
    return [
        RemovedMember(
            member_id=m.member_id,
            group_instance_id=m.group_instance_id,
            client_id=m.client_id,
            host=m.client_host,
            assignment=[str(tp) for tp in sorted(m.assignment)],
        )
        for m in members
    ]


def deleted_rows(partitions: Iterable[TopicPartition], committed: Mapping[TopicPartition, int]) -> list[DeletedOffset]:
    """Return partitions whose offsets are forgotten, with what was committed, as values."""
    return [DeletedOffset(topic=tp.topic, partition=tp.partition, offset=committed[tp]) for tp in partitions]


def committed_of(committed: Iterable[TopicPartition], topics: Sequence[str]) -> list[TopicPartition]:
    """Return those of the partitions that ``--topic`` names. Raises UsageError for what is no such text."""
    chosen: set[TopicPartition] = set()
    for text in topics:
        name, _, numbers = text.partition(":")
        only = parse_numbers(text, numbers)
        chosen |= {tp for tp in committed if tp.topic == name and (not only or tp.partition in only)}
    return sorted(chosen)

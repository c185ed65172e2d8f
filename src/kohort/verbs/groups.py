"""Operations on groups for commands and the console: describe groups, remove members, look up log ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition
from kohort.nearest import did_you_mean
from kohort.notes import printable
from kohort.results.groups import RemovedMember
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, MemberDescription
    from kohort.client.admin.operations import Results


def describe(admin: Admin, group_id: str) -> GroupDescription:
    """Describe a group. If it does not exist, raises NothingThere with the most similar group name."""
    found = described_or_none(admin, group_id)
    if found is None:
        raise no_such_group(admin, group_id)
    return found


def described_or_none(admin: Admin, group_id: str) -> GroupDescription | None:
    results = admin.describe_groups([group_id], timeout_ms=ADMIN_MS)
    return None if is_missing(results.errors.get(group_id)) else results[group_id]


def is_missing(error: KohortError | None) -> bool:
    return isinstance(error, ApiError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND


def no_such_group(admin: Admin, group_id: str) -> KohortError:
    """Return the error for a missing group, with the most similar group name.

    Raises KohortError if a group of this name exists, but is neither a classic nor a consumer group.
    """
    listed = {g.group_id: g.group_type for g in admin.list_groups(timeout_ms=ADMIN_MS)}
    check_described(group_id, listed.get(group_id, ""))
    servers = ",".join(admin.config.bootstrap_servers)
    return NothingThere(f"group {group_id!r} does not exist on {servers}{did_you_mean(group_id, list(listed))}")


def check_described(group_id: str, group_type: str) -> None:
    """Raise KohortError for a group type that kohort does not describe, such as share groups (KIP-932)."""
    if group_type not in ("", "classic", "consumer"):
        raise KohortError(f"group {group_id!r} is a {group_type} group; only classic and consumer groups are described")


def check_inactive(group: GroupDescription, verb: str, *, most: int = 3) -> None:
    """Raise RefusedByState if the group has members. The error names at most ``most`` of them."""
    if group.members:
        raise RefusedByState(
            f"group {group.group_id!r} is {group.state} and cannot be {verb} while it has members: "
            f"{names_of_members(group, most=most)}"
        )


def names_of_members(group: GroupDescription, *, most: int = 3) -> str:
    names = [printable(f"{m.client_id or m.member_id} at {m.client_host}") for m in group.members]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def ends_of(admin: Admin, partitions: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """Return the log start (``which="earliest"``) or the log end (``"latest"``) of each partition that exists."""
    results = admin.list_offsets(dict.fromkeys(partitions, which), timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        if not isinstance(error, ApiError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    return {tp: results[tp].offset for tp in results if tp not in results.errors}


def find_members(about: GroupDescription, names: Sequence[str]) -> list[MemberDescription]:
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
    """Remove members from a group. Return the removed members, and results with an error for each other member."""
    static = [m.group_instance_id for m in chosen if m.group_instance_id is not None]
    dynamic = [m.member_id for m in chosen if m.group_instance_id is None]
    results = admin.remove_group_members(
        group_id, dynamic, instance_ids=static, reason=reason, check=False, timeout_ms=ADMIN_MS
    )
    return [m for m in chosen if (m.group_instance_id or m.member_id) not in results.errors], results


def removed_rows(members: Iterable[MemberDescription]) -> list[RemovedMember]:
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

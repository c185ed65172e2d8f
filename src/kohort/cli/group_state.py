"""What is known of groups, gathered: members, offsets, lag; as values that tables and JSON are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kohort.cli.exits import NothingThere, RefusedByState
from kohort.cli.options import ADMIN_MS
from kohort.cli.show import cell
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import NO_EPOCH, TopicPartition
from kohort.nearest import did_you_mean

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, MemberDescription


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition that a group reads, has committed, or both."""

    partition: TopicPartition
    committed: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    member: MemberDescription | None
    metadata: str = ""

    @property
    def lag(self) -> int | None:
        """Records behind the end; None where nothing is committed, or the topic is gone."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return max(self.log_end_offset - self.committed, 0)

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "current_offset": self.committed,
            "log_start_offset": self.log_start_offset,
            "log_end_offset": self.log_end_offset,
            "lag": self.lag,
            "member_id": self.member.member_id if self.member else None,
            "client_id": self.member.client_id if self.member else None,
            "host": self.member.client_host if self.member else None,
            "metadata": self.metadata,
        }


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group with its members and its partitions."""

    description: GroupDescription
    partitions: list[PartitionState]

    @property
    def lag(self) -> int | None:
        """Of all partitions together; None where nothing is committed at all."""
        return _sum(self.partitions)

    def lag_of(self, member: MemberDescription) -> int | None:
        """Add up the lag of the partitions that a member reads."""
        return _sum(p for p in self.partitions if p.member is member)

    def as_json(self) -> dict[str, Any]:
        about = self.description
        return {
            "group": about.group_id,
            "state": about.state,
            "group_type": about.group_type,
            "group_epoch": epoch_json(about.group_epoch),
            "assignment_epoch": epoch_json(about.assignment_epoch),
            "protocol_type": about.protocol_type,
            "assignor": about.assignor,
            "coordinator_id": about.coordinator_id,
            "lag": self.lag,
            "members": [{**member_json(m), "lag": self.lag_of(m)} for m in about.members],
            "partitions": [p.as_json() for p in self.partitions],
        }


def _sum(partitions: Iterable[PartitionState]) -> int | None:
    known = [p.lag for p in partitions if p.lag is not None]
    return sum(known) if known else None


def member_json(member: MemberDescription) -> dict[str, Any]:
    target = member.target_assignment
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "topics": list(member.topics),
        "assignment": [str(tp) for tp in sorted(member.assignment)],
        "member_type": member.member_type,
        "member_epoch": None if target is None else member.member_epoch,
        "topic_regex": member.topic_regex,
        "rack_id": member.rack_id,
        "target_assignment": None if target is None else [str(tp) for tp in sorted(target)],
        "to_give_up": [str(tp) for tp in member.to_give_up],
        "to_get": [str(tp) for tp in member.to_get],
    }


def epoch_json(epoch: int) -> int | None:
    """Return an epoch of a group; None where it has none."""
    return None if epoch == NO_EPOCH else epoch


def describe(admin: Admin, group_id: str) -> GroupDescription:
    """Return the group. Raises NothingThere, with a guess at what was meant, where there is none."""
    results = admin.describe_groups([group_id], timeout_ms=ADMIN_MS)
    try:
        return results[group_id]
    except ApiError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    listed = {g.group_id: g.group_type for g in admin.list_groups(timeout_ms=ADMIN_MS)}
    names = list(listed)
    check_described(group_id, listed.get(group_id, ""))
    servers = ",".join(admin.config.bootstrap_servers)
    raise NothingThere(f"group {group_id!r} does not exist on {servers}{did_you_mean(group_id, names)}")


def check_described(group_id: str, group_type: str) -> None:
    """Raise KohortError for a group of a type that is not described here, such as share groups (KIP-932)."""
    if group_type not in ("", "classic", "consumer"):
        raise KohortError(f"group {group_id!r} is a {group_type} group; only classic and consumer groups are described")


def check_inactive(group: GroupDescription, verb: str) -> None:
    """Raise RefusedByState, naming them, where the group has members."""
    if group.members:
        raise RefusedByState(
            f"group {group.group_id!r} is {group.state} and cannot be {verb} while it has members: "
            f"{names_of_members(group)}"
        )


def names_of_members(group: GroupDescription) -> str:
    """Return the first three in words, and how many more there are."""
    names = [cell(f"{m.client_id or m.member_id} at {m.client_host}") for m in group.members]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def states_of(admin: Admin, descriptions: Iterable[GroupDescription]) -> list[GroupState]:
    """Return the groups with their offsets; the ends of all partitions are asked for once."""
    groups = list(descriptions)
    committed = {g.group_id: admin.list_group_offsets(g.group_id, timeout_ms=ADMIN_MS).check() for g in groups}
    owners = {g.group_id: {tp: m for m in g.members for tp in m.assignment} for g in groups}
    wanted = {g.group_id: sorted({*committed[g.group_id], *owners[g.group_id]}) for g in groups}
    everything = sorted({tp for partitions in wanted.values() for tp in partitions})
    starts, ends = ends_of(admin, everything, "earliest"), ends_of(admin, everything, "latest")
    states = []
    for group in groups:
        partitions = []
        for tp in wanted[group.group_id]:
            at = committed[group.group_id].get(tp)
            owner = owners[group.group_id].get(tp)
            partitions.append(
                PartitionState(
                    tp, at.offset if at else None, starts.get(tp), ends.get(tp), owner, at.metadata if at else ""
                )
            )
        states.append(GroupState(group, partitions))
    return states


def unowned(admin: Admin, group: GroupDescription) -> list[TopicPartition]:
    """Partitions of topics that members of a stable group subscribe to, and that none of them has."""
    topics = {topic for member in group.members for topic in member.topics}
    if group.state != "Stable" or not topics:
        return []
    results = admin.describe_topics(sorted(topics), timeout_ms=ADMIN_MS)
    known = [results[name] for name in results if name not in results.errors]
    wanted = {TopicPartition(topic.name, p.partition) for topic in known for p in topic.partitions}
    return sorted(wanted - {tp for member in group.members for tp in member.assignment})


def ends_of(admin: Admin, partitions: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """Return the first or last offsets, of the partitions that exist. Raises what is wrong with any of the others."""
    results = admin.list_offsets(dict.fromkeys(partitions, which), timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        if not isinstance(error, ApiError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    return {tp: results[tp].offset for tp in results if tp not in results.errors}

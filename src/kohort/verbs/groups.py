"""Groups as commands need them: descriptions, members to remove, offsets to delete, rows of a listing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import NO_EPOCH, TopicPartition
from kohort.nearest import did_you_mean
from kohort.notes import printable
from kohort.results.groups import RemovedMember
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription, MemberDescription
    from kohort.client.admin.operations import Results


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition that a group reads, has committed, or both."""

    partition: TopicPartition
    committed: int | None
    log_start_offset: int | None
    log_end_offset: int | None
    member: MemberDescription | None
    metadata: str = ""
    leader_epoch: int | None = None

    @property
    def lag(self) -> int | None:
        """Records behind the end, below 0 for a commit beyond it, as Kafka's own tool counts; None where nothing is
        committed, or the topic is gone."""
        if self.committed is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.committed


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group with its members and its partitions."""

    description: GroupDescription
    partitions: list[PartitionState]
    coordinator: str | None = None
    """Its address."""

    @property
    def lag(self) -> int | None:
        """Of all partitions together; None where nothing is committed at all."""
        return _sum(self.partitions)

    def lag_of(self, member: MemberDescription) -> int | None:
        """Add up the lag of the partitions that a member reads."""
        return _sum(p for p in self.partitions if p.member is member)


def _sum(partitions: Iterable[PartitionState]) -> int | None:
    known = [max(p.lag, 0) for p in partitions if p.lag is not None]
    return sum(known) if known else None


def describe(admin: Admin, group_id: str) -> GroupDescription:
    """Return the group. Raises NothingThere, with a guess at what was meant, where there is none."""
    found = described_or_none(admin, group_id)
    if found is None:
        raise no_such_group(admin, group_id)
    return found


def described_or_none(admin: Admin, group_id: str) -> GroupDescription | None:
    """Return the group; None where there is none of that name."""
    results = admin.describe_groups([group_id], timeout_ms=ADMIN_MS)
    error = results.errors.get(group_id)
    if isinstance(error, ApiError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    return results[group_id]


def no_such_group(admin: Admin, group_id: str) -> KohortError:
    """Return the error that says so, with a guess at what was meant. Raises KohortError for a group of another kind."""
    listed = {g.group_id: g.group_type for g in admin.list_groups(timeout_ms=ADMIN_MS)}
    names = list(listed)
    check_described(group_id, listed.get(group_id, ""))
    servers = ",".join(admin.config.bootstrap_servers)
    return NothingThere(f"group {group_id!r} does not exist on {servers}{did_you_mean(group_id, names)}")


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


def names_of_members(group: GroupDescription, *, most: int = 3) -> str:
    """Return the first in words, and how many more there are."""
    names = [printable(f"{m.client_id or m.member_id} at {m.client_host}") for m in group.members]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def states_of(admin: Admin, descriptions: Iterable[GroupDescription]) -> list[GroupState]:
    """Return the groups with their offsets; the ends of all partitions are asked for once."""
    groups = list(descriptions)
    told = admin.list_offsets_of_groups([g.group_id for g in groups], timeout_ms=ADMIN_MS).check()
    committed = {name: told[name].check() for name in told}
    owners = {g.group_id: {tp: m for m in g.members for tp in m.assignment} for g in groups}
    wanted = {g.group_id: sorted({*committed[g.group_id], *owners[g.group_id]}) for g in groups}
    everything = sorted({tp for partitions in wanted.values() for tp in partitions})
    starts, ends = ends_of(admin, everything, "earliest"), ends_of(admin, everything, "latest")
    cluster = admin.describe_cluster(timeout_ms=ADMIN_MS)
    nodes = {node.node_id: f"{node.host}:{node.port}" for node in cluster.nodes}
    states = []
    for group in groups:
        partitions = []
        for tp in wanted[group.group_id]:
            at = committed[group.group_id].get(tp)
            owner = owners[group.group_id].get(tp)
            epoch = at.leader_epoch if at and at.leader_epoch != NO_EPOCH else None
            offset, metadata = (at.offset, at.metadata) if at else (None, "")
            partitions.append(PartitionState(tp, offset, starts.get(tp), ends.get(tp), owner, metadata, epoch))
        states.append(GroupState(group, partitions, nodes.get(group.coordinator_id)))
    return states


def unowned(admin: Admin, groups: Sequence[GroupDescription]) -> dict[str, list[TopicPartition]]:
    """Return, by group, the partitions of topics that members of a stable group subscribe to, and that none has."""
    topics = {
        g.group_id: {topic for member in g.members for topic in member.topics} if g.state == "Stable" else set()
        for g in groups
    }
    wanted = sorted(set().union(*topics.values()))
    numbers: dict[str, list[int]] = {}
    if wanted:
        results = admin.describe_topics(wanted, timeout_ms=ADMIN_MS)
        known = [results[name] for name in results if name not in results.errors]
        numbers = {topic.name: [p.partition for p in topic.partitions] for topic in known}
    found = {}
    for group in groups:
        named = {TopicPartition(t, number) for t in topics[group.group_id] for number in numbers.get(t, ())}
        found[group.group_id] = sorted(named - {tp for member in group.members for tp in member.assignment})
    return found


def ends_of(admin: Admin, partitions: Iterable[TopicPartition], which: str) -> dict[TopicPartition, int]:
    """Return the first or last offsets, of the partitions that exist. Raises what is wrong with any of the others."""
    results = admin.list_offsets(dict.fromkeys(partitions, which), timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        if not isinstance(error, ApiError) or error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise error
    return {tp: results[tp].offset for tp in results if tp not in results.errors}


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

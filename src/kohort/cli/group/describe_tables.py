"""The tables of ``kohort group describe``: the columns of Kafka's own tool, in its order, and then what is ours.

Compared with that tool, column by column, in ``tests/interop/test_group_tool.py``. One thing differs: an empty value is
``-`` here everywhere, where the tool leaves an instance id blank.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kohort.cli.group.chosen import in_ranges
from kohort.model import NO_EPOCH, TopicPartition, by_topic

if TYPE_CHECKING:
    from kohort.client.admin.model import MemberDescription
    from kohort.verbs.groups import GroupState

CellTable = tuple[tuple[str, ...], list[tuple[object, ...]]]


def offsets_table(found: GroupState, *, verbose: bool) -> CellTable:
    """Return a row per partition; ``verbose``: with the leader epoch of what is committed (KIP-1099)."""
    epoch = ("LEADER-EPOCH",) if verbose else ()
    columns = ("GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    rows: list[tuple[object, ...]] = []
    for p in found.partitions:
        owner = (p.member.member_id, p.member.client_host, p.member.client_id) if p.member else (None, None, None)
        at = (found.description.group_id, p.partition.topic, p.partition.partition)
        rows.append((*at, *((p.leader_epoch,) if verbose else ()), p.committed, p.log_end_offset, p.lag, *owner))
    return (*columns, "CONSUMER-ID", "HOST", "CLIENT-ID"), rows


def members_table(found: GroupState, *, verbose: bool) -> CellTable:
    """Return a row per member; ``verbose``: with epochs, what it has and what it is to have (KIP-1099)."""
    about = found.description
    static = any(m.group_instance_id for m in about.members)
    mixed = {"classic", "consumer"} <= {m.member_type for m in about.members} and about.group_type == "consumer"
    columns = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if static else []), "HOST", "CLIENT-ID", "#PARTITIONS"]
    if verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        columns += ["UPGRADED"] if mixed else []
    elif about.group_type == "consumer":
        columns += ["TO-GIVE-UP", "TO-GET"]
    else:
        columns += ["LAG", "ASSIGNMENT"]
    rows: list[tuple[object, ...]] = []
    for m in about.members:
        row: list[object] = [about.group_id, m.member_id, *([m.group_instance_id] if static else [])]
        row += [m.client_host, m.client_id, len(m.assignment)]
        if verbose:
            row += _progress(m, about.assignment_epoch)
            row += [_upgraded(m)] if mixed else []
        elif about.group_type == "consumer":
            row += [in_ranges(m.to_give_up), in_ranges(m.to_get)]
        else:
            row += [found.lag_of(m), in_ranges(m.assignment)]
        rows.append(tuple(row))
    return tuple(columns), rows


def _progress(member: MemberDescription, target_epoch: int) -> list[object]:
    """Return where a member is, and where it is to come to; nothing of that is known in a classic group."""
    has = numbered(member.assignment)
    if member.target_assignment is None:
        return [None, has, None, None]
    return [member.member_epoch, has, known(target_epoch), numbered(member.target_assignment)]


def _upgraded(member: MemberDescription) -> str | None:
    return {"consumer": "true", "classic": "false"}.get(member.member_type)


def state_table(found: GroupState, *, verbose: bool) -> CellTable:
    """Return the one row of a group; its epochs are the tool's with ``verbose``, and ours after them without."""
    about = found.description
    epochs = (known(about.group_epoch), known(about.assignment_epoch))
    host = found.coordinator
    coordinator = f"{host} ({about.coordinator_id})" if host else f"({about.coordinator_id})"
    columns: tuple[str, ...] = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE")
    row: tuple[object, ...] = (about.group_id, coordinator, about.assignor, about.state)
    if verbose:
        columns, row = (*columns, "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"), (*row, *epochs)
    columns, row = (*columns, "#MEMBERS", "LAG"), (*row, len(about.members), found.lag)
    if not verbose and about.group_type == "consumer":
        columns, row = (*columns, "GROUP-EPOCH", "TARGET-EPOCH"), (*row, *epochs)
    return columns, [row]


def known(epoch: int) -> int | None:
    """Return an epoch of a group; None where it has none."""
    return None if epoch == NO_EPOCH else epoch


def numbered(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions as the tool does: ``orders:0,1,2;payments:1``."""
    numbers = by_topic(sorted(set(partitions)))
    return ";".join(f"{topic}:{','.join(map(str, of_topic))}" for topic, of_topic in sorted(numbers.items()))

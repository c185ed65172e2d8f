"""In which steps a scenario reaches a group: who goes and who comes with each rebalance."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from kohort.errors import UsageError
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot
from kohort.insight.what_if.scenario import Scenario, WhatIfMember


class MembersChange(NamedTuple):
    """Who goes and who comes with one rebalance."""

    gone: frozenset[str] = frozenset()
    come: tuple[WhatIfMember, ...] = ()


def present_members(snapshot: GroupSnapshot) -> list[WhatIfMember]:
    """Return the members of a snapshot as an assignor would see them."""
    return [_member(member) for member in snapshot.members]


def _member(member: MemberSnapshot) -> WhatIfMember:
    owned = member.assignment if member.target is None else member.target
    return WhatIfMember(
        member_id=member.member_id,
        client_id=member.client_id,
        instance_id=member.instance_id,
        topics=member.topics or tuple(sorted({tp.topic for tp in owned})),
        owned=owned,
        regex=member.regex or None,
    )


def steps_of(scenario: Scenario, members: list[WhatIfMember], *, modern: bool) -> list[MembersChange]:
    """Return the steps: together in a classic group, whose members rejoin at once; one by one in a modern one.

    Raises UsageError for members that are not in the group, and for newcomers that are.
    """
    if scenario.rolling_restart == "dynamic":
        return [step for member in members for step in _restart(member)]
    gone = [*scenario.remove, *(member_id for member_id, _ in scenario.kill)]
    known = {member.member_id for member in members}
    for member_id in gone:
        if member_id not in known:
            raise UsageError(f"member {member_id!r} is not in the group")
    come = _newcomers(scenario, members)
    if modern:
        return [MembersChange(gone=frozenset({m})) for m in gone] + [MembersChange(come=(m,)) for m in come] or [
            MembersChange()
        ]
    return [MembersChange(frozenset(gone), tuple(come))]


def _restart(member: WhatIfMember) -> tuple[MembersChange, MembersChange]:
    again = replace(member, member_id=f"{member.member_id} (again)", instance_id=None, owned=(), is_new=True)
    return MembersChange(gone=frozenset({member.member_id})), MembersChange(come=(again,))


def _newcomers(scenario: Scenario, members: list[WhatIfMember]) -> list[WhatIfMember]:
    if not scenario.newcomers:
        return []
    if not members:
        raise UsageError("the group has no members, so what newcomers would read is not known")
    taken = {m.member_id for m in members} | {m.instance_id for m in members if m.instance_id is not None}
    (topics, regex), _ = Counter((m.topics, m.regex) for m in members).most_common(1)[0]
    found = []
    for member_id, instance_id in scenario.newcomers:
        if member_id in taken or instance_id in taken:
            raise UsageError(f"newcomer {instance_id or member_id!r} is in the group already")
        found.append(
            WhatIfMember(member_id=member_id, instance_id=instance_id, topics=topics, regex=regex, is_new=True)
        )
    return found

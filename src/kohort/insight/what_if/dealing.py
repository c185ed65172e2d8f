"""Who owns what once a group has settled: the assignors are asked as the leader or the coordinator would ask them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kohort.assignors.builtin import ASSIGNORS, EXTRAS
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.iteration import in_group_order, in_name_order
from kohort.assignors.server.spec import MemberSpec
from kohort.assignors.spec import Assignor, MemberSubscription, SubscribedTopics
from kohort.errors import UsageError
from kohort.insight.what_if.scenario import WhatIfMember
from kohort.model import TopicPartition

MOST_ROUNDS: Final = 10
"""Bound for assignors that never settle; cooperative ones need two."""


class DealingWay(NamedTuple):
    """An assignor of the group's leader, or of the coordinator (``modern``)."""

    assignor: str
    modern: bool


class ReadTopics(NamedTuple):
    """Topics of a group: partition counts, known ids (for the order of server-side assignors), racks of replicas."""

    counts: Mapping[str, int]
    ids: Mapping[str, bytes]
    racks: Mapping[TopicPartition, frozenset[str]] = {}


class SettledGroup(NamedTuple):
    """Members with their final assignment, and the number of rounds."""

    members: list[WhatIfMember]
    rounds: int


def classic_assignor(name: str) -> Assignor:
    """Return an assignor by name. Raises UsageError for an unknown one."""
    known = ASSIGNORS | EXTRAS
    if name not in known:
        raise UsageError(f"assignor {name!r} is not one of classic groups that kohort knows: {', '.join(known)}")
    return known[name]


def is_cooperative(way: DealingWay) -> bool:
    return way.modern or classic_assignor(way.assignor).cooperative


def check_way(way: DealingWay) -> None:
    """Raise UsageError for an unknown assignor."""
    if not way.modern:
        classic_assignor(way.assignor)
    elif way.assignor not in SERVER_ASSIGNORS:
        known = ", ".join(SERVER_ASSIGNORS)
        raise UsageError(f"assignor {way.assignor!r} is not one of modern groups that kohort knows: {known}")


def settle(members: Sequence[WhatIfMember], way: DealingWay, topics: ReadTopics) -> SettledGroup:
    """Return the group after its rebalances. Raises UsageError for an unknown assignor."""
    check_way(way)
    if not members:
        return SettledGroup([], 0)
    if way.modern:
        return _settle_modern(members, way.assignor, topics)
    return _settle_classic(members, classic_assignor(way.assignor), topics)


def _settle_classic(members: Sequence[WhatIfMember], assignor: Assignor, topics: ReadTopics) -> SettledGroup:
    now, generation = list(members), 1
    for rounds in range(1, MOST_ROUNDS + 1):
        said = [_subscription(member, assignor, generation) for member in now]
        dealt = assignor.assign(SubscribedTopics(dict(topics.counts), topics.racks), said)
        after = [replace(m, owned=tuple(dealt[m.member_id]), is_new=False) for m in now]
        revoked = any(not (was.eager or set(was.owned) <= set(has.owned)) for was, has in zip(now, after, strict=True))
        now, generation = after, generation + 1
        if not assignor.cooperative or not revoked:
            return SettledGroup(now, rounds)
    return SettledGroup(now, MOST_ROUNDS)


def _subscription(member: WhatIfMember, assignor: Assignor, generation: int) -> MemberSubscription:
    """Return the client's subscription: an eager member owns nothing; the user data may hold its last assignment."""
    since, owned = (-1, ()) if member.is_new else (generation, member.owned)
    return MemberSubscription(
        member_id=member.member_id,
        topics=member.topics,
        instance_id=member.instance_id,
        owned=owned if assignor.cooperative and not member.eager else (),
        generation=None if since < 0 else since,
        rack=member.rack or "",
        user_data=assignor.user_data(owned, since),
    )


def _settle_modern(members: Sequence[WhatIfMember], assignor: str, topics: ReadTopics) -> SettledGroup:
    wanted = {topic for member in members for topic in member.topics if topic in topics.counts}
    ids = {name: topics.ids.get(name, name.encode()[:16].ljust(16, b"\0")) for name in in_name_order(wanted)}
    names = {topic_id: name for name, topic_id in ids.items()}
    by_id = {member.member_id: member for member in members}
    order = in_group_order([m.member_id for m in members if not m.is_new])
    order += [m.member_id for m in members if m.is_new]
    specs = {member_id: _spec(by_id[member_id], ids) for member_id in order}
    targets = SERVER_ASSIGNORS[assignor].assign(specs, {ids[name]: topics.counts[name] for name in ids})
    after = [
        replace(
            member,
            is_new=False,
            owned=tuple(
                sorted(TopicPartition(names[t], p) for t, parts in targets[member.member_id].items() for p in parts)
            ),
        )
        for member in members
    ]
    return SettledGroup(after, 1)


def _spec(member: WhatIfMember, ids: Mapping[str, bytes]) -> MemberSpec:
    owned: dict[bytes, frozenset[int]] = {}
    for tp in member.owned:
        if tp.topic in ids:
            owned[ids[tp.topic]] = owned.get(ids[tp.topic], frozenset()) | {tp.partition}
    return MemberSpec(
        frozenset(ids[topic] for topic in member.topics if topic in ids),
        owned,
        member.rack,
        member.instance_id,
        frozenset(member.names),
        member.regex or "",
    )

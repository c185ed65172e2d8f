"""Final assignment of a group after its rebalances, computed by the assignor of its leader or coordinator."""

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

MAX_ROUNDS: Final = 10
"""Maximum number of simulated rebalances; a cooperative assignor needs two."""


class AssignorChoice(NamedTuple):
    """Assignor; ``server_side`` is True if the coordinator runs it, False if the group's leader does."""

    assignor: str
    server_side: bool


class ReadTopics(NamedTuple):
    """Topics of a group: partition counts, known topic ids (server-side assignors sort by them), racks of replicas."""

    counts: Mapping[str, int]
    ids: Mapping[str, bytes]
    racks: Mapping[TopicPartition, frozenset[str]] = {}


class SettledGroup(NamedTuple):
    """Members with their final assignment, and the number of rebalances until then."""

    members: list[WhatIfMember]
    rounds: int


def classic_assignor(name: str) -> Assignor:
    """Return a client-side assignor by name. Raises UsageError for an unknown name."""
    known = ASSIGNORS | EXTRAS
    if name not in known:
        raise UsageError(f"unknown assignor {name!r} of classic groups: expected one of {', '.join(known)}")
    return known[name]


def is_cooperative(choice: AssignorChoice) -> bool:
    return choice.server_side or classic_assignor(choice.assignor).cooperative


def check_assignor(choice: AssignorChoice) -> None:
    if not choice.server_side:
        classic_assignor(choice.assignor)
    elif choice.assignor not in SERVER_ASSIGNORS:
        known = ", ".join(SERVER_ASSIGNORS)
        raise UsageError(f"unknown assignor {choice.assignor!r} of consumer groups: expected one of {known}")


def settle(members: Sequence[WhatIfMember], choice: AssignorChoice, topics: ReadTopics) -> SettledGroup:
    """Run the assignor repeatedly until the assignment stays the same. Raises UsageError for an unknown assignor."""
    check_assignor(choice)
    if not members:
        return SettledGroup([], 0)
    if choice.server_side:
        return _settle_server_side(members, choice.assignor, topics)
    return _settle_classic(members, classic_assignor(choice.assignor), topics)


def _settle_classic(members: Sequence[WhatIfMember], assignor: Assignor, topics: ReadTopics) -> SettledGroup:
    now, generation = list(members), 1
    for rounds in range(1, MAX_ROUNDS + 1):
        subscriptions = [_subscription(member, assignor, generation) for member in now]
        assigned = assignor.assign(SubscribedTopics(dict(topics.counts), topics.racks), subscriptions)
        after = [replace(m, owned=tuple(assigned[m.member_id]), is_new=False) for m in now]
        revoked = any(not (was.eager or set(was.owned) <= set(has.owned)) for was, has in zip(now, after, strict=True))
        now, generation = after, generation + 1
        if not assignor.cooperative or not revoked:
            return SettledGroup(now, rounds)
    return SettledGroup(now, MAX_ROUNDS)


def _subscription(member: WhatIfMember, assignor: Assignor, generation: int) -> MemberSubscription:
    """Build the subscription that a member sends in JoinGroup.

    A member with an eager assignor reports no owned partitions; its user data may contain its last assignment.
    """
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


def _settle_server_side(members: Sequence[WhatIfMember], assignor: str, topics: ReadTopics) -> SettledGroup:
    subscribed = {topic for member in members for topic in member.topics if topic in topics.counts}
    ids = {name: topics.ids.get(name, name.encode()[:16].ljust(16, b"\0")) for name in in_name_order(subscribed)}
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

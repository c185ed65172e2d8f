"""Who owned what before: the claims of all members weighed against each other.

The rules: protocol/assignors.md#previous-ownership.

Each strategy reads a member's claim in its own way (user data, or the owned partitions of the Subscription) and hands
it over as a ``MemberData``; where two members claim one partition, the newer generation is believed. Partitions are
numbers here (``PartitionNumbers``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.assignors.numbering import PartitionNumbers, Run
from kohort.assignors.spec import NO_GENERATION, MemberSubscription


class MemberData(NamedTuple):
    """What one member says it owned, and in which generation (None: it does not say)."""

    runs: Sequence[Run]
    generation: int | None


ReadMemberData = Callable[[MemberSubscription], MemberData]


@dataclass(slots=True)
class Ownership:
    """What is believed of the claims."""

    owned: dict[str, dict[int, None]] = field(default_factory=dict)
    """By member id, in the order in which they were claimed."""
    contested: set[int] = field(default_factory=set)
    """Claimed by two members of one generation: nobody keeps them."""
    older: dict[int, str] = field(default_factory=dict)
    """Claims of generations before the newest, by partition: the newest of these."""


def decide_ownership(
    members: Sequence[MemberSubscription], numbering: PartitionNumbers, read: ReadMemberData
) -> Ownership:
    """Decide who may keep what. Claims on partitions that do not exist are forgotten."""
    generations: dict[str, int | None] = {}
    claims: dict[str, list[int]] = {}
    for member in members:
        data = read(member)
        generations[member.member_id] = data.generation
        claims[member.member_id] = numbering.of_runs(data.runs)
    found = Ownership()
    taken: set[int] = set()
    disputed = False
    for member_id, claim in claims.items():
        owned = found.owned[member_id] = dict.fromkeys(claim)
        if len(owned) < len(claim) or not taken.isdisjoint(owned):
            disputed = True
            break
        taken.update(owned)
    if disputed:
        found = _weigh(members, claims, generations)
    found.older = _older_owners(claims, generations)
    return found


def _weigh(
    members: Sequence[MemberSubscription], claims: Mapping[str, Sequence[int]], generations: Mapping[str, int | None]
) -> Ownership:
    """Decide claim by claim, where some contradict others."""
    stated = {m.member_id: _or_none(m.generation) for m in members}
    found = Ownership()
    owner: dict[int, str] = {}
    for member_id, claim in claims.items():
        owned = found.owned.setdefault(member_id, {})
        generation = _or_none(generations[member_id])
        for number in claim:
            other = owner.get(number)
            if other is None:
                owner[number] = member_id
                owned[number] = None
                continue
            # The earlier claimer's generation comes from its Subscription even where its claim came from user data.
            if generation < stated[other]:
                continue
            found.owned[other].pop(number, None)
            owner[number] = member_id
            if generation == stated[other]:
                found.contested.add(number)
            else:
                owned[number] = None
    return found


def _older_owners(claims: Mapping[str, Sequence[int]], generations: Mapping[str, int | None]) -> dict[int, str]:
    newest = max((g for g in generations.values() if g is not None), default=NO_GENERATION)
    found: dict[int, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = _or_none(generations[member_id])
        if generation >= newest:
            continue
        for number in claim:
            if number not in found or generation > found[number][0]:
                found[number] = (generation, member_id)
    return {number: member_id for number, (_, member_id) in found.items()}


def _or_none(generation: int | None) -> int:
    return NO_GENERATION if generation is None else generation

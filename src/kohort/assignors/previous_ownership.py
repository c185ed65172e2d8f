"""Who owned what before: the claims of all members weighed against each other.

The rules: protocol/assignors.md#previous-ownership.

Each strategy reads a member's claim in its own way (user data, or the owned partitions of the Subscription) and hands
it over as a ``MemberData``; where two members claim one partition, the newer generation is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.assignors.spec import NO_GENERATION, MemberSubscription
from kohort.model import TopicPartition


class MemberData(NamedTuple):
    """What one member says it owned, and in which generation (None: it does not say)."""

    partitions: Sequence[TopicPartition]
    generation: int | None


ReadMemberData = Callable[[MemberSubscription], MemberData]


@dataclass(slots=True)
class Ownership:
    """What is believed of the claims."""

    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    contested: set[TopicPartition] = field(default_factory=set)
    """Claimed by two members of one generation: nobody keeps them."""
    older: dict[TopicPartition, str] = field(default_factory=dict)
    """Claims of generations before the newest, by partition: the newest of these."""


def decide_ownership(
    members: Sequence[MemberSubscription], counts: Mapping[str, int], read: ReadMemberData
) -> Ownership:
    """Decide who may keep what. Claims on partitions that no longer exist are forgotten."""
    claims = {m.member_id: read(m) for m in members}
    by_id = {m.member_id: m for m in members}
    found = Ownership()
    owner: dict[TopicPartition, str] = {}
    for member_id, claim in claims.items():
        owned = found.owned.setdefault(member_id, [])
        generation = NO_GENERATION if claim.generation is None else claim.generation
        for partition in claim.partitions:
            if partition.partition >= counts.get(partition.topic, 0):
                continue
            other = owner.get(partition)
            if other is None:
                owner[partition] = member_id
                owned.append(partition)
                continue
            # The earlier claimer's generation comes from its Subscription even where its claim came from user data.
            stated = by_id[other].generation
            others = NO_GENERATION if stated is None else stated
            if generation < others:
                continue
            if partition in found.owned[other]:
                found.owned[other].remove(partition)
            owner[partition] = member_id
            if generation == others:
                found.contested.add(partition)
            else:
                owned.append(partition)
    found.older = _older_owners(claims)
    return found


def _older_owners(claims: dict[str, MemberData]) -> dict[TopicPartition, str]:
    newest = max((c.generation for c in claims.values() if c.generation is not None), default=NO_GENERATION)
    found: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in claims.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        if generation >= newest:
            continue
        for partition in claim.partitions:
            if partition not in found or generation > found[partition][0]:
                found[partition] = (generation, member_id)
    return {partition: member_id for partition, (_, member_id) in found.items()}

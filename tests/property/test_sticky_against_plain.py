"""The sticky assignors, which think in numbers, and the same written plainly: partition by partition one answer."""

from __future__ import annotations

import random

import pytest

from kohort.assignors import cooperative, sticky
from kohort.assignors.builtin import ASSIGNORS
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics
from kohort.model import TopicPartition
from support.plain_sticky import plain_cooperative, plain_sticky

PAIRS = {"sticky": (sticky.assign, plain_sticky), "cooperative-sticky": (cooperative.assign, plain_cooperative)}
CASES = 1500
RACKS = ["r1", "r2", "r3"]


def generated(seed: str) -> tuple[SubscribedTopics, list[MemberSubscription]]:
    """Return a group of up to 14 members with earlier rounds, contradictory claims, and optional racks."""
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(rng.randint(1, 6))]
    counts = {t: rng.choice([0, 1, 2, 5, 9, 30]) for t in names}
    racks = {}
    if rng.random() < 0.4:
        most = rng.randint(1, 3)
        everything = [TopicPartition(t, p) for t, count in counts.items() for p in range(count)]
        racks = {p: frozenset(rng.sample(RACKS, rng.randint(0, most))) for p in everything}
    topics = SubscribedTopics(counts, racks)
    shared = tuple(rng.sample(names, rng.randint(1, len(names)))) if rng.random() < 0.5 else None
    members = []
    for i in range(rng.randint(1, 14)):
        subscription = shared or tuple(rng.sample(names, rng.randint(1, len(names))))
        if rng.random() < 0.05:
            subscription += subscription[:1]
        rack = rng.choice([*RACKS, ""]) if racks else ""
        members.append(MemberSubscription(f"m{rng.randint(0, 99)}-{i}", subscription, rack=rack))
    for generation in range(rng.randint(0, 3)):
        before = ASSIGNORS[rng.choice(["sticky", "range"])].assign(
            topics, rng.sample(members, rng.randint(1, len(members)))
        )
        members = [claiming(rng, member, before, generation) for member in members]
    return topics, members


def claiming(rng: random.Random, member: MemberSubscription, before: Assignment, now: int) -> MemberSubscription:
    """Return a member with claims: its own partitions, another member's, an older generation's, or missing ones."""
    owned = list(before.get(member.member_id, ()))
    if rng.random() < 0.1:
        owned = list(rng.choice(list(before.values())))
    if rng.random() < 0.05:
        owned += owned[:2]
    if rng.random() < 0.05:
        owned += [TopicPartition("gone", 0), TopicPartition("t0", 1000)]
    if rng.random() < 0.2:
        rng.shuffle(owned)
    generation = rng.choice([now, now, now, now - 1])
    remembers = rng.choice([sticky.user_data(owned, generation), cooperative.user_data(owned, generation), None])
    stated = generation if rng.random() < 0.8 else None
    return MemberSubscription(member.member_id, member.topics, None, tuple(owned), stated, member.rack, remembers)


@pytest.mark.parametrize("name", list(PAIRS))
def test_a_fast_assignor_answers_as_the_plain_one(name: str):
    fast, plain = PAIRS[name]
    for seed in range(CASES):
        topics, members = generated(f"{name}/{seed}")

        found, expected = fast(topics, members), plain(topics, members)

        assert found == expected, seed
        assert list(found) == list(expected), seed

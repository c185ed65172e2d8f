"""Compare kohort's assignors with the Java client's on the same generated groups.

The cases cover all inputs from a Subscription: owned partitions, generation, rack and user data, consistent with the
claims of other members or not.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess

import pytest

from kohort.assignors import cooperative, sticky
from kohort.assignors.builtin import ASSIGNORS
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics
from kohort.model import TopicPartition
from support.peers.client_programs import assignor_judge

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
CASES = 1000
"""Number of cases per assignor."""
RACKS = ["r1", "r2", "r3"]


def generated(name: str, seed: int) -> tuple[SubscribedTopics, list[MemberSubscription]]:
    """A group, by its seed: with or without racks, equal subscriptions, static members, a past, contradictions."""
    rng = random.Random(f"{name}/{seed}")
    names = [f"t{i}" for i in range(rng.randint(1, 5))]
    counts = {t: rng.choice([0, 1, 2, 3, 5, 8, 12]) for t in names}
    if rng.random() < 0.3:
        counts = dict.fromkeys(names, rng.randint(1, 8))  # co-partitioned
    racks = {}
    if rng.random() < 0.5:
        most = rng.randint(1, 3)
        racks = {
            TopicPartition(t, p): frozenset(rng.sample(RACKS, rng.randint(0 if rng.random() < 0.2 else 1, most)))
            for t, count in counts.items()
            for p in range(count)
        }
    shared = rng.sample(names, rng.randint(1, len(names))) if rng.random() < 0.5 else None
    members = []
    for i in range(rng.randint(1, 9)):
        subscription = shared or rng.sample(names, rng.randint(1, len(names)))
        instance = f"i{rng.randint(10, 99)}{i}" if rng.random() < 0.2 else None
        rack = rng.choice([*RACKS, ""]) if racks and rng.random() < 0.9 else ""
        members.append(MemberSubscription(f"m{rng.randint(100, 999)}-{i}", tuple(subscription), instance, rack=rack))
    topics = SubscribedTopics(counts, racks)
    if name in ("sticky", "cooperative-sticky") and rng.random() < 0.8:
        members = with_a_past(rng, topics, members)
    # Java's result depends on the order of members if two ids share a hash bucket.
    return topics, sorted(members, key=lambda m: m.member_id)


def with_a_past(
    rng: random.Random, topics: SubscribedTopics, members: list[MemberSubscription]
) -> list[MemberSubscription]:
    """Return the members with owned partitions of an earlier assignment, claimed correctly or not."""
    earlier = rng.sample(members, rng.randint(1, len(members)))
    before: Assignment = ASSIGNORS[rng.choice(["sticky", "range"])].assign(topics, earlier)
    returning = []
    for m in members:
        owned = tuple(before.get(m.member_id, ()))
        generation = rng.choice([5, 5, 5, 4]) if m.member_id in before else None
        if rng.random() < 0.1:  # it claims somebody else's
            owned = tuple(rng.choice(list(before.values())))
        if rng.random() < 0.05:  # a deleted topic
            owned = (*owned, TopicPartition("gone", 0))
        returning.append(
            MemberSubscription(
                m.member_id,
                m.topics,
                m.instance_id,
                owned,
                generation if rng.random() < 0.9 else None,
                m.rack,
                what_it_remembers(rng, owned, generation),
            )
        )
    return returning


def what_it_remembers(rng: random.Random, owned: tuple[TopicPartition, ...], generation: int | None) -> bytes | None:
    """User data of either kind, whole, cut short, or none."""
    made = [
        sticky.user_data(owned, -1 if generation is None else generation),
        cooperative.user_data(owned, -1 if generation is None else generation),
        None,
        b"\x00",
    ]
    return rng.choices(made, [8, 3, 2, 1])[0]


def as_case(name: str, topics: SubscribedTopics, members: list[MemberSubscription]) -> str:
    return json.dumps(
        {
            "assignor": name,
            "topics": dict(topics.counts),
            "racks": [[p.topic, p.partition, sorted(racks)] for p, racks in topics.racks.items()],
            "members": [
                {
                    "id": m.member_id,
                    "instance": m.instance_id,
                    "topics": list(m.topics),
                    "owned": [list(p) for p in m.owned],
                    "generation": -1 if m.generation is None else m.generation,
                    "rack": m.rack,
                    "user_data": None if m.user_data is None else base64.b64encode(m.user_data).decode(),
                }
                for m in members
            ],
        }
    )


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[dict[str, set[tuple[str, int]]] | None]]:
    """Return the assignments of the Java assignors for every case, computed in one process."""
    cases = [as_case(name, *generated(name, seed)) for name in ASSIGNORS for seed in range(CASES)]
    done = subprocess.run(
        assignor_judge(), input="\n".join(cases), capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(cases)
    assignments = [line and {m: {tuple(p) for p in partitions} for m, partitions in line.items()} for line in lines]
    return {name: assignments[i * CASES : (i + 1) * CASES] for i, name in enumerate(ASSIGNORS)}


@pytest.mark.parametrize("name", list(ASSIGNORS))
def test_an_assignor_agrees_with_the_java_client_s_on_every_generated_case(name, verdicts):
    """But for the few where contradictory claims make Java's fail, or give a partition to who does not want it."""
    differing, gave_up = [], 0
    for seed, theirs in enumerate(verdicts[name]):
        topics, members = generated(name, seed)
        ours = {m: {tuple(p) for p in found} for m, found in ASSIGNORS[name].assign(topics, members).items()}
        assert sorted(ours) == sorted(m.member_id for m in members)
        assert all(topic in m.topics for m in members for topic, _ in ours[m.member_id])
        if theirs is None or any(topic not in m.topics for m in members for topic, _ in theirs[m.member_id]):
            gave_up += 1
        elif ours != theirs:
            differing.append(seed)

    assert differing == [], f"{len(differing)} of {CASES}: seeds {differing[:20]}"
    assert gave_up < CASES // 20, "the cases are no judge of anything"

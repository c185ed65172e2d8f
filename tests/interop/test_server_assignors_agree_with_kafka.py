"""kohort's server-side assignors and those of Apache Kafka's coordinator on the same groups, generated.

Members come in the order of Kafka's own tables, so a group that moves from one coordinator to the other finds the same
targets. Topics that share a bucket of a hash set are told in the order of their counts: Kafka's would be that of names.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
from collections.abc import Iterable

import pytest

from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.iteration import in_group_order
from kohort.assignors.server.spec import MemberSpec, Targets
from support.peers.client_programs import assignor_judge

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]
CASES = 3000
"""Number of cases per assignor."""


class Case:
    """A generated group: its members in the order of their joins, possibly one new member, earlier assignments."""

    def __init__(self, name: str, seed: int) -> None:
        rng = random.Random(f"{name}/{seed}")
        self._rng = rng
        self.assignor = name
        self.counts = {rng.randbytes(16): rng.choice([0, 1, 2, 3, 5, 8, 12, 24, 40]) for _ in range(rng.randint(1, 14))}
        if rng.random() < 0.2:
            self.counts = dict.fromkeys(self.counts, rng.randint(1, 8))
        self._shared = self._draw_topics() if rng.random() < 0.5 else None
        many = rng.choice([3, 9, 9, 30])
        members = {self._new_id(): self._wants() for _ in range(rng.randint(1, many))}
        if rng.random() < 0.8:
            members = self._with_a_past(members)
        self.newcomer = self._new_id() if rng.random() < 0.4 else None
        self.joined = list(members)
        self.members = {member: members[member] for member in in_group_order(self.joined)}
        if self.newcomer:
            self.members[self.newcomer] = self._wants()

    def _new_id(self) -> str:
        if self._rng.random() < 0.5:
            return base64.urlsafe_b64encode(self._rng.randbytes(16)).decode().rstrip("=")
        return f"m{self._rng.randint(100, 999)}-{self._rng.randbytes(2).hex()}"

    def _draw_topics(self) -> frozenset[bytes]:
        topics = sorted(self.counts)
        return frozenset(self._rng.sample(topics, self._rng.randint(0 if self._rng.random() < 0.1 else 1, len(topics))))

    def _wants(self) -> MemberSpec:
        instance = f"i{self._rng.randint(10, 99)}-{self._rng.randbytes(2).hex()}" if self._rng.random() < 0.2 else None
        topics = self._shared if self._shared is not None and self._rng.random() < 0.99 else self._draw_topics()
        return MemberSpec(topics, instance_id=instance)

    def _with_a_past(self, members: dict[str, MemberSpec]) -> dict[str, MemberSpec]:
        """Return the members with an assignment of an earlier group with other members and smaller topics."""
        rng = self._rng
        earlier = {m: members[m] for m in rng.sample(sorted(members), rng.randint(1, len(members)))}
        earlier |= {f"gone-{i}": self._wants() for i in range(rng.choice([0, 0, 1, 3]))}
        if rng.random() < 0.3:
            earlier = {m: spec._replace(topics=self._draw_topics()) for m, spec in earlier.items()}
        counts = {topic: rng.choice([count, count, count // 2]) for topic, count in self.counts.items()}
        targets = SERVER_ASSIGNORS[rng.choice(["uniform", "uniform", "range"])].assign(earlier, counts)
        if rng.random() < 0.3:  # any previous owner, one per partition
            targets = self._shuffled(targets)
        return {m: spec._replace(owned=targets.get(m, {})) for m, spec in members.items()}

    def _shuffled(self, targets: Targets) -> Targets:
        shuffled: dict[str, dict[bytes, set[int]]] = {member: {} for member in targets}
        for target in targets.values():
            for topic, partitions in target.items():
                for partition in sorted(partitions):
                    if self._rng.random() < 0.9:
                        owner = self._rng.choice(sorted(targets)[: 1 + len(targets) // 2])
                        shuffled[owner].setdefault(topic, set()).add(partition)
        return {m: {topic: frozenset(ps) for topic, ps in target.items()} for m, target in shuffled.items()}

    def as_line(self) -> str:
        """The case as Kafka's judge reads it."""
        newcomer = self.newcomer and self._member_fields(self.newcomer)
        topics = {as_text(topic): count for topic, count in self.counts.items()}
        equal = len({spec.topics for spec in self.members.values()}) == 1
        members = [self._member_fields(member) for member in self.joined]
        return json.dumps(
            {"assignor": self.assignor, "topics": topics, "equal": equal, "members": members, "newcomer": newcomer}
        )

    def _member_fields(self, member: str) -> dict[str, object]:
        spec = self.members[member]
        return {
            "id": member,
            "instance": spec.instance_id,
            "topics": [as_text(topic) for topic in self.counts if topic in spec.topics],
            "owned": [[as_text(topic), sorted(partitions)] for topic, partitions in spec.owned.items()],
        }

    def ours(self) -> dict[str, dict[str, list[int]]]:
        """Return the assignment of kohort's assignor."""
        targets = SERVER_ASSIGNORS[self.assignor].assign(self.members, self.counts)
        return {m: in_order((as_text(topic), ps) for topic, ps in target.items()) for m, target in targets.items()}


def as_text(topic: bytes) -> str:
    """A topic id as Kafka writes it."""
    return base64.urlsafe_b64encode(topic).decode().rstrip("=")


def in_order(target: Iterable[tuple[str, Iterable[int]]]) -> dict[str, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in target}


@pytest.fixture(scope="module")
def verdicts() -> dict[str, list[dict[str, dict[str, list[int]]]]]:
    """Return the assignments of Kafka's assignors for every case, computed in one process."""
    lines = [Case(name, seed).as_line() for name in SERVER_ASSIGNORS for seed in range(CASES)]
    done = subprocess.run(
        assignor_judge("java-server-assignors"), input="\n".join(lines), capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assignments = [
        {member: in_order(target.items()) for member, target in json.loads(line).items()}
        for line in done.stdout.splitlines()
    ]
    assert len(assignments) == len(lines)
    return {name: assignments[i * CASES : (i + 1) * CASES] for i, name in enumerate(SERVER_ASSIGNORS)}


@pytest.mark.parametrize("name", list(SERVER_ASSIGNORS))
def test_a_server_side_assignor_agrees_with_kafka_s_on_every_generated_case(name, verdicts):
    differing = [seed for seed, theirs in enumerate(verdicts[name]) if Case(name, seed).ours() != theirs]

    assert differing == [], f"{len(differing)} of {CASES}: seeds {differing[:20]}"

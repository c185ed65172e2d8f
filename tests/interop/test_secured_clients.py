"""Other projects' clients over secured listeners: logins by SCRAM and by token over TLS, and certificates alone.

What they are told is in ``support/security/secured_cluster.py``.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from kohort import Admin, TopicPartition
from support.peers.client_programs import STALLING_MEMBERS, as_line, as_parameters, as_record, program, run
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned
from support.security.access import allow_all
from support.security.secured_cluster import SecuredCluster, write_properties

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(900)]
PARTITIONS = 6
CLIENTS = (
    "confluent-newest", "kafka-python", "aiokafka", "java-newest", "go-franz", "go-sarama",
    "confluent-oldest", "java-oldest", "node-kafkajs",
)  # fmt: skip
WAYS = ("scram", "oauthbearer", "mtls")
FIRST_WAY = dict(zip(CLIENTS, WAYS * 3, strict=True))
"""Login method of each client in the short run."""
NOT_BY = {("confluent-oldest", "scram")}
"""librdkafka 2.0.2 fails to log in by SCRAM-SHA-512, on Apache Kafka too."""
Secure = Callable[[str, str], tuple[Sequence[str], str]]


@pytest.fixture(params=["ours", pytest.param("apache", marks=[pytest.mark.kafka, pytest.mark.campaign])])
def cluster(request: pytest.FixtureRequest) -> SecuredCluster:
    """A secured cluster, where ``alice`` may do everything."""
    found: SecuredCluster = request.getfixturevalue(f"secured_{request.param}")
    allow_all(found.setup, "alice")
    return found


@pytest.fixture
def admin(cluster: SecuredCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.setup) as client:
        yield client


@pytest.fixture
def secure(cluster: SecuredCluster, tmp_path: Path) -> Secure:
    """Return a client's command up to the verb, and the address for a login method."""

    def program_and_address(client: str, way: str) -> tuple[Sequence[str], str]:
        file = write_properties(cluster.properties(way), tmp_path / f"{way}.properties")
        return [*program(client), f"--security={file}"], cluster.address(way)

    return program_and_address


def cases(chosen: Callable[[str, str], bool]) -> list[ParameterSet]:
    """Return all pairs of client and login method; pairs that are not ``chosen`` belong to the full run."""
    return [
        pytest.param(client, way, marks=[*marks, *([] if chosen(client, way) else [pytest.mark.campaign])])
        for (client,), marks, _ in as_parameters(CLIENTS)
        for way in WAYS
        if (client, way) not in NOT_BY
    ]


def produce(command: Sequence[str], address: str, topic: str, count: int) -> None:
    lines = [as_line(n % PARTITIONS, b"k%d" % n, b"value %d" % n, []) for n in range(count)]
    assert len(run([*command, "produce", address, topic, "none"], "\n".join(lines) + "\n")) == count


@pytest.mark.parametrize(("client", "way"), cases(lambda client, _way: "java" not in client))
def test_it_writes_and_reads_over_a_secured_listener(admin: Admin, secure: Secure, client: str, way: str) -> None:
    command, address = secure(client, way)
    topic = f"records-{uuid.uuid4().hex[:8]}"
    admin.create_topics({topic: PARTITIONS})

    produce(command, address, topic, 12)

    found = [as_record(line) for line in run([*command, "read", address, topic, "1", "2"])]
    assert [(offset, key, value) for offset, _, key, value, _ in found] == [
        (0, b"k1", b"value 1"),
        (1, b"k7", b"value 7"),
    ]
    ends = admin.list_offsets({TopicPartition(topic, p): "latest" for p in range(PARTITIONS)})
    assert [found.offset for found in ends.values()] == [2] * PARTITIONS


@pytest.mark.parametrize(
    ("client", "way"), cases(lambda client, way: FIRST_WAY[client] == way and client not in STALLING_MEMBERS)
)
def test_a_group_of_three_lives_through_a_join_a_kill_and_a_leave(
    admin: Admin, secure: Secure, client: str, way: str
) -> None:
    command, address = secure(client, way)
    name = f"group-{uuid.uuid4().hex[:8]}"
    strategy = {"java-oldest": "range", "go-sarama": "sticky"}.get(client, "-")
    admin.create_topics({name: PARTITIONS})
    produce(command, address, name, 120)
    members, departed = [Member(command, address, name, name, strategy=strategy) for _ in range(2)], []
    try:
        eventually("two own everything", lambda: share_everything(members, PARTITIONS))
        members.append(Member(command, address, name, name, strategy=strategy))
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])
        eventually("all records are read", lambda: len(set().union(*(m.read for m in members))) == 120)

        departed.append(members.pop(1))
        departed[-1].kill()
        eventually("two own everything", lambda: share_everything(members, PARTITIONS))
        for member in members:
            member.close()
            assert member.has_left, member.errors
        departed += members
        committed = admin.list_group_offsets(name)
        assert {tp.partition: at.offset for tp, at in committed.items()} == dict.fromkeys(range(PARTITIONS), 20)
        assert twice_owned(departed, PARTITIONS) == []
    finally:
        end_all([*members, *departed])

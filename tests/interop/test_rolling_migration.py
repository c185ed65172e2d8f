"""A group of clients of several kinds is upgraded member by member to KIP-848, and back, while records keep coming."""

from __future__ import annotations

import uuid

import pytest

import kohort
from support.peers.client_programs import program
from support.peers.stream import Stream
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned

pytestmark = [pytest.mark.interop, pytest.mark.toolchain, pytest.mark.slow, pytest.mark.timeout(600)]
PARTITIONS = 12
CLIENTS = ["kohort", "java-newest", "confluent-newest"]
MODERN = "consumer"


@pytest.fixture(params=[pytest.param("apache", marks=pytest.mark.kafka), "ours"])
def bootstrap(request):
    """Apache Kafka, and our broker."""
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("classic", ["range", "cooperative-sticky"])
def test_rolling_migration_to_consumer_protocol_and_back(bootstrap, classic):
    name = f"moves-{uuid.uuid4().hex[:8]}"
    members, departed = [], []

    def settled():
        eventually(f"{len(members)} members own everything", lambda: share_everything(members, PARTITIONS))

    def comes(client, strategy):
        members.append(Member(program(client), bootstrap, name, name, strategy=strategy))
        eventually(f"{client} ({strategy}) has something", lambda: members[-1].owns)
        settled()

    def goes():
        departed.append(members.pop(0))
        departed[-1].close()
        assert departed[-1].has_left, departed[-1].errors
        settled()

    def protocol():
        return [group.group_type for group in admin.list_groups() if group.group_id == name]

    with kohort.Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics({name: PARTITIONS})
        stream = Stream(bootstrap, name, PARTITIONS)
        try:
            for client in CLIENTS:
                comes(client, classic)
            assert protocol() == ["classic"]
            for client in CLIENTS:
                comes(client, MODERN)
                assert protocol() == ["consumer"]
                goes()
            for client in CLIENTS:
                comes(client, classic)
                goes()
            assert protocol() == ["classic"]

            stream.stop()
            everybody = [*members, *departed]
            eventually("everything is read", lambda: stream.sent_positions <= set().union(*(m.read for m in everybody)))
            for member in members:
                member.close()
                assert member.has_left, member.errors
            assert sum(at.offset for at in admin.list_group_offsets(name).values()) == stream.sent
            assert twice_owned(everybody, PARTITIONS) == []
        finally:
            stream.stop()
            end_all([*members, *departed])

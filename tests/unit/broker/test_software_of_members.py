"""Client software (KIP-511) in the group journal."""

import pytest

from kohort.coordinator.journal import EpochRaised, MemberArrived, parse_entry
from kohort.verbs.client_reports import journaled_software
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest
from kohort.wire.record_batch import read_batch, split_batches
from support.raw.group_member import RawMember

SAYS = ApiVersionsRequest(client_software_name="librdkafka", client_software_version="2.6.1")


def journal(stage):
    answer = stage.connect().fetch("__kohort_journal")
    data = b"".join(bytes(p.records) for t in answer.responses for p in t.partitions)
    return [parse_entry(record.value) for at, _ in split_batches(data) for record in read_batch(data, at)]


def join(stage, wire):
    member = RawMember(wire, "g", ["a"])
    member.start_join()
    stage.advance(0)
    member.end_join()
    member.sync({member.member_id: {"a": [0]}})
    return member.member_id


@pytest.fixture
def wire(stage):
    wire = stage.connect()
    wire.create("a", 1)
    return wire


def test_software_of_a_classic_member_is_journaled(stage, wire):
    wire.ask(SAYS, 3)

    member_id = join(stage, wire)

    (arrival,) = (entry for entry in journal(stage) if isinstance(entry, MemberArrived))
    assert arrival.software == "librdkafka 2.6.1"
    assert journaled_software(journal(stage)) == {member_id: "librdkafka 2.6.1"}


def test_software_of_a_consumer_group_member_is_journaled(stage, wire):
    wire.ask(SAYS, 3)

    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1_000, subscribed_topic_names=["a"],
        topic_partitions=[],
    )  # fmt: skip
    assert wire.ask(heartbeat, 1).error_code == 0

    raised = [entry for entry in journal(stage) if isinstance(entry, EpochRaised)]
    assert [entry.cause.software for entry in raised] == ["librdkafka 2.6.1"]
    assert journaled_software(raised) == {"m": "librdkafka 2.6.1"}


def test_software_of_another_connection_is_not_journaled(stage, wire):
    stage.connect().ask(SAYS, 3)  # another connection

    join(stage, wire)

    (arrival,) = (entry for entry in journal(stage) if isinstance(entry, MemberArrived))
    assert arrival.software is None


def test_long_software_name_is_cut_in_the_journal(stage, wire):
    wire.ask(ApiVersionsRequest(client_software_name="n" * 30_000, client_software_version="1" * 30_000), 3)

    member_id = join(stage, wire)

    assert journaled_software(journal(stage)) == {member_id: "n" * 256}

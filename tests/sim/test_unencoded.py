"""Unencoded runs have the same events and disk contents as encoded ones."""

import re
from dataclasses import replace

import pytest

from kohort.errors import ProtocolError
from kohort.wire.codec import decode, encode_bytes
from kohort.wire.messages.fetch import FetchRequest, FetchTopic
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.unencoded import unencoded
from kohort_lab.sim.worlds.copying import CopyingGroup, plan_of_copies
from kohort_lab.sim.worlds.one_broker import OneBroker
from kohort_lab.sim.worlds.three_nodes import ThreeNodes, plan_of_moves


def without_byte_count(happening):
    """Drop the number of received bytes at a connection loss; unencoded runs have none."""
    return replace(happening, detail=re.sub(r"after \d+ bytes", "after some bytes", happening.detail))


def decisions(run):
    """Return all events, and each byte that the brokers wrote."""
    run.go()
    disk = run.cluster.disk if isinstance(run, ThreeNodes) else run.broker.disk
    names = [f"{folder}/{name}".lstrip("/") for folder in ["", *disk.folders()] for name in disk.files(folder)]
    files = {name: disk.read(name) for name in names}
    return (
        run.world.events,
        run.world.elapsed_ms,
        [without_byte_count(line) for line in run.history.lines],
        run.producer.acknowledged,
        files,
    )


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (2, 3))])
@pytest.mark.parametrize(
    ("plan_of_seed", "actors"),
    [(plan_of, OneBroker), (plan_of_copies, CopyingGroup), (plan_of_moves, ThreeNodes)],
    ids=["group", "transactions", "moves"],
)
def test_unencoded_messages_give_equal_events_and_bytes(seed, plan_of_seed, actors):
    encoded = decisions(actors(plan_of_seed(seed)))

    with unencoded():
        handed_over = decisions(actors(plan_of_seed(seed)))

    assert handed_over == encoded
    assert encoded[-1], "the broker wrote something"


def test_field_missing_in_the_version_does_not_arrive():
    request = FetchRequest(topics=[FetchTopic(topic="flights", topic_id=bytes(15) + b"\x01")])

    with unencoded():
        new, _ = decode(FetchRequest, 17, encode_bytes(request, 17))
        old, _ = decode(FetchRequest, 12, encode_bytes(request, 12))

    assert (new.topics[0].topic, new.topics[0].topic_id) == ("", request.topics[0].topic_id)
    assert (old.topics[0].topic, old.topics[0].topic_id) == ("flights", bytes(16))


def test_record_batches_arrive_joined():
    data = PartitionProduceData(index=0, records=[b"some", b"more"])
    request = ProduceRequest(topic_data=[TopicProduceData(name="flights", partition_data=[data])])

    with unencoded():
        arrived, _ = decode(ProduceRequest, 9, encode_bytes(request, 9))

    assert bytes(arrived.topic_data[0].partition_data[0].records) == b"somemore"


def test_message_is_read_with_its_own_type_only():
    with unencoded():
        written = encode_bytes(HeartbeatRequest(group_id="g"), 4)
        assert decode(HeartbeatRequest, 4, written)[0].group_id == "g"
        with pytest.raises(ProtocolError, match="wrong message: expected HeartbeatRequest"):
            decode(FetchRequest, 17, written)


def test_messages_are_encoded_again_afterwards():
    request = HeartbeatRequest(group_id="g", generation_id=3)
    before = encode_bytes(request, 4)

    with unencoded():
        assert encode_bytes(request, 4) != before

    assert encode_bytes(request, 4) == before
    assert decode(HeartbeatRequest, 4, before)[0] == request

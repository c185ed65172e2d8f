"""Memory of rejected requests is freed without the garbage collector."""

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kohort.errors import ErrorCode
from kohort.wire.compression import Codec
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.topics import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, produce_request

REFUSED = [
    (CreateTopicsRequest(topics=[CreatableTopic(name="a/b", num_partitions=1, replication_factor=1)]), 7),
    (DeleteTopicsRequest(topic_names=["nope"]), 5),
    (CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="nope", count=3)]), 3),
    (FindCoordinatorRequest(key_type=9, coordinator_keys=["g"]), 4),
    (DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=2, resource_name="nope")]), 4),
    (ListOffsetsRequest(topics=[ListOffsetsTopic(name="nope", partitions=[ListOffsetsPartition()])]), 7),
    (MetadataRequest(topics=[MetadataRequestTopic(name="a/b")]), 12),
    (produce_request("nope", build_batch([NewRecord(None, b"v", (), 1)])), 9),
]


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("request_message", "version"), REFUSED, ids=lambda x: type(x).__name__ if not isinstance(x, int) else ""
)
def test_exception_of_a_rejected_request_does_not_stay_in_memory(request_message, version):
    peer = BrokerStage(auto_create_topics_enable="false").connect()
    peer.ask(request_message, version)

    with collector_off():
        peer.ask(request_message, version)
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            gc.collect()
            remaining = [type(found).__name__ for found in gc.garbage if isinstance(found, BaseException)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()

    assert remaining == []


@pytest.mark.heavy
def test_memory_of_a_rejected_compressed_batch_is_freed():
    peer = BrokerStage().connect()
    peer.create("bombed", cleanup_policy="compact")
    bomb = build_batch([NewRecord(b"k", bytes(300_000_000), (), 1)], codec=Codec.GZIP)

    with collector_off():
        tracemalloc.start()
        try:
            for _ in range(3):
                assert peer.produce("bombed", batch=bomb).error_code == ErrorCode.INVALID_RECORD
            traced_bytes, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert traced_bytes < 2_000_000

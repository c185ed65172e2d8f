"""Scripts for the differential harness: produce, fetch, ListOffsets, metadata, topics, configs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.wire.compression import Codec
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.cluster import DescribeClusterRequest
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.wire.record_batch import NewRecord, build_batch
from support.differential.harness import ScriptRun
from support.recent import RECENT_MS

STRANGER = b"\x01" * 16
TIMES = (RECENT_MS, RECENT_MS + 5000, RECENT_MS + 2000)


def id_of(run: ScriptRun, topic: str, request: type[Any], by_id_from: int) -> bytes:
    if run.version(request) < by_id_from:
        return bytes(16)
    found = run.broker.topic_id(topic)
    return STRANGER if found == bytes(16) else found


# Produce.


def records(*times: int, value: bytes = b"v") -> list[NewRecord]:
    return [NewRecord(b"k%d" % i, value, [("h", b"x")], t) for i, t in enumerate(times or TIMES)]


def produce(run: ScriptRun, topic: str, batches: Mapping[int, bytes | None], *, acks: int = -1, **fields: Any) -> Any:
    data = [PartitionProduceData(index=p, records=batch) for p, batch in batches.items()]
    entry = TopicProduceData(name=topic, topic_id=id_of(run, topic, ProduceRequest, 13), partition_data=data)
    return run.ask("writer", ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[entry], **fields))


def changed(batch: bytes, at: int, form: str, value: int) -> bytes:
    """Return ``batch`` with one header field changed and the old checksum."""
    return batch[:at] + struct.pack(form, value) + batch[at + struct.calcsize(form) :]


def producing(run: ScriptRun) -> None:
    topic = run.topic()
    good = build_batch(records())
    produce(run, topic, {0: good})
    produce(run, topic, {1: good, 0: good, 7: good, -1: good})
    produce(run, f"gone-{run.broker.mark}", {0: good})
    for acks in (1, 2, -2):
        produce(run, topic, {0: good}, acks=acks)
    for codec in Codec:
        produce(run, topic, {0: build_batch(records(), codec=codec)})
    offsets(run, topic, -1)


def producing_what_is_wrong(run: ScriptRun) -> None:
    topic = run.topic()
    good = build_batch(records())
    wrong = {
        "two batches": good + good,
        "nothing": b"",
        "cut": good[:-3],
        "checksum": changed(good, 17, ">I", 1),
        "magic 1": changed(good, 16, ">b", 1),
        "offset": changed(good, 0, ">q", 5),
        "control": build_batch(records(), is_control=True),
        "no sequence": build_batch(records(), producer_id=1, producer_epoch=0),
    }
    for batch in wrong.values():
        produce(run, topic, {0: batch})
    produce(run, topic, {0: build_batch(records(value=b"x" * 1_100_000))})
    offsets(run, topic, -1)


def topics_with_rules(run: ScriptRun) -> None:
    strict, stamped, compacted, small = (f"{n}-{run.broker.mark}" for n in ("strict", "stamped", "compacted", "small"))
    options = {
        strict: {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"},
        stamped: {"message.timestamp.type": "LogAppendTime"},
        compacted: {"cleanup.policy": "compact"},
        small: {"max.message.bytes": "200"},
    }
    create(run, *(creatable(name, configs=configs) for name, configs in options.items()))
    for topic in options:
        run.broker.await_topic(topic, 1)
    produce(run, strict, {0: build_batch(records())})
    produce(run, strict, {0: build_batch(records(2**52))})
    produce(run, strict, {0: build_batch(records(-1))})
    produce(run, stamped, {0: build_batch(records())})
    produce(run, compacted, {0: build_batch([NewRecord(None, b"v", (), TIMES[0])])})
    produce(run, compacted, {0: build_batch([NewRecord(k, b"v", (), TIMES[0]) for k in (b"a", None, b"b", None)])})
    produce(run, compacted, {0: build_batch(records())})
    produce(run, small, {0: build_batch(records(value=b"x" * 200))})
    produce(run, small, {0: build_batch(records(TIMES[0]))})


def idempotent_producing(run: ScriptRun) -> None:
    topic = run.topic()

    def batch(sequence: int, epoch: int = 0, count: int = 2) -> bytes:
        return build_batch(records(*TIMES[:count]), producer_id=4711, producer_epoch=epoch, base_sequence=sequence)

    for sequence in (0, 2, 2, 0, 6, 4):
        produce(run, topic, {0: batch(sequence)})
    for sequence, epoch in ((0, 2), (2, 1), (5, 3), (0, 3)):
        produce(run, topic, {0: batch(sequence, epoch)})
    for n in range(1, 7):
        produce(run, topic, {0: batch(2 * n, 3)})
    produce(run, topic, {0: batch(0, 3)})  # an old duplicate, no longer recognized
    offsets(run, topic, -1)
    new = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    run.broker.eventually_serves(new, 1)  # a Kafka node gets its first producer ids a moment after the first request
    run.ask("writer", new)
    run.ask("writer", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000))


# Fetch.


def fetch(
    run: ScriptRun, topics: Mapping[str, Mapping[int, int]], *, epoch: int = -1, limit: int = 1 << 20, **fields: Any
) -> Any:
    request_topics = [
        FetchTopic(
            topic=topic,
            topic_id=id_of(run, topic, FetchRequest, 13),
            partitions=[
                FetchPartition(partition=p, fetch_offset=o, current_leader_epoch=epoch, partition_max_bytes=limit)
                for p, o in at.items()
            ],
        )
        for topic, at in topics.items()
    ]
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1} | fields
    return run.ask("reader", FetchRequest(topics=request_topics, **values))


def fetching(run: ScriptRun) -> None:
    topic, missing_topic = run.topic(), f"gone-{run.broker.mark}"
    for _ in range(3):
        produce(run, topic, {0: build_batch(records())})
    for offset in (0, 1, 3, 8, 9, 10, -1):
        fetch(run, {topic: {0: offset}})
    fetch(run, {topic: {0: 0, 1: 0, 5: 0}})
    fetch(run, {topic: {0: 0}, missing_topic: {0: 0}})
    for epoch in (0, 1, 99):
        fetch(run, {topic: {0: 0}}, epoch=epoch)
    fetch(run, {topic: {0: 0, 1: 0}}, limit=1)
    fetch(run, {topic: {0: 0}}, max_bytes=1)
    fetch(run, {topic: {0: 0}}, isolation_level=1)
    fetch(run, {topic: {1: 0}}, max_wait_ms=50)
    fetch(run, {})


def fetching_in_sessions(run: ScriptRun) -> None:
    topic = run.topic()
    produce(run, topic, {0: build_batch(records())})
    if not run.can_say(FetchRequest, "session_id"):
        return
    answer = fetch(run, {topic: {0: 0, 1: 0}}, session_epoch=0)
    session = answer.session_id
    fetch(run, {}, session_id=session, session_epoch=1)
    produce(run, topic, {1: build_batch(records())})
    fetch(run, {}, session_id=session, session_epoch=2)
    fetch(run, {topic: {0: 3}}, session_id=session, session_epoch=3)
    forgotten = ForgottenTopic(topic=topic, topic_id=id_of(run, topic, FetchRequest, 13), partitions=[1])
    fetch(run, {}, session_id=session, session_epoch=4, forgotten_topics_data=[forgotten])
    fetch(run, {}, session_id=session, session_epoch=9)
    fetch(run, {}, session_id=session + 1, session_epoch=1)
    fetch(run, {f"gone-{run.broker.mark}": {0: 0}}, session_id=session, session_epoch=5)
    fetch(run, {}, session_id=session, session_epoch=-1)
    fetch(run, {}, session_id=session, session_epoch=6)


# Offsets.


def offsets(run: ScriptRun, topic: str, *times: int, partition: int = 0, **fields: Any) -> None:
    for time in times:
        request_partition = ListOffsetsPartition(partition_index=partition, timestamp=time, **fields)
        message = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[request_partition])]
        )
        run.ask("reader", message)


def offsets_by_time(run: ScriptRun) -> None:
    topic = run.topic()
    offsets(run, topic, -1, -2, -3, 0, TIMES[0])
    produce(run, topic, {0: build_batch(records())})
    produce(run, topic, {0: build_batch(records(*(t + 10_000 for t in TIMES)), codec=Codec.GZIP)})
    offsets(run, topic, -1, -2, -3, -4, -5, 0, TIMES[0], TIMES[0] + 1, TIMES[1], TIMES[1] + 1, 2**50)
    offsets(run, topic, -1, partition=9)
    offsets(run, f"gone-{run.broker.mark}", -1)
    for epoch in (0, 1, 99):
        offsets(run, topic, -1, current_leader_epoch=epoch)


def offsets_of_epochs(run: ScriptRun) -> None:
    topic = run.topic()
    produce(run, topic, {0: build_batch(records())})
    for partition, current, epoch in ((0, -1, 0), (0, 0, 0), (0, 5, 0), (0, -1, 7), (1, -1, 0), (9, -1, 0)):
        request_partition = OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=current, leader_epoch=epoch
        )
        message = OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderTopic(topic=topic, partitions=[request_partition])]
        )
        run.ask("reader", message)


def deleting_records(run: ScriptRun) -> None:
    topic = run.topic()
    for _ in range(2):
        produce(run, topic, {0: build_batch(records())})
    for partition, offset in ((0, 2), (0, 2), (0, 1), (0, 7), (0, -2), (1, 0), (9, 0), (0, -1)):
        request_topic = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        run.ask("admin", DeleteRecordsRequest(topics=[request_topic], timeout_ms=5000))
        offsets(run, topic, -2, -1)
    fetch(run, {topic: {0: 0}})


# Metadata and topics.


def metadata(run: ScriptRun, *names: str, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return run.ask("admin", MetadataRequest(topics=topics, **({"allow_auto_topic_creation": False} | fields)))


def describing(run: ScriptRun) -> None:
    topic = run.topic()
    metadata(run, topic)
    if run.can_say(MetadataRequest, "allow_auto_topic_creation"):
        metadata(run, topic, f"gone-{run.broker.mark}", "no/name", "", "x" * 250)
    metadata(run)
    if run.version(MetadataRequest) >= 1:
        run.ask("admin", MetadataRequest(topics=None, allow_auto_topic_creation=False))
    metadata(run, topic, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    if run.version(MetadataRequest) >= 12:
        for topic_id in (run.broker.topic_id(topic), STRANGER):
            request_topic = MetadataRequestTopic(topic_id=topic_id, name=None)
            run.ask("admin", MetadataRequest(topics=[request_topic], allow_auto_topic_creation=False))
    for included in (False, True):
        run.ask("admin", DescribeClusterRequest(include_cluster_authorized_operations=included))


def creatable(
    name: str, count: int = 1, factor: int = 1, *, configs: Mapping[str, str | None] | None = None, **fields: Any
) -> CreatableTopic:
    settings = [CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()]
    return CreatableTopic(name=name, num_partitions=count, replication_factor=factor, configs=settings, **fields)


def create(run: ScriptRun, *topics: CreatableTopic, **fields: Any) -> Any:
    return run.ask("admin", CreateTopicsRequest(topics=list(topics), timeout_ms=5000, **fields))


def creating_topics(run: ScriptRun) -> None:
    mark = run.broker.mark
    create(run, creatable(f"a-{mark}", 3))
    run.broker.await_topic(f"a-{mark}", 3)
    create(run, creatable(f"a-{mark}"))
    create(run, creatable(f"b-{mark}", 0))
    create(run, creatable(f"b-{mark}", -2))
    create(run, creatable(f"b-{mark}", 1, 5))
    create(run, creatable(f"b-{mark}", 1, 0))
    for name in (f"b/{mark}", "", ".", f"b-{mark}" * 40):
        create(run, creatable(name))
    create(run, creatable(f"b-{mark}", configs={"no.such.option": "1"}))
    create(run, creatable(f"b-{mark}", configs={"retention.ms": "much"}))
    create(run, creatable(f"b-{mark}", configs={"retention.ms": None}))
    create(run, creatable(f"b-{mark}", configs={"cleanup.policy": "nonsense"}))
    create(run, creatable(f"b-{mark}"), creatable(f"b-{mark}"))
    create(run, creatable(f"a.{mark}"), creatable(f"a_{mark}"), validate_only=True)
    create(run, creatable(f"v-{mark}", 2), validate_only=True)
    if run.can_say(MetadataRequest, "allow_auto_topic_creation"):
        metadata(run, f"v-{mark}")
    lot = CreatableReplicaAssignment(partition_index=0, broker_ids=[99])
    create(run, creatable(f"r-{mark}", -1, -1, assignments=[lot]))
    create(run, creatable(f"r-{mark}", 2, 1, assignments=[lot]))


def growing_and_deleting_topics(run: ScriptRun) -> None:
    topic = run.topic()
    missing_topic = f"gone-{run.broker.mark}"
    for name, count in ((topic, 4), (topic, 4), (topic, 2), (topic, 0), (topic, -1), (missing_topic, 3)):
        request_topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        run.ask("admin", CreatePartitionsRequest(topics=[request_topic], timeout_ms=5000))
    request_topic = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    run.ask("admin", CreatePartitionsRequest(topics=[request_topic, request_topic], timeout_ms=5000))
    run.ask("admin", CreatePartitionsRequest(topics=[request_topic], timeout_ms=5000, validate_only=True))
    lots = [CreatePartitionsAssignment(broker_ids=[99])]
    request_topic = CreatePartitionsTopic(name=topic, count=5, assignments=lots)
    run.ask("admin", CreatePartitionsRequest(topics=[request_topic], timeout_ms=5000))
    if run.version(DeleteTopicsRequest) < 6:
        run.ask("admin", DeleteTopicsRequest(topic_names=[topic, missing_topic], timeout_ms=5000))
        return
    topic_id = run.broker.topic_id(topic)
    for states in (
        [DeleteTopicState(name=topic, topic_id=topic_id)],
        [DeleteTopicState(name=missing_topic), DeleteTopicState(topic_id=STRANGER)],
        [DeleteTopicState(name=None)],
        [DeleteTopicState(topic_id=topic_id)],
    ):
        run.ask("admin", DeleteTopicsRequest(topics=states, timeout_ms=5000))


# Options.

SHARED = ("retention.ms", "cleanup.policy", "max.message.bytes", "message.timestamp.type", "segment.bytes")


def options(run: ScriptRun, topic: str, names: Sequence[str] | None = SHARED, **fields: Any) -> None:
    keys = None if names is None else list(names)
    resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=keys)
    run.ask("admin", DescribeConfigsRequest(resources=[resource], **fields))


def describing_options(run: ScriptRun) -> None:
    topic = run.topic()
    options(run, topic)
    options(run, topic, include_synonyms=True)
    options(run, topic, ["no.such.option"])
    options(run, topic, [])
    options(run, f"gone-{run.broker.mark}")
    options(run, "no/name")
    for kind, name in ((4, "99"), (4, "not a number"), (77, "x")):
        resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
        run.ask("admin", DescribeConfigsRequest(resources=[resource]))


SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(run: ScriptRun, topic: str, *changes: tuple[str, int, str | None], **fields: Any) -> None:
    configs = [AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
    run.ask("admin", IncrementalAlterConfigsRequest(resources=[resource], **fields))


def altering_options(run: ScriptRun) -> None:
    topic = run.topic()
    alter(run, topic, ("retention.ms", SET, "5000"), ("cleanup.policy", APPEND, "compact"))
    run.broker.await_option(topic, "retention.ms", "5000")
    options(run, topic)
    alter(run, topic, ("retention.ms", SET, "much"))
    alter(run, topic, ("no.such.option", SET, "1"))
    alter(run, topic, ("retention.ms", APPEND, "1"))
    alter(run, topic, ("retention.ms", 9, "1"))
    alter(run, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    alter(run, topic, ("retention.ms", SET, None))
    alter(run, f"gone-{run.broker.mark}", ("retention.ms", SET, "1"))
    alter(run, topic, ("retention.ms", SET, "7"), validate_only=True)
    alter(run, topic, ("cleanup.policy", SUBTRACT, "compact"), ("retention.ms", DELETE, None))
    run.broker.await_option(topic, "retention.ms", "604800000")
    options(run, topic)


# ApiVersions.


def misaddressed_requests(run: ScriptRun) -> None:
    if not run.can_say(ApiVersionsRequest, "cluster_id"):
        return
    cluster = run.broker.ask(DescribeClusterRequest(), 0)
    this, node_id = cluster.cluster_id, cluster.brokers[0].broker_id
    for cluster_id, node in ((None, -1), (this, node_id), (this, -1), (None, node_id), ("", -1), ("", node_id)):
        versions(run, cluster_id=cluster_id, node_id=node)
    for cluster_id, node in (("another", node_id), (this, node_id + 1), ("another", -1), (this, -2)):
        versions(run, cluster_id=cluster_id, node_id=node)
    versions(run, software="a b", cluster_id="another", node_id=node_id)


def versions(run: ScriptRun, software: str = "x", **fields: Any) -> None:
    run.ask("x", ApiVersionsRequest(client_software_name=software, client_software_version="1", **fields))


SCRIPTS = (
    misaddressed_requests,
    producing,
    producing_what_is_wrong,
    topics_with_rules,
    idempotent_producing,
    fetching,
    fetching_in_sessions,
    offsets_by_time,
    offsets_of_epochs,
    deleting_records,
    describing,
    creating_topics,
    growing_and_deleting_topics,
    describing_options,
    altering_options,
)

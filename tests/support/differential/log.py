"""Scripts for the differential harness beside groups: produce, fetch, offsets by time, metadata, topics, options."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.wire.compression import Codec
from kohort.wire.messages.cluster import DescribeClusterRequest
from kohort.wire.messages.configs import (
    AlterableConfig,
    AlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kohort.wire.messages.epochs import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
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
from support.differential.harness import Play
from support.recent import RECENT_MS

STRANGER = b"\x01" * 16
TIMES = (RECENT_MS, RECENT_MS + 5000, RECENT_MS + 2000)


def id_of(play: Play, topic: str, request: type[Any], by_id_from: int) -> bytes:
    if play.version(request) < by_id_from:
        return bytes(16)
    found = play.crew.topic_id(topic)
    return STRANGER if found == bytes(16) else found


# Produce.


def records(*times: int, value: bytes = b"v") -> list[NewRecord]:
    return [NewRecord(b"k%d" % i, value, [("h", b"x")], t) for i, t in enumerate(times or TIMES)]


def produce(play: Play, topic: str, batches: Mapping[int, bytes | None], *, acks: int = -1, **fields: Any) -> Any:
    data = [PartitionProduceData(index=p, records=batch) for p, batch in batches.items()]
    entry = TopicProduceData(name=topic, topic_id=id_of(play, topic, ProduceRequest, 13), partition_data=data)
    return play.ask("writer", ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[entry], **fields))


def changed(batch: bytes, at: int, form: str, value: int) -> bytes:
    """``batch`` with another value in its header, and the checksum as it was."""
    return batch[:at] + struct.pack(form, value) + batch[at + struct.calcsize(form) :]


def producing(play: Play) -> None:
    topic = play.topic()
    good = build_batch(records())
    produce(play, topic, {0: good})
    produce(play, topic, {1: good, 0: good, 7: good, -1: good})
    produce(play, f"gone-{play.crew.mark}", {0: good})
    for acks in (1, 2, -2):
        produce(play, topic, {0: good}, acks=acks)
    for codec in Codec:
        produce(play, topic, {0: build_batch(records(), codec=codec)})
    offsets(play, topic, -1)


def producing_what_is_wrong(play: Play) -> None:
    topic = play.topic()
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
        produce(play, topic, {0: batch})
    produce(play, topic, {0: build_batch(records(value=b"x" * 1_100_000))})
    offsets(play, topic, -1)


def topics_with_rules(play: Play) -> None:
    strict, stamped, compacted, small = (f"{n}-{play.crew.mark}" for n in ("strict", "stamped", "compacted", "small"))
    options = {
        strict: {"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"},
        stamped: {"message.timestamp.type": "LogAppendTime"},
        compacted: {"cleanup.policy": "compact"},
        small: {"max.message.bytes": "200"},
    }
    create(play, *(creatable(name, configs=configs) for name, configs in options.items()))
    for topic in options:
        play.crew.await_topic(topic, 1)
    produce(play, strict, {0: build_batch(records())})
    produce(play, strict, {0: build_batch(records(2**52))})
    produce(play, strict, {0: build_batch(records(-1))})
    produce(play, stamped, {0: build_batch(records())})
    produce(play, compacted, {0: build_batch([NewRecord(None, b"v", (), TIMES[0])])})
    produce(play, compacted, {0: build_batch([NewRecord(k, b"v", (), TIMES[0]) for k in (b"a", None, b"b", None)])})
    produce(play, compacted, {0: build_batch(records())})
    produce(play, small, {0: build_batch(records(value=b"x" * 200))})
    produce(play, small, {0: build_batch(records(TIMES[0]))})


def idempotent_producing(play: Play) -> None:
    topic = play.topic()

    def batch(sequence: int, epoch: int = 0, count: int = 2) -> bytes:
        return build_batch(records(*TIMES[:count]), producer_id=4711, producer_epoch=epoch, base_sequence=sequence)

    for sequence in (0, 2, 2, 0, 6, 4):
        produce(play, topic, {0: batch(sequence)})
    for sequence, epoch in ((0, 2), (2, 1), (5, 3), (0, 3)):
        produce(play, topic, {0: batch(sequence, epoch)})
    for n in range(1, 7):
        produce(play, topic, {0: batch(2 * n, 3)})
    produce(play, topic, {0: batch(0, 3)})  # too old to be known as a duplicate
    offsets(play, topic, -1)
    new = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    play.crew.eventually_serves(new, 1)  # a node of Kafka's is given its first ids a moment after it is asked
    play.ask("writer", new)
    play.ask("writer", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000))


# Fetch.


def fetch(
    play: Play, topics: Mapping[str, Mapping[int, int]], *, epoch: int = -1, limit: int = 1 << 20, **fields: Any
) -> Any:
    asked = [
        FetchTopic(
            topic=topic,
            topic_id=id_of(play, topic, FetchRequest, 13),
            partitions=[
                FetchPartition(partition=p, fetch_offset=o, current_leader_epoch=epoch, partition_max_bytes=limit)
                for p, o in at.items()
            ],
        )
        for topic, at in topics.items()
    ]
    given = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 24, "session_epoch": -1} | fields
    return play.ask("reader", FetchRequest(topics=asked, **given))


def fetching(play: Play) -> None:
    topic, gone = play.topic(), f"gone-{play.crew.mark}"
    for _ in range(3):
        produce(play, topic, {0: build_batch(records())})
    for offset in (0, 1, 3, 8, 9, 10, -1):
        fetch(play, {topic: {0: offset}})
    fetch(play, {topic: {0: 0, 1: 0, 5: 0}})
    fetch(play, {topic: {0: 0}, gone: {0: 0}})
    for epoch in (0, 1, 99):
        fetch(play, {topic: {0: 0}}, epoch=epoch)
    fetch(play, {topic: {0: 0, 1: 0}}, limit=1)
    fetch(play, {topic: {0: 0}}, max_bytes=1)
    fetch(play, {topic: {0: 0}}, isolation_level=1)
    fetch(play, {topic: {1: 0}}, max_wait_ms=50)
    fetch(play, {})


def fetching_in_sessions(play: Play) -> None:
    topic = play.topic()
    produce(play, topic, {0: build_batch(records())})
    if not play.can_say(FetchRequest, "session_id"):
        return
    answer = fetch(play, {topic: {0: 0, 1: 0}}, session_epoch=0)
    session = answer.session_id
    fetch(play, {}, session_id=session, session_epoch=1)
    produce(play, topic, {1: build_batch(records())})
    fetch(play, {}, session_id=session, session_epoch=2)
    fetch(play, {topic: {0: 3}}, session_id=session, session_epoch=3)
    forgotten = ForgottenTopic(topic=topic, topic_id=id_of(play, topic, FetchRequest, 13), partitions=[1])
    fetch(play, {}, session_id=session, session_epoch=4, forgotten_topics_data=[forgotten])
    fetch(play, {}, session_id=session, session_epoch=9)
    fetch(play, {}, session_id=session + 1, session_epoch=1)
    fetch(play, {f"gone-{play.crew.mark}": {0: 0}}, session_id=session, session_epoch=5)
    fetch(play, {}, session_id=session, session_epoch=-1)
    fetch(play, {}, session_id=session, session_epoch=6)


# Offsets.


def offsets(play: Play, topic: str, *times: int, partition: int = 0, **fields: Any) -> None:
    for time in times:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=time, **fields)
        message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        play.ask("reader", message)


def offsets_by_time(play: Play) -> None:
    topic = play.topic()
    offsets(play, topic, -1, -2, -3, 0, TIMES[0])
    produce(play, topic, {0: build_batch(records())})
    produce(play, topic, {0: build_batch(records(*(t + 10_000 for t in TIMES)), codec=Codec.GZIP)})
    offsets(play, topic, -1, -2, -3, -4, -5, 0, TIMES[0], TIMES[0] + 1, TIMES[1], TIMES[1] + 1, 2**50)
    offsets(play, topic, -1, partition=9)
    offsets(play, f"gone-{play.crew.mark}", -1)
    for epoch in (0, 1, 99):
        offsets(play, topic, -1, current_leader_epoch=epoch)


def offsets_of_epochs(play: Play) -> None:
    topic = play.topic()
    produce(play, topic, {0: build_batch(records())})
    for partition, current, epoch in ((0, -1, 0), (0, 0, 0), (0, 5, 0), (0, -1, 7), (1, -1, 0), (9, -1, 0)):
        asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
        message = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[asked])])
        play.ask("reader", message)


def deleting_records(play: Play) -> None:
    topic = play.topic()
    for _ in range(2):
        produce(play, topic, {0: build_batch(records())})
    for partition, offset in ((0, 2), (0, 2), (0, 1), (0, 7), (0, -2), (1, 0), (9, 0), (0, -1)):
        asked = DeleteRecordsTopic(
            name=topic, partitions=[DeleteRecordsPartition(partition_index=partition, offset=offset)]
        )
        play.ask("admin", DeleteRecordsRequest(topics=[asked], timeout_ms=5000))
        offsets(play, topic, -2, -1)
    fetch(play, {topic: {0: 0}})


# Metadata and topics.


def metadata(play: Play, *names: str, **fields: Any) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return play.ask("admin", MetadataRequest(topics=topics, **({"allow_auto_topic_creation": False} | fields)))


def describing(play: Play) -> None:
    topic = play.topic()
    metadata(play, topic)
    if play.can_say(MetadataRequest, "allow_auto_topic_creation"):
        metadata(play, topic, f"gone-{play.crew.mark}", "no/name", "", "x" * 250)
    metadata(play)
    if play.version(MetadataRequest) >= 1:
        play.ask("admin", MetadataRequest(topics=None, allow_auto_topic_creation=False))
    metadata(play, topic, include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    if play.version(MetadataRequest) >= 12:
        for topic_id in (play.crew.topic_id(topic), STRANGER):
            asked = MetadataRequestTopic(topic_id=topic_id, name=None)
            play.ask("admin", MetadataRequest(topics=[asked], allow_auto_topic_creation=False))
    for told in (False, True):
        play.ask("admin", DescribeClusterRequest(include_cluster_authorized_operations=told))


def creatable(
    name: str, count: int = 1, factor: int = 1, *, configs: Mapping[str, str | None] | None = None, **fields: Any
) -> CreatableTopic:
    settings = [CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()]
    return CreatableTopic(name=name, num_partitions=count, replication_factor=factor, configs=settings, **fields)


def create(play: Play, *topics: CreatableTopic, **fields: Any) -> Any:
    return play.ask("admin", CreateTopicsRequest(topics=list(topics), timeout_ms=5000, **fields))


def creating_topics(play: Play) -> None:
    mark = play.crew.mark
    create(play, creatable(f"a-{mark}", 3))
    play.crew.await_topic(f"a-{mark}", 3)
    create(play, creatable(f"a-{mark}"))
    create(play, creatable(f"b-{mark}", 0))
    create(play, creatable(f"b-{mark}", -2))
    create(play, creatable(f"b-{mark}", 1, 5))
    create(play, creatable(f"b-{mark}", 1, 0))
    for name in (f"b/{mark}", "", ".", f"b-{mark}" * 40):
        create(play, creatable(name))
    create(play, creatable(f"b-{mark}", configs={"no.such.option": "1"}))
    create(play, creatable(f"b-{mark}", configs={"retention.ms": "much"}))
    create(play, creatable(f"b-{mark}", configs={"retention.ms": None}))
    create(play, creatable(f"b-{mark}", configs={"cleanup.policy": "nonsense"}))
    create(play, creatable(f"b-{mark}"), creatable(f"b-{mark}"))
    create(play, creatable(f"a.{mark}"), creatable(f"a_{mark}"), validate_only=True)
    create(play, creatable(f"v-{mark}", 2), validate_only=True)
    if play.can_say(MetadataRequest, "allow_auto_topic_creation"):
        metadata(play, f"v-{mark}")
    lot = CreatableReplicaAssignment(partition_index=0, broker_ids=[99])
    create(play, creatable(f"r-{mark}", -1, -1, assignments=[lot]))
    create(play, creatable(f"r-{mark}", 2, 1, assignments=[lot]))


def growing_and_deleting_topics(play: Play) -> None:
    topic = play.topic()
    gone = f"gone-{play.crew.mark}"
    for name, count in ((topic, 4), (topic, 4), (topic, 2), (topic, 0), (topic, -1), (gone, 3)):
        asked = CreatePartitionsTopic(name=name, count=count, assignments=None)
        play.ask("admin", CreatePartitionsRequest(topics=[asked], timeout_ms=5000))
    asked = CreatePartitionsTopic(name=topic, count=9, assignments=None)
    play.ask("admin", CreatePartitionsRequest(topics=[asked, asked], timeout_ms=5000))
    play.ask("admin", CreatePartitionsRequest(topics=[asked], timeout_ms=5000, validate_only=True))
    lots = [CreatePartitionsAssignment(broker_ids=[99])]
    asked = CreatePartitionsTopic(name=topic, count=5, assignments=lots)
    play.ask("admin", CreatePartitionsRequest(topics=[asked], timeout_ms=5000))
    if play.version(DeleteTopicsRequest) < 6:
        play.ask("admin", DeleteTopicsRequest(topic_names=[topic, gone], timeout_ms=5000))
        return
    topic_id = play.crew.topic_id(topic)
    for states in (
        [DeleteTopicState(name=topic, topic_id=topic_id)],
        [DeleteTopicState(name=gone), DeleteTopicState(topic_id=STRANGER)],
        [DeleteTopicState(name=None)],
        [DeleteTopicState(topic_id=topic_id)],
    ):
        play.ask("admin", DeleteTopicsRequest(topics=states, timeout_ms=5000))


# Options.

SHARED = ("retention.ms", "cleanup.policy", "max.message.bytes", "message.timestamp.type", "segment.bytes")


def options(play: Play, topic: str, names: Sequence[str] | None = SHARED, **fields: Any) -> None:
    keys = None if names is None else list(names)
    asked = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=keys)
    play.ask("admin", DescribeConfigsRequest(resources=[asked], **fields))


def describing_options(play: Play) -> None:
    topic = play.topic()
    options(play, topic)
    options(play, topic, include_synonyms=True)
    options(play, topic, ["no.such.option"])
    options(play, topic, [])
    options(play, f"gone-{play.crew.mark}")
    options(play, "no/name")
    for kind, name in ((4, "99"), (4, "not a number"), (77, "x")):
        asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["x"])
        play.ask("admin", DescribeConfigsRequest(resources=[asked]))


SET, DELETE, APPEND, SUBTRACT = range(4)


def alter(play: Play, topic: str, *changes: tuple[str, int, str | None], **fields: Any) -> None:
    configs = [AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    asked = AlterConfigsResource(resource_type=2, resource_name=topic, configs=configs)
    play.ask("admin", IncrementalAlterConfigsRequest(resources=[asked], **fields))


def altering_options(play: Play) -> None:
    topic = play.topic()
    alter(play, topic, ("retention.ms", SET, "5000"), ("cleanup.policy", APPEND, "compact"))
    play.crew.await_option(topic, "retention.ms", "5000")
    options(play, topic)
    alter(play, topic, ("retention.ms", SET, "much"))
    alter(play, topic, ("no.such.option", SET, "1"))
    alter(play, topic, ("retention.ms", APPEND, "1"))
    alter(play, topic, ("retention.ms", 9, "1"))
    alter(play, topic, ("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    alter(play, topic, ("retention.ms", SET, None))
    alter(play, f"gone-{play.crew.mark}", ("retention.ms", SET, "1"))
    alter(play, topic, ("retention.ms", SET, "7"), validate_only=True)
    alter(play, topic, ("cleanup.policy", SUBTRACT, "compact"), ("retention.ms", DELETE, None))
    play.crew.await_option(topic, "retention.ms", "604800000")
    options(play, topic)


SCRIPTS = (
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

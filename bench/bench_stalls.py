# ruff: noqa: ARG001, ARG005, E501 - a table of requests, each made by a function of the house and of the count
"""For how long one request may keep a broker from serving others: every API, at large bodies.

    python bench/bench_stalls.py [NAME ...] [--elements 1000000] [--topics 10000] [--denied] [--table] [--json]

Each request is given to the machine in process, in pieces as a socket gives them, with its data on files. What counts
is the longest single event until its answer is there and everything is let go: processor time, and wall time beside it
for what waits for the disk. Sums say how much work there is in all. ``--elements`` is the most that one request may
hold (kohort.wire.readers); names, partitions and keys are as short as they may be, so that there are many of them. With
``--denied`` there is an authorizer with a thousand ACLs of others, none of which allows anything that is asked.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kohort.aio.serving.file_storage import FileStorage
from kohort.aio.serving.garbage import ShortCollections
from kohort.broker.broker import Broker
from kohort.broker.io import Close, Connected, Disconnected, Received, Send, Tick
from kohort.config.broker import BrokerConfig
from kohort.log.storage import MemoryStorage, Storage
from kohort.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from kohort.security.principal import ANONYMOUS
from kohort.wire.apis import APIS
from kohort.wire.compression import Codec
from kohort.wire.frames import FrameReader
from kohort.wire.headers import RequestHeader, build_request, parse_response
from kohort.wire.messages import (
    acls,
    api_versions,
    cluster,
    configs,
    epochs,
    fetch,
    find_coordinator,
    group_admin,
    group_classic,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producer_ids,
    quorum,
    reassignments,
    topic_partitions,
    topics,
    transaction_admin,
    transactions,
)
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

PIECE = 256 << 10
"""What a socket gives at once."""
WIDE = "wide"
"""The topic of 10,000 partitions."""
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
EVERYTHING = [
    Acl(kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else "*", PatternType.LITERAL, str(ANONYMOUS), "*",
        Operation.ALL, Permission.ALLOW)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
]  # fmt: skip
OF_OTHERS = [
    Acl(ResourceType.TOPIC, f"{letter}{n}", PatternType.PREFIXED, f"User:{n}", "*", Operation.READ, Permission.ALLOW)
    for letter in "aw" for n in range(500)
]  # fmt: skip
Request = tuple[Message, int]


@dataclass(frozen=True)
class Case:
    """One kind of request: its name, what makes it, and what is done before it is measured."""

    name: str
    make: Callable[[House, int], Request]
    before: Callable[[House], None] | None = None
    client_id: str = "bench"


@dataclass
class Cost:
    """What serving took."""

    worst_cpu_ms: float = 0.0
    worst_wall_ms: float = 0.0
    cpu_ms: float = 0.0
    events: int = 0
    worst_event: int = 0
    body_bytes: int = 0
    answer_bytes: int = 0
    outcome: str = "no answer"


class House:
    """A broker on files, and one peer."""

    def __init__(self, folder: Path | None, topic_count: int, *, denied: bool = False) -> None:
        self.storage: Storage = MemoryStorage() if folder is None else FileStorage(folder)
        config = BrokerConfig(
            group_initial_rebalance_delay_ms=0,
            auto_create_topics_enable=True,
            authorizer_class_name=AUTHORIZER if denied else "",
        )
        self.denied = denied
        self.now_ms = int(time.time() * 1000)
        self.broker = Broker(config, self.storage, random.Random(1), self.now_ms)
        self.collections = ShortCollections()
        self.connection = 0
        self.topic_count = topic_count
        self.producer = (-1, -1)
        if denied:
            self.broker.state.access.change(add=OF_OTHERS, remove=())
        self.let_all(True)
        self.connect()

    def let_all(self, allowed: bool) -> None:
        """Allow everything, or again nothing, where there is an authorizer."""
        if self.denied:
            self.broker.state.access.change(add=EVERYTHING if allowed else (), remove=() if allowed else EVERYTHING)

    def connect(self) -> None:
        self.connection += 1
        self.broker.handle(Connected(self.connection, "127.0.0.1"), self.now_ms)

    def ask(self, message: Message, version: int, client_id: str = "bench") -> tuple[Any, Cost]:
        """Send a request, and let the broker have ticks until nothing is left to do."""
        cost = Cost()
        reader = FrameReader(1 << 31)
        answers: list[bytes] = []
        for event in self._events(message, version, client_id, cost, answers):
            self._give(event, cost, reader, answers)
        answer: Any = None
        if answers:
            cost.answer_bytes = len(answers[0])
            _, answer = parse_response(answers[0], APIS[type(message).API_KEY or 0].response, version)
            cost.outcome = _outcome(answer)
        return answer, cost

    def _events(
        self, message: Message, version: int, client_id: str, cost: Cost, answers: list[bytes]
    ) -> Iterator[Received | Tick]:
        header = RequestHeader(type(message).API_KEY or 0, version, 1, client_id)
        data = b"".join(build_request(header, message))
        cost.body_bytes = len(data)
        connection = self.connection
        for at in range(0, len(data), PIECE):
            yield Received(connection, data[at : at + PIECE])
        del data
        while not answers or self.broker.long_work:
            wake = self.broker.wake_at_ms
            if wake is None or connection != self.connection:
                return
            self.now_ms = max(self.now_ms, wake)
            yield Tick()

    def _give(self, event: Received | Tick, cost: Cost, reader: FrameReader, answers: list[bytes]) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        out = self.broker.handle(event, self.now_ms)
        self.collections.after_event(in_long_work=bool(self.broker.long_work))
        cpu_ms, wall_ms = (time.process_time() - cpu) * 1e3, (time.perf_counter() - wall) * 1e3
        if cpu_ms > cost.worst_cpu_ms:
            cost.worst_cpu_ms, cost.worst_event = cpu_ms, cost.events
        cost.worst_wall_ms = max(cost.worst_wall_ms, wall_ms)
        cost.cpu_ms += cpu_ms
        cost.events += 1
        self.broker.take_notes()
        for output in out:
            match output:
                case Send(connection=self.connection, buffers=buffers):
                    answers += reader.feed(b"".join(buffers))
                case Close(connection=self.connection, reason=reason):
                    cost.outcome = f"closed: {reason}"[:60]
                    self.connect()

    def lose_peer(self) -> None:
        self.broker.handle(Disconnected(self.connection), self.now_ms)
        self.connect()

    def settle(self) -> None:
        """Do what is due, such as removing folders."""
        while (wake := self.broker.wake_at_ms) is not None and wake <= self.now_ms:
            self.broker.handle(Tick(), self.now_ms)
            self.broker.take_notes()

    # ------------------------------------------------------------ what is there

    def furnish(self) -> None:
        self.create([topics.CreatableTopic(name=WIDE, num_partitions=10_000, replication_factor=1)])
        for at in range(0, self.topic_count, 5_000):
            count = min(5_000, self.topic_count - at)
            self.create(
                [topics.CreatableTopic(name=f"t{at + i}", num_partitions=1, replication_factor=1) for i in range(count)]
            )
        for name, options in (("keyed", {"cleanup.policy": "compact"}), ("gzipped", {"compression.type": "gzip"})):
            made = [topics.CreatableTopicConfig(name=k, value=v) for k, v in options.items()]
            self.create([topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=made)])
        self.ask(find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 4)
        self.ask(find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)

    def create(self, wanted: list[topics.CreatableTopic]) -> None:
        answer, _ = self.ask(topics.CreateTopicsRequest(topics=wanted, timeout_ms=60_000), 7)
        assert all(t.error_code in (0, 36) for t in answer.topics), answer.topics[0]

    def wide_id(self) -> bytes:
        return self.broker.state.topics.get(WIDE).topic_id  # type: ignore[union-attr]


def _outcome(answer: Any) -> str:
    """The first error code in an answer, wherever it is, and how often."""
    codes: dict[int, int] = {}
    todo = [answer]
    while todo:
        one = todo.pop()
        for spec in one.FIELDS:
            held = getattr(one, spec.name)
            if spec.name.endswith("error_code"):
                codes[held] = codes.get(held, 0) + 1
            elif spec.kind == "array" and isinstance(spec.of, type) and held:
                todo += held
    return " ".join(f"{code}x{count}" for code, count in sorted(codes.items())) or "answered"


# ---------------------------------------------------------------- the requests


def _spread(n: int) -> Iterator[tuple[str, list[int]]]:
    """``n`` partitions, all that there are first and then again."""
    while n > 0:
        count = min(n, 10_000)
        yield WIDE, list(range(count))
        n -= count


def _names(n: int) -> list[str]:
    """``n`` different names that are short, and that no topic has."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
    return [
        "".join((letters[i >> 18 & 63], letters[i >> 12 & 63], letters[i >> 6 & 63], letters[i & 63])) for i in range(n)
    ]


def _bomb(codec: Codec, keyed: bool) -> bytes:
    """A megabyte that holds as much as a topic that opens it takes."""
    value = bytes(1 << 20)
    return build_batch([NewRecord(b"k" if keyed else None, value)] * 15, codec=codec)


def _small_records(size: int) -> bytes:
    return build_batch([NewRecord(b"", None)] * (size // 9))


def _produce(name: str, batch: bytes) -> Request:
    data = [produce.PartitionProduceData(index=0, records=batch)]
    asked = [produce.TopicProduceData(name=name, partition_data=data)]
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=asked), 9


def _produce_wide(house: House, n: int) -> Request:
    batch = build_batch([NewRecord(None, b"v")])
    asked = [
        produce.TopicProduceData(
            name=name, partition_data=[produce.PartitionProduceData(index=i, records=batch) for i in indexes]
        )
        for name, indexes in _spread(min(n, 100_000))
    ]
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=asked), 9


def _fetch(house: House, n: int, **options: int) -> Request:
    parts = [fetch.FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in range(n - 1)]
    return fetch.FetchRequest(
        topics=[fetch.FetchTopic(topic=WIDE, partitions=parts)],
        **{"max_bytes": 50 << 20, "session_epoch": -1, **options},
    ), 12


def _partitions(topic: Any, partition: Any, n: int, inner: str = "partitions", **fields: Any) -> list[Any]:
    return [
        topic(name=name, **{inner: [partition(partition_index=i, **fields) for i in ids]}) for name, ids in _spread(n)
    ]


def _commit(house: House, n: int) -> Request:
    asked = _partitions(offsets.OffsetCommitRequestTopic, offsets.OffsetCommitRequestPartition, min(n, 200_000))
    return offsets.OffsetCommitRequest(group_id="g", topics=asked), 8


def _offset_fetch(house: House, n: int) -> Request:
    asked = [offsets.OffsetFetchRequestTopics(name=name, partition_indexes=ids) for name, ids in _spread(n)]
    return offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(group_id="g", topics=asked)]), 8


def _join(house: House, n: int) -> Request:
    protocols = [group_classic.JoinGroupRequestProtocol(name=name) for name in _names(n)]
    return group_classic.JoinGroupRequest(
        group_id="many",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    ), 3


def _join_large(house: House, n: int) -> Request:
    protocols = [group_classic.JoinGroupRequestProtocol(name="range", metadata=bytes((100 << 20) - 1000))]
    return group_classic.JoinGroupRequest(
        group_id="large",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    ), 3


def _sync(house: House, n: int) -> Request:
    assignments = [group_classic.SyncGroupRequestAssignment(member_id=name) for name in _names(n)]
    return group_classic.SyncGroupRequest(group_id="many", member_id="m", generation_id=1, assignments=assignments), 3


def _leave(house: House, n: int) -> Request:
    members = [group_classic.MemberIdentity(member_id=name) for name in _names(n)]
    return group_classic.LeaveGroupRequest(group_id="many", members=members), 4


def _configs(house: House, n: int) -> Request:
    asked = [
        configs.DescribeConfigsResource(resource_type=2, resource_name=f"t{i % house.topic_count}") for i in range(n)
    ]
    return configs.DescribeConfigsRequest(resources=asked), 4


def _alter(house: House, n: int) -> Request:
    option = [configs.AlterableConfig(name="retention.ms", value="1000000")]
    asked = [
        configs.AlterConfigsResource(resource_type=2, resource_name=f"t{i}", configs=option)
        for i in range(min(n, house.topic_count, 500))
    ]
    return configs.IncrementalAlterConfigsRequest(resources=asked), 1


def _txn_partitions(house: House, n: int) -> Request:
    asked = [transactions.AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in _spread(n)]
    producer_id, epoch = house.producer
    return transactions.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=asked,
    ), 3


def _begin_transaction(house: House) -> None:
    answer, _ = house.ask(producer_ids.InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 4)
    house.producer = answer.producer_id, answer.producer_epoch


def _txn_commit(house: House, n: int) -> Request:
    asked = _partitions(
        transactions.TxnOffsetCommitRequestTopic, transactions.TxnOffsetCommitRequestPartition, min(n, 200_000)
    )
    producer_id, epoch = house.producer
    return transactions.TxnOffsetCommitRequest(
        transactional_id="x", group_id="g", producer_id=producer_id, producer_epoch=epoch, topics=asked
    ), 3


def _new_topics(house: House, n: int) -> Request:
    asked = [topics.CreatableTopic(name=f"n{i}", num_partitions=1, replication_factor=1) for i in range(5_000)]
    return topics.CreateTopicsRequest(topics=asked, timeout_ms=1000), 7


def _make_groups(house: House) -> None:
    part = offsets.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    for name in _names(10_000):
        asked = [offsets.OffsetCommitRequestTopic(name=WIDE, partitions=[part])]
        house.ask(offsets.OffsetCommitRequest(group_id=name, topics=asked), 8)


def cases() -> list[Case]:
    small, wide = [0], list(range(10_000))
    return [
        Case("CreateTopics, 1 of 10,000 partitions", lambda h, n: (topics.CreateTopicsRequest(
            topics=[topics.CreatableTopic(name="broad", num_partitions=10_000, replication_factor=1)], timeout_ms=1), 7)),
        Case("CreateTopics, 5,000", _new_topics),
        Case("CreateTopics, bad names", lambda h, n: (topics.CreateTopicsRequest(
            topics=[topics.CreatableTopic(name=f"{m}!", num_partitions=0) for m in _names(n)], timeout_ms=1), 7)),
        Case("CreatePartitions, 10,000", lambda h, n: (topics.CreatePartitionsRequest(
            topics=[topics.CreatePartitionsTopic(name="t0", count=10_000, assignments=None)], timeout_ms=1), 3)),
        Case("DeleteTopics, 5,000", lambda h, n: (topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(name=f"n{i}") for i in range(5_000)], timeout_ms=1), 6)),
        Case("DeleteTopics, 1 of 10,000 partitions", lambda h, n: (topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(name="broad")], timeout_ms=1), 6)),
        Case("DeleteTopics, unknown", lambda h, n: (topics.DeleteTopicsRequest(topic_names=_names(n), timeout_ms=1), 5)),
        Case("Metadata, all topics", lambda h, n: (metadata.MetadataRequest(topics=None), 12)),
        Case("Metadata, empty names", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name="")] * n), 9)),
        Case("Metadata, unknown names", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=m) for m in _names(n)], allow_auto_topic_creation=False), 9)),
        Case("Metadata, 1,000 made", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=f"auto{i}") for i in range(1000)],
            allow_auto_topic_creation=True), 9)),
        Case("DescribeTopicPartitions, unknown", lambda h, n: (topic_partitions.DescribeTopicPartitionsRequest(
            topics=[topic_partitions.DescribedTopicName(name=m) for m in _names(n)]), 0)),
        Case("DescribeTopicPartitions, all", lambda h, n: (topic_partitions.DescribeTopicPartitionsRequest(), 0)),
        Case("Produce, 100,000 partitions", _produce_wide),
        Case("Produce, 1 MiB of small records", lambda h, n: _produce("keyed", _small_records(1 << 20))),
        *(Case(f"Produce, a {codec.name.lower()} bomb, keyed", lambda h, n, c=codec: _produce("keyed", _bomb(c, True)))
          for codec in list(Codec)[1:]),
        *(Case(f"Produce, a {codec.name.lower()} bomb, to gzip",
               lambda h, n, c=codec: _produce("gzipped", _bomb(c, False))) for codec in (Codec.ZSTD, Codec.LZ4)),
        Case("Produce, 1 MiB of noise to gzip", lambda h, n: _produce(
            "gzipped", build_batch([NewRecord(None, os.urandom(1_000_000))]))),
        Case("Fetch", _fetch),
        Case("Fetch, with a session", lambda h, n: _fetch(h, n, session_epoch=0)),
        Case("Fetch, that waits", lambda h, n: _fetch(h, n, max_wait_ms=500, min_bytes=1 << 30)),
        Case("ListOffsets", lambda h, n: (list_offsets.ListOffsetsRequest(
            topics=_partitions(list_offsets.ListOffsetsTopic, list_offsets.ListOffsetsPartition, n - 200, timestamp=-1)), 7)),
        Case("ListOffsets, one topic", lambda h, n: (list_offsets.ListOffsetsRequest(topics=[
            list_offsets.ListOffsetsTopic(name=WIDE, partitions=[
                list_offsets.ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(n - 1)])]), 7)),
        Case("OffsetForLeaderEpoch", lambda h, n: (epochs.OffsetForLeaderEpochRequest(topics=[
            epochs.OffsetForLeaderTopic(topic=name, partitions=[epochs.OffsetForLeaderPartition(partition=i) for i in ids])
            for name, ids in _spread(n - 100)]), 4)),
        Case("DeleteRecords", lambda h, n: (topics.DeleteRecordsRequest(
            topics=_partitions(topics.DeleteRecordsTopic, topics.DeleteRecordsPartition, n - 100, offset=0)), 2)),
        Case("OffsetCommit", _commit),
        Case("OffsetFetch", lambda h, n: _offset_fetch(h, n - 200)),
        Case("OffsetFetch, all of a group", lambda h, n: (offsets.OffsetFetchRequest(
            groups=[offsets.OffsetFetchRequestGroup(group_id="g", topics=None)]), 8)),
        Case("OffsetDelete", lambda h, n: (offsets.OffsetDeleteRequest(group_id="g", topics=_partitions(
            offsets.OffsetDeleteRequestTopic, offsets.OffsetDeleteRequestPartition, min(n, 200_000))), 0)),
        Case("FindCoordinator", lambda h, n: (
            find_coordinator.FindCoordinatorRequest(coordinator_keys=_names(n)), 4)),
        Case("JoinGroup, many protocols", _join),
        Case("JoinGroup, 100 MB", _join_large),
        Case("SyncGroup, many members", _sync),
        Case("LeaveGroup, many members", _leave),
        Case("Heartbeat", lambda h, n: (group_classic.HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000), 3)),
        Case("ListGroups, 10,000", lambda h, n: (group_admin.ListGroupsRequest(), 4), _make_groups),
        Case("DescribeGroups", lambda h, n: (group_admin.DescribeGroupsRequest(groups=_names(n)), 5)),
        Case("DeleteGroups", lambda h, n: (group_admin.DeleteGroupsRequest(groups_names=_names(n)), 2)),
        Case("InitProducerId", lambda h, n: (producer_ids.InitProducerIdRequest(
            transactional_id="y" * 30_000, transaction_timeout_ms=1000), 4)),
        Case("AddPartitionsToTxn", lambda h, n: _txn_partitions(h, n - 100), _begin_transaction),
        Case("AddOffsetsToTxn", lambda h, n: (transactions.AddOffsetsToTxnRequest(
            transactional_id="x", producer_id=h.producer[0], producer_epoch=h.producer[1], group_id="g"), 3)),
        Case("TxnOffsetCommit", _txn_commit),
        Case("EndTxn, of 10,000 partitions", lambda h, n: (transactions.EndTxnRequest(
            transactional_id="x", producer_id=h.producer[0], producer_epoch=h.producer[1], committed=True), 3)),
        Case("WriteTxnMarkers", lambda h, n: (transactions.WriteTxnMarkersRequest(markers=[
            transactions.WritableTxnMarker(producer_id=5, topics=[
                transactions.WritableTxnMarkerTopic(name=WIDE, partition_indexes=wide)])]), 1)),
        Case("DescribeTransactions", lambda h, n: (transaction_admin.DescribeTransactionsRequest(
            transactional_ids=_names(n)), 0)),
        Case("ListTransactions", lambda h, n: (transaction_admin.ListTransactionsRequest(state_filters=_names(n)), 0)),
        Case("DescribeProducers", lambda h, n: (producer_ids.DescribeProducersRequest(topics=[
            producer_ids.DescribeProducersTopic(name=name, partition_indexes=ids) for name, ids in _spread(n - 100)]), 0)),
        Case("DescribeAcls", lambda h, n: (acls.DescribeAclsRequest(), 2)),
        Case("CreateAcls", lambda h, n: (acls.CreateAclsRequest(creations=[acls.AclCreation()] * n), 2)),
        Case("DeleteAcls", lambda h, n: (acls.DeleteAclsRequest(filters=[acls.AclFilter()] * n), 2)),
        Case("DescribeConfigs", lambda h, n: _configs(h, min(n, 20_000))),
        Case("AlterConfigs", lambda h, n: (configs.AlterConfigsRequest(resources=[
            configs.ReplacingConfigsResource(resource_type=2, resource_name=f"t{i}")
            for i in range(min(h.topic_count, 500))]), 2)),
        Case("IncrementalAlterConfigs", _alter),
        Case("IncrementalAlterConfigs, unknown", lambda h, n: (configs.IncrementalAlterConfigsRequest(resources=[
            configs.AlterConfigsResource(resource_type=2, resource_name=m) for m in _names(n)]), 1)),
        Case("ListConfigResources", lambda h, n: (configs.ListConfigResourcesRequest(resource_types=[2] * n), 1)),
        Case("AlterReplicaLogDirs", lambda h, n: (log_dirs.AlterReplicaLogDirsRequest(dirs=[log_dirs.AlterLogDir(
            path=h.broker.state.topics.place, topics=[
                log_dirs.AlterLogDirTopic(name=name, partitions=ids) for name, ids in _spread(n - 200)])]), 2)),
        Case("DescribeLogDirs, all", lambda h, n: (log_dirs.DescribeLogDirsRequest(topics=None), 4)),
        Case("DescribeLogDirs", lambda h, n: (log_dirs.DescribeLogDirsRequest(topics=[
            log_dirs.DescribableLogDirTopic(topic=name, partitions=ids) for name, ids in _spread(n - 200)]), 4)),
        Case("ElectLeaders, all", lambda h, n: (reassignments.ElectLeadersRequest(topic_partitions=None), 2)),
        Case("ElectLeaders", lambda h, n: (reassignments.ElectLeadersRequest(topic_partitions=[
            reassignments.ElectLeadersTopic(topic=name, partitions=ids) for name, ids in _spread(min(n, 200_000))]), 2)),
        Case("AlterPartitionReassignments", lambda h, n: (reassignments.AlterPartitionReassignmentsRequest(
            topics=_partitions(reassignments.ReassignableTopic, reassignments.ReassignablePartition, min(n, 200_000))), 0)),
        Case("ListPartitionReassignments, all", lambda h, n: (
            reassignments.ListPartitionReassignmentsRequest(topics=None), 0)),
        Case("ListPartitionReassignments", lambda h, n: (reassignments.ListPartitionReassignmentsRequest(topics=[
            reassignments.ListPartitionReassignmentsTopic(name=m, partition_indexes=small) for m in _names(n // 2)]), 0)),
        Case("DescribeQuorum", lambda h, n: (quorum.DescribeQuorumRequest(topics=[
            quorum.QuorumTopic(topic_name=name, partitions=[quorum.QuorumPartition(partition_index=i) for i in ids])
            for name, ids in _spread(n - 200)]), 1)),
        Case("DescribeCluster", lambda h, n: (cluster.DescribeClusterRequest(), 1)),
        Case("ApiVersions", lambda h, n: (api_versions.ApiVersionsRequest(
            client_software_name="a" * 30_000, client_software_version="1"), 3)),
    ]  # fmt: skip


def measure(house: House, case: Case, elements: int) -> Cost:
    if case.before is not None:
        house.let_all(True)
        case.before(house)
    house.let_all(False)
    message, version = case.make(house, elements)
    gc.collect()
    gc.freeze()  # what the bench itself holds is not the broker's
    _, cost = house.ask(message, version, case.client_id)
    gc.unfreeze()
    house.lose_peer()
    house.settle()
    return cost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only cases whose names begin so")
    parser.add_argument("--elements", type=int, default=1_000_000)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--memory", action="store_true", help="in memory, without what files cost")
    parser.add_argument("--denied", action="store_true", help="with an authorizer, and without any right")
    parser.add_argument("--table", action="store_true", help="as the table of docs/limits.md")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kohort-stalls-"))
    results = {}
    try:
        house = House(None if args.memory else folder, args.topics, denied=args.denied)
        house.furnish()
        for case in cases():
            if args.names and not case.name.startswith(tuple(args.names)):
                continue
            cost = measure(house, case, args.elements)
            results[case.name] = vars(cost)
            if not args.json:
                print(_line(case.name, cost, table=args.table), flush=True)
        house.broker.close(house.now_ms)
        if isinstance(house.storage, FileStorage):
            house.storage.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps(results, indent=2))
    worst = max(results.items(), key=lambda item: item[1]["worst_cpu_ms"])
    print(f"worst: {worst[0]}, {worst[1]['worst_cpu_ms']:.1f} ms", file=sys.stderr)


def _line(name: str, cost: Cost, *, table: bool) -> str:
    if table:
        size = f"{cost.body_bytes / 1e6:.1f} MB" if cost.body_bytes > 50_000 else f"{cost.body_bytes} B"
        return f"| {name} | {size} | {cost.worst_cpu_ms:.0f} | {cost.cpu_ms / 1e3:.2f} |"
    return (
        f"{name:42s} {cost.body_bytes:>11,} in {cost.answer_bytes:>11,} out  worst {cost.worst_cpu_ms:7.1f} ms cpu"
        f" {cost.worst_wall_ms:7.1f} wall  sum {cost.cpu_ms / 1e3:7.2f} s in {cost.events:5d} ({cost.worst_event:5d})  {cost.outcome}"
    )


if __name__ == "__main__":
    main()

# ruff: noqa: ARG001, ARG005, E501 - a table of requests, each built from the broker and the number of elements
"""Longest event of one request: every API at every version, at large bodies; processor time and memory.

    python bench/bench_stalls.py [NAME ...] [--elements 100000] [--topics 10000] [--denied] [--highest] [--table]

The bodies come from the declared cost of each API (``stall_bodies.py``); more requests, with preparations, are in this
file's table. A request goes to the in-process broker in pieces as from a socket, with data on files and large contents
(``stall_broker.py``): groups of 5,000 members, a topic and a transaction of 10,000 partitions. The figure is the longest
single event until the response is complete and all memory is freed: processor time, and wall time because of waits for
the disk. Memory is the growth of the process, without request and response. The highest version of an API has
``--elements`` elements, the others a tenth. ``--denied`` adds an authorizer with a thousand ACLs of other users. The
table of docs/limits.md is the output of ``python bench/bench_stalls.py --table``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stall_bodies import Filler, bodies
from stall_broker import WIDE, Cost, LoadedBroker, names, resting_mb, spread

from kohort.aio.serving.file_storage import FileStorage
from kohort.wire.apis import APIS
from kohort.wire.compression import Codec
from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages import (
    fetch,
    find_coordinator,
    group_admin,
    group_classic,
    list_offsets,
    metadata,
    offsets,
    produce,
    topics,
    transactions,
)
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import Message

Request = tuple[Message, int]


@dataclass(frozen=True)
class Case:
    """One kind of request: its name, its factory, and its preparation."""

    name: str
    make: Callable[[LoadedBroker, int], Request]
    before: Callable[[LoadedBroker], None] | None = None
    client_id: str = "bench"


# ---------------------------------------------------------------- the requests


def _bomb(codec: Codec, keyed: bool) -> bytes:
    """Return a compressed batch of 1 MB that expands to the topic's limit."""
    value = bytes(1 << 20)
    return build_batch([NewRecord(b"k" if keyed else None, value)] * 15, codec=codec)


def _small_records(size: int) -> bytes:
    return build_batch([NewRecord(b"", None)] * (size // 9))


def _produce(name: str, batch: bytes) -> Request:
    data = [produce.PartitionProduceData(index=0, records=batch)]
    topic_data = [produce.TopicProduceData(name=name, partition_data=data)]
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data), 9


def _produce_wide(loaded: LoadedBroker, n: int) -> Request:
    batch = build_batch([NewRecord(None, b"v")])
    topic_data = [
        produce.TopicProduceData(
            name=name, partition_data=[produce.PartitionProduceData(index=i, records=batch) for i in indexes]
        )
        for name, indexes in spread(n - 100)
    ]
    return produce.ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topic_data), 9


def _fetch(loaded: LoadedBroker, n: int, **options: int) -> Request:
    parts = [fetch.FetchPartition(partition=i, partition_max_bytes=1 << 20) for i in range(n - 1)]
    return fetch.FetchRequest(
        topics=[fetch.FetchTopic(topic=WIDE, partitions=parts)],
        **{"max_bytes": 50 << 20, "session_epoch": -1, **options},
    ), 12


def _partitions(topic: Any, partition: Any, n: int, inner: str = "partitions", **fields: Any) -> list[Any]:
    return [
        topic(name=name, **{inner: [partition(partition_index=i, **fields) for i in ids]}) for name, ids in spread(n)
    ]


def _commit(loaded: LoadedBroker, n: int) -> Request:
    request_topics = _partitions(
        offsets.OffsetCommitRequestTopic, offsets.OffsetCommitRequestPartition, min(n, 200_000)
    )
    return offsets.OffsetCommitRequest(group_id="g", topics=request_topics), 8


def _offset_fetch(loaded: LoadedBroker, n: int) -> Request:
    request_topics = [offsets.OffsetFetchRequestTopics(name=name, partition_indexes=ids) for name, ids in spread(n)]
    return offsets.OffsetFetchRequest(groups=[offsets.OffsetFetchRequestGroup(group_id="g", topics=request_topics)]), 8


def _join(loaded: LoadedBroker, n: int) -> Request:
    protocols = [group_classic.JoinGroupRequestProtocol(name=name) for name in names(n)]
    return group_classic.JoinGroupRequest(
        group_id="many",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    ), 3


def _join_large(loaded: LoadedBroker, n: int) -> Request:
    protocols = [group_classic.JoinGroupRequestProtocol(name="range", metadata=bytes((16 << 20) - 1000))]
    return group_classic.JoinGroupRequest(
        group_id="large",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    ), 3


def _sync(loaded: LoadedBroker, n: int) -> Request:
    assignments = [group_classic.SyncGroupRequestAssignment(member_id=name) for name in names(n)]
    return group_classic.SyncGroupRequest(group_id="many", member_id="m", generation_id=1, assignments=assignments), 3


def _leave(loaded: LoadedBroker, n: int) -> Request:
    members = [group_classic.MemberIdentity(member_id=name) for name in names(n)]
    return group_classic.LeaveGroupRequest(group_id="many", members=members), 4


def _new_topics(loaded: LoadedBroker, n: int) -> Request:
    new_topics = [topics.CreatableTopic(name=f"n{i}", num_partitions=1, replication_factor=1) for i in range(5_000)]
    return topics.CreateTopicsRequest(topics=new_topics, timeout_ms=1000), 7


def cases() -> list[Case]:
    return [
        Case("CreateTopics, 1 of 10,000 partitions", lambda h, n: (topics.CreateTopicsRequest(
            topics=[topics.CreatableTopic(name="broad", num_partitions=10_000, replication_factor=1)], timeout_ms=1), 7)),
        Case("CreateTopics, 5,000", _new_topics),
        Case("CreateTopics, bad names", lambda h, n: (topics.CreateTopicsRequest(
            topics=[topics.CreatableTopic(name=f"{m}!", num_partitions=0) for m in names(n)], timeout_ms=1), 7)),
        Case("CreatePartitions, 10,000", lambda h, n: (topics.CreatePartitionsRequest(
            topics=[topics.CreatePartitionsTopic(name="t0", count=10_000, assignments=None)], timeout_ms=1), 3)),
        Case("DeleteTopics, 5,000", lambda h, n: (topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(name=f"n{i}") for i in range(5_000)], timeout_ms=1), 6)),
        Case("DeleteTopics, 1 of 10,000 partitions", lambda h, n: (topics.DeleteTopicsRequest(
            topics=[topics.DeleteTopicState(name="broad")], timeout_ms=1), 6)),
        Case("DeleteTopics, unknown", lambda h, n: (topics.DeleteTopicsRequest(topic_names=names(n), timeout_ms=1), 5)),
        Case("Metadata, all topics", lambda h, n: (metadata.MetadataRequest(topics=None), 12)),
        Case("Metadata, empty names", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name="")] * n), 9)),
        Case("Metadata, unknown names", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=m) for m in names(n)], allow_auto_topic_creation=False), 9)),
        Case("Metadata, 1,000 made", lambda h, n: (metadata.MetadataRequest(
            topics=[metadata.MetadataRequestTopic(name=f"auto{i}") for i in range(1000)],
            allow_auto_topic_creation=True), 9)),
        Case("DescribeTopicPartitions, unknown", lambda h, n: (topics.DescribeTopicPartitionsRequest(
            topics=[topics.DescribedTopicName(name=m) for m in names(n)]), 0)),
        Case("DescribeTopicPartitions, all", lambda h, n: (topics.DescribeTopicPartitionsRequest(), 0)),
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
        Case("OffsetForLeaderEpoch", lambda h, n: (list_offsets.OffsetForLeaderEpochRequest(topics=[
            list_offsets.OffsetForLeaderTopic(topic=name, partitions=[list_offsets.OffsetForLeaderPartition(partition=i) for i in ids])
            for name, ids in spread(n - 100)]), 4)),
        Case("DeleteRecords", lambda h, n: (topics.DeleteRecordsRequest(
            topics=_partitions(topics.DeleteRecordsTopic, topics.DeleteRecordsPartition, n - 100, offset=0)), 2)),
        Case("OffsetCommit", _commit),
        Case("OffsetFetch", lambda h, n: _offset_fetch(h, n - 200)),
        Case("OffsetFetch, all of a group", lambda h, n: (offsets.OffsetFetchRequest(
            groups=[offsets.OffsetFetchRequestGroup(group_id="g", topics=None)]), 8)),
        Case("OffsetDelete", lambda h, n: (offsets.OffsetDeleteRequest(group_id="g", topics=_partitions(
            offsets.OffsetDeleteRequestTopic, offsets.OffsetDeleteRequestPartition, min(n, 200_000))), 0)),
        Case("FindCoordinator", lambda h, n: (
            find_coordinator.FindCoordinatorRequest(coordinator_keys=names(n)), 4)),
        Case("JoinGroup, many protocols", _join),
        Case("JoinGroup, 16 MiB", _join_large),
        Case("SyncGroup, many members", _sync),
        Case("LeaveGroup, many members", _leave),
        Case("Heartbeat", lambda h, n: (group_classic.HeartbeatRequest(group_id="g" * 30_000, member_id="m" * 30_000), 3)),
        Case("ListGroups, without a filter", lambda h, n: (group_admin.ListGroupsRequest(), 4)),
        Case("EndTxn, of 10,000 partitions", lambda h, n: (transactions.EndTxnRequest(
            transactional_id="x", producer_id=h.producer[0], producer_epoch=h.producer[1], committed=True), 3)),
    ]  # fmt: skip


def measure(loaded: LoadedBroker, case: Case, elements: int) -> Cost:
    if case.before is not None:
        loaded.let_all(True)
        case.before(loaded)
    loaded.let_all(False)
    message, version = case.make(loaded, elements)
    return measured(loaded, message, version, case.client_id)


def measured(loaded: LoadedBroker, message: Message, version: int, client_id: str = "bench") -> Cost:
    """Serve a request, and free its effects."""
    header = RequestHeader(type(message).API_KEY or 0, version, 1, client_id)
    data = b"".join(build_request(header, message))
    response = APIS[type(message).API_KEY or 0].response
    del message
    gc.collect()
    gc.freeze()  # exclude the bench's own objects
    _, cost = loaded.send(data, response, version, looks=False)
    gc.unfreeze()
    loaded.lose_peer()
    loaded.settle()
    return cost


def runs(args: argparse.Namespace) -> Iterator[tuple[str, Cost]]:
    """Yield the cost of each request by name: those of the declarations, then those of this file."""
    with tempfile.TemporaryDirectory(prefix="kohort-stalls-") as folder:
        loaded = LoadedBroker(None if args.memory else Path(folder), args.topics, denied=args.denied)
        loaded.furnish()
        loaded.let_all(False)
        print(f"at rest: {resting_mb():.0f} MB", file=sys.stderr, flush=True)
        for body in bodies(args.elements):
            if args.names and not body.api.name.startswith(tuple(args.names)):
                continue
            if args.highest and body.version != body.api.high:
                continue
            message = Filler(loaded, body).message()
            yield f"{body.name} (v{body.version})", measured(loaded, message, body.version)
        for case in cases():
            if not args.names or case.name.startswith(tuple(args.names)):
                yield case.name, measure(loaded, case, args.elements)
        loaded.broker.close(loaded.now_ms)
        if isinstance(loaded.storage, FileStorage):
            loaded.storage.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="name prefix of the requests")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--memory", action="store_true", help="keep the broker's files in memory")
    parser.add_argument("--denied", action="store_true", help="use an authorizer that denies all requests")
    parser.add_argument("--highest", action="store_true", help="measure only the highest version of each API")
    parser.add_argument(
        "--table", action="store_true", help="print the table of docs/limits.md with the worst version of each API"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results: dict[str, Cost] = {}
    for name, cost in runs(args):
        results[name] = cost
        print(_line(name, cost), file=sys.stderr if args.json or args.table else sys.stdout, flush=True)
    if args.json:
        print(json.dumps({name: vars(cost) for name, cost in results.items()}, indent=2))
    if args.table:
        print("\n".join(_rows(results)))
    worst = max(results, key=lambda name: results[name].worst_cpu_ms)
    largest = max(results, key=lambda name: results[name].grown_mb)
    print(
        f"worst event: {worst}, {results[worst].worst_cpu_ms:.1f} ms; "
        f"most memory: {largest}, {results[largest].grown_mb:.0f} MB",
        file=sys.stderr,
    )


def _rows(results: dict[str, Cost]) -> Iterator[str]:
    """Yield a row for each request, of its version with the longest event."""
    worst: dict[str, tuple[str, Cost]] = {}
    for name, cost in results.items():
        request = name.split(" (v")[0]
        if request not in worst or worst[request][1].worst_cpu_ms < cost.worst_cpu_ms:
            worst[request] = name, cost
    for name, cost in worst.values():
        size = f"{cost.body_bytes / 1e6:.1f} MB" if cost.body_bytes > 50_000 else f"{cost.body_bytes} B"
        yield f"| {name} | {size} | {cost.worst_cpu_ms:.0f} | {cost.cpu_ms / 1e3:.2f} | {cost.grown_mb:.0f} |"


def _line(name: str, cost: Cost) -> str:
    return (
        f"{name:48s} {cost.body_bytes:>11,} in {cost.answer_bytes:>11,} out  worst {cost.worst_cpu_ms:7.1f} ms cpu"
        f" {cost.worst_wall_ms:7.1f} wall  sum {cost.cpu_ms / 1e3:7.2f} s in {cost.events:5d} ({cost.worst_event:5d})"
        f"  {cost.grown_mb:+5.0f} MB  {cost.outcome}"
    )


if __name__ == "__main__":
    main()

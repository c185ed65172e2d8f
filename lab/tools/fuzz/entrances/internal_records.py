"""Records of internal topics, replayed at a start: old and new groups, transactions, the journal, client metrics."""

from __future__ import annotations

import random
import struct
from functools import cached_property

import msgspec

from fuzz.entrance import Entrance, Watch
from fuzz.entrances.broker_frames import OPTIONS, BrokerFrames, Peered, copied
from fuzz.messages import Vocabulary, bytes_of
from fuzz.mutate import mutated
from kohort.log.storage import MemoryStorage
from kohort.wire.messages import consumer_group_records as modern
from kohort.wire.messages.group_admin import DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kohort.wire.messages.offsets import OffsetFetchRequest, OffsetFetchRequestGroup
from kohort.wire.messages.transaction_records import TransactionLogKey, TransactionLogValue
from kohort.wire.messages.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kohort.wire.record_batch import NewRecord, build_batch, split_batches
from kohort.wire.schema import Message

TOPICS = ("__consumer_offsets", "__transaction_state", "__kohort_journal")
KINDS: dict[str, tuple[tuple[int, type[Message], type[Message] | None], ...]] = {
    "__consumer_offsets": (
        (0, OffsetCommitKey, OffsetCommitValue),
        (1, OffsetCommitKey, OffsetCommitValue),
        (2, GroupMetadataKey, GroupMetadataValue),
        (2, GroupMetadataKey, GroupMetadataValue),
        (3, modern.ConsumerGroupMetadataKey, modern.ConsumerGroupMetadataValue),
        (4, modern.ConsumerGroupPartitionMetadataKey, None),
        (5, modern.ConsumerGroupMemberMetadataKey, modern.ConsumerGroupMemberMetadataValue),
        (6, modern.ConsumerGroupTargetAssignmentMetadataKey, modern.ConsumerGroupTargetAssignmentMetadataValue),
        (7, modern.ConsumerGroupTargetAssignmentMemberKey, modern.ConsumerGroupTargetAssignmentMemberValue),
        (8, modern.ConsumerGroupCurrentMemberAssignmentKey, modern.ConsumerGroupCurrentMemberAssignmentValue),
        (16, modern.ConsumerGroupRegularExpressionKey, modern.ConsumerGroupRegularExpressionValue),
    ),
    "__transaction_state": ((0, TransactionLogKey, TransactionLogValue),),
}
MOST = 200
GROUPS = ("g", "new", "modern", "x")
Record = tuple[int, bytes, bytes | None]


class InternalRecords(Entrance):
    """Records of an older release, another implementation, or ``__admin_client``."""

    name = "internal-records"
    feeds = "records of __consumer_offsets, __transaction_state and the journal, made up and mutated, at a start"
    hang_ms = 100.0

    @cached_property
    def frames(self) -> BrokerFrames:
        return BrokerFrames()

    @cached_property
    def words(self) -> Vocabulary:
        words = self.frames.template[1]
        words.texts = {
            "group": GROUPS,
            "group_id": GROUPS,
            "member_id": ("m1", "m2", "m3"),
            "leader": ("m1",),
        } | words.texts
        words.numbers = {
            "status": (0, 1, 2, 3, 4, 5, 6),
            "state": (0, 1, 2, 3),
            "timestamp": (-1, 0, 1000, 1 << 41),
        } | words.numbers
        return words

    def generate(self, rng: random.Random) -> bytes:
        records: list[Record] = []
        for _ in range(rng.choice((3, 10, 30, 60))):
            topic = rng.choice((0, 0, 0, 1, 2))
            if topic == 2:
                record = (2, b"g", mutated(b'{"schema":1,"kind":"round_opened","at_ms":1,"group":"g"}', rng))
            else:
                record = self.made_up(topic, rng)
            if rng.random() < 0.25:
                index, key, value = record
                record = (
                    (index, mutated(key, rng), value)
                    if rng.random() < 0.3
                    else (index, key, mutated(value or b"", rng))
                )
            records.append(record)
        return msgspec.msgpack.encode(records)

    def made_up(self, topic: int, rng: random.Random) -> Record:
        number, key_of, value_of = rng.choice(KINDS[TOPICS[topic]])
        key = struct.pack(">h", number) + bytes_of(key_of, key_of.VERSIONS.high, rng, self.words)
        if value_of is None or rng.random() < 0.1:
            return topic, key, None
        version = rng.choice((value_of.VERSIONS.high, rng.randint(value_of.VERSIONS.low, value_of.VERSIONS.high)))
        return topic, key, struct.pack(">h", version) + bytes_of(value_of, version, rng, self.words)

    def run(self, data: bytes, watch: Watch) -> None:
        try:
            records = msgspec.msgpack.decode(data, type=list[tuple[int, bytes, bytes | None]])
        except (msgspec.DecodeError, RecursionError):
            return
        records = records[:MOST]
        watch.inputs += len(records)
        storage = copied(self.frames.template[0])
        for index, topic in enumerate(TOPICS):
            append(storage, topic, [NewRecord(key, value, (), 1) for at, key, value in records if at % 3 == index])
        stage = watch.step(lambda: Peered(storage, **OPTIONS))
        stage.watch, stage.checked = watch, False  # arbitrary records need not keep the invariants
        look(stage)
        self.frames.wait(stage, 700_000)
        look(stage)
        stage.watch = None
        stage.restart(cleanly=len(data) % 2 == 0)
        self.frames.check_service(stage)


def append(storage: MemoryStorage, topic: str, records: list[NewRecord]) -> None:
    """Append records to the only segment of a topic, as if written earlier."""
    if not records:
        return
    (log,) = [name for name in storage.files(f"{topic}-0") if name.endswith(".log")]
    file = storage.open(f"{topic}-0/{log}")
    headers = [header for _, header in split_batches(file.read(0, file.size))]
    after = headers[-1].next_offset if headers else 0
    file.append([build_batch(records, base_offset=after, leader_epoch=0)])
    for checkpoint in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        storage.delete(checkpoint)


def look(stage: Peered) -> None:
    """Query all state."""
    peer = stage.connect()
    for message, version in (
        (ListGroupsRequest(), 5),
        (DescribeGroupsRequest(groups=list(GROUPS)), 6),
        (ConsumerGroupDescribeRequest(group_ids=list(GROUPS)), 1),
        (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=g, topics=None) for g in GROUPS]), 9),
        (ListTransactionsRequest(), 1),
        (DescribeTransactionsRequest(transactional_ids=["t", "evil", ""]), 0),
        (ConsumerGroupHeartbeatRequest(group_id="modern", member_id="m9", member_epoch=0, subscribed_topic_names=["a"],
                                       rebalance_timeout_ms=1000, topic_partitions=[]), 1),
    ):  # fmt: skip
        peer.send(message, version)

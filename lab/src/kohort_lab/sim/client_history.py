"""Recorder of the client history of a run, for ``kohort check-history``: docs/lab/history-format.md.

It observes the wire and the users without effect on the run. At the end it reads the logs as a read_committed
consumer. A transactional record is named by producer id, epoch and sequence, since users resend a value after an
abort; any other record by its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, Final

from kohort.errors import ErrorCode
from kohort.log.partition import PartitionLog
from kohort.model import Record, TopicPartition
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from kohort.wire.messages.transactions import (
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kohort.wire.record_batch import BatchHeader, parse_marker, split_batches
from kohort_lab.history.writer import ClientHistory
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.durability import batches_on, records_of
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, Watcher
from kohort_lab.sim.history import History
from kohort_lab.sim.world import World

DECODED: Final = (0, 26, 28)
"""Produce, EndTxn, TxnOffsetCommit."""
REFUSALS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
"""Errors that prove a rejected write; after any other error the result is unknown."""
OF_PRODUCER: Final = "'s producer"
"""Suffix of the client name of a processor's producer."""

TopicName = Callable[[bytes], str | None]
Committed = list[tuple[str, int, int]]


class MembersSeen(Watcher):
    """Recorder of members as their users see them: ownership, reads, commits; one client per process life."""

    def __init__(self, file: IO[str], world: World, story: History, session_us: int | None) -> None:
        self._file = file
        self._world = world
        self._story = story
        self._session_us = session_us
        self._clients: dict[str, ClientHistory] = {}
        self._lives: dict[str, int] = {}
        self._holds: dict[str, frozenset[TopicPartition]] = {}
        self._callback_us: dict[str, int] = {}
        """Start time of each member's revocation callback, in µs."""
        self._committed_only: set[str] = set()
        self.instances: dict[str, str] = {}
        """Instance id of each static member."""
        self.places: dict[bytes, tuple[str, int, int]] = {}
        """Place of each value that a member read."""

    def now_us(self) -> int:
        """Return the simulated time since the start of the run, in µs."""
        return self._world.elapsed_ms * 1000

    def read_committed_only(self, names: Iterable[str]) -> None:
        """Record these members as read_committed readers."""
        self._committed_only |= set(names)

    def client(self, actor: str) -> ClientHistory:
        """Return the current client of an actor."""
        found = self._clients.get(actor)
        if found is None:
            life = self._lives[actor] = self._lives.get(actor, 0) + 1
            level = "read_committed" if actor in self._committed_only else "read_uncommitted"
            found = self._clients[actor] = ClientHistory(
                self._file,
                f"{actor}#{life}",
                self.now_us,
                isolation=level,
                session_us=self._session_us,
                instance=self.instances.get(actor),
                idempotent=actor == "producer" or actor.endswith(OF_PRODUCER),
            )
        return found

    def took(self, consumer: WatchedConsumer, generation_id: int, owned: frozenset[TopicPartition]) -> None:
        new = sorted(owned - self._holds.get(consumer.name, frozenset()))
        self._holds[consumer.name] = owned
        client = self.client(consumer.name)
        client.ownership(
            "assigned", self.now_us(), "g", [(p.topic, p.partition) for p in new], generation=generation_id
        )

    def revoking(self, consumer: WatchedConsumer, partitions: frozenset[TopicPartition]) -> None:
        del partitions
        self._callback_us[consumer.name] = self.now_us()

    def revoked(self, consumer: WatchedConsumer, kind: str, partitions: frozenset[TopicPartition]) -> None:
        client = self.client(consumer.name)
        callback_us = self._callback_us.pop(consumer.name, self.now_us())
        if kind == "killed":
            client.write("gone", at=self.now_us())
            del self._clients[consumer.name]
            self._holds.pop(consumer.name, None)
            return
        self._holds[consumer.name] = self._holds.get(consumer.name, frozenset()) - partitions
        leaves = self._story.lines[-1].what == "leaves" or None
        listed = [(p.topic, p.partition) for p in sorted(partitions)]
        client.ownership(kind, callback_us if kind == "revoked" else self.now_us(), "g", listed, closing=leaves)

    def sought(self, consumer: WatchedConsumer, partition: TopicPartition, offset: int) -> None:
        self.client(consumer.name).write("seek", topic=partition.topic, partition=partition.partition, offset=offset)

    def read(self, consumer: WatchedConsumer, records: list[Record]) -> None:
        client = self.client(consumer.name)
        by_partition: dict[tuple[str, int], list[tuple[int, str]]] = {}
        for record in records:
            value = record.value or b""
            self.places.setdefault(value, (record.topic, record.partition, record.offset))
            by_partition.setdefault((record.topic, record.partition), []).append((record.offset, spelled(value)))
        for where, read in by_partition.items():
            client.read(self.now_us(), where, read)


class ClientsSeen(MembersSeen):
    """Recorder of members and of the wire: records, transactions, commits."""

    def __init__(self, file: IO[str], world: World, story: History, session_us: int | None) -> None:
        super().__init__(file, world, story, session_us)
        self.topic_name: TopicName = lambda _topic_id: None
        self._waiting: dict[Exchange, str | None] = {}
        """Commits in flight, with their transaction."""
        self._sent: set[str] = set()
        self._acknowledged: set[str] = set()
        self._transactions: dict[tuple[int, int], int] = {}
        self._ended: set[tuple[int, int]] = set()

    def requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(request, ProduceRequest):
            self._note_sends(exchange, request)
        elif isinstance(request, EndTxnRequest):
            self._ended.add((request.producer_id, request.producer_epoch))
            name = self._transaction(request.producer_id, request.producer_epoch)
            self._end(exchange, request, name, "begun")
        elif isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
            transaction = None
            if isinstance(request, TxnOffsetCommitRequest):
                transaction = self._begin(exchange, request.producer_id, request.producer_epoch)
            self._waiting[exchange] = transaction

    def answered(self, exchange: Exchange) -> None:
        request, answer = exchange.request, exchange.answer
        if isinstance(request, ProduceRequest) and isinstance(answer, ProduceResponse):
            self._note_acknowledgements(exchange, request, answer)
        elif isinstance(request, EndTxnRequest) and isinstance(answer, EndTxnResponse):
            name = self._transaction(request.producer_id, request.producer_epoch)
            self._end(exchange, request, name, "unknown" if answer.error_code else "ok")
        elif isinstance(answer, OffsetCommitResponse | TxnOffsetCommitResponse):
            self._note_commit(exchange, answer)

    def sends(self, who: str, partition: TopicPartition, value: bytes) -> None:
        name = spelled(value)
        self._sent.add(name)
        self.client(who).sent(self.now_us(), (partition.topic, partition.partition), name, "begun")

    def _topic(self, name: str, topic_id: bytes) -> str | None:
        return name or self.topic_name(topic_id)

    def _batches(self, request: ProduceRequest) -> Iterator[tuple[str, int, bytes, BatchHeader]]:
        for topic in request.topic_data:
            name = self._topic(topic.name, topic.topic_id)
            for partition in topic.partition_data:
                data = b"".join(pieces_of(partition.records))
                for start, header in split_batches(data) if name else ():
                    yield name or "", partition.index, data[start : start + header.size], header

    def _note_sends(self, exchange: Exchange, request: ProduceRequest) -> None:
        client, at = self.client(exchange.client), self._at(exchange)
        for topic, partition, batch, header in self._batches(request):
            transaction = None
            if header.is_transactional:
                transaction = self._begin(exchange, header.producer_id, header.producer_epoch)
            for name, value in named(batch, header, partition):
                if name not in self._sent:
                    self._sent.add(name)
                    place = self.places.get(value) if transaction else None
                    of = None if place is None else [list(place)]
                    client.sent(at, (topic, partition), name, "begun", txn=transaction, of=of)

    def _note_acknowledgements(self, exchange: Exchange, request: ProduceRequest, answer: ProduceResponse) -> None:
        base_offsets = {
            (self._topic(topic.name, topic.topic_id), p.index): p.base_offset
            for topic in answer.responses
            for p in topic.partition_responses
            if not p.error_code
        }
        client, at = self.client(exchange.client), self._at(exchange)
        for topic, partition, batch, header in self._batches(request):
            base = base_offsets.get((topic, partition))
            if base is None or exchange.client == "producer":
                continue  # the producer's own result is written at the end
            for number, (name, _) in enumerate(named(batch, header, partition)):
                if name in self._sent and name not in self._acknowledged:
                    self._acknowledged.add(name)
                    client.sent(at, (topic, partition), name, "ok", offset=base + number if base >= 0 else None)

    def acknowledged(self, actor: str, offsets: Mapping[bytes, tuple[TopicPartition, int]]) -> None:
        """Write a producer's acknowledged records."""
        for value, (where, offset) in offsets.items():
            name = spelled(value)
            at = offset if offset >= 0 else None
            self.client(actor).sent(self.now_us(), (where.topic, where.partition), name, "ok", offset=at)

    def _at(self, exchange: Exchange) -> int:
        return self.now_us() - (self._world.now_ms - exchange.sent_ms) * 1000

    def _transaction(self, producer_id: int, epoch: int) -> str:
        return f"{producer_id}.{epoch}.{self._transactions.get((producer_id, epoch), 0)}"

    def _begin(self, exchange: Exchange, producer_id: int, epoch: int) -> str:
        """Return a producer's current transaction; requests after EndTxn belong to the next one."""
        key = (producer_id, epoch)
        if key in self._ended:
            self._ended.discard(key)
            self._transactions[key] = self._transactions.get(key, 0) + 1
        name = self._transaction(producer_id, epoch)
        self.client(exchange.client).write("begin", txn=name, at=self.now_us())
        return name

    def _end(self, exchange: Exchange, request: EndTxnRequest, name: str, result: str) -> None:
        outcome = "commit" if request.committed else "abort"
        self.client(exchange.client).ended(self._at(exchange), name, outcome, result)

    def _note_commit(self, exchange: Exchange, answer: OffsetCommitResponse | TxnOffsetCommitResponse) -> None:
        if exchange not in self._waiting:
            return
        transaction = self._waiting.pop(exchange)
        errors = {
            (self._topic(topic.name, topic.topic_id), p.partition_index): ErrorCode(p.error_code)
            for topic in answer.topics
            for p in topic.partitions
        }
        sorted_out: dict[str, Committed] = {"ok": [], "unknown": []}
        for topic, partition, offset in self._offsets(exchange):
            error = errors.get((topic, partition), ErrorCode.UNKNOWN_SERVER_ERROR)
            if error not in REFUSALS:
                sorted_out["unknown" if error else "ok"].append((topic, partition, offset))
        for result, offsets in sorted_out.items():
            self._write_commit(exchange, offsets, result, transaction)

    def _offsets(self, exchange: Exchange) -> Committed:
        request = exchange.request
        assert isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest)
        return [
            (name, p.partition_index, p.committed_offset)
            for topic in request.topics
            if (name := self._topic(topic.name, topic.topic_id)) is not None
            for p in topic.partitions
        ]

    def _write_commit(self, exchange: Exchange, offsets: Committed, result: str, transaction: str | None) -> None:
        request = exchange.request
        if not offsets:
            return
        in_group = {(topic, partition): offset for topic, partition, offset in offsets}
        if isinstance(request, TxnOffsetCommitRequest):
            client = self.client(exchange.client.removesuffix(OF_PRODUCER))
            epoch = request.generation_id
            client.committed(self._at(exchange), "g", in_group, result, generation=epoch, txn=transaction)
        elif isinstance(request, OffsetCommitRequest):
            client, epoch = self.client(exchange.client), request.generation_id_or_member_epoch
            client.committed(self._at(exchange), "g", in_group, result, generation=epoch)

    def finish(self, logs: Mapping[tuple[str, int], PartitionLog]) -> None:
        """Write requests without response, and the records of a final read_committed read."""
        for exchange, transaction in self._waiting.items():
            self._write_commit(exchange, self._offsets(exchange), "unknown", transaction)
        for client in list(self._clients.values()):
            client.write("gone", at=self.now_us())
        reader = ClientHistory(self._file, "last reader", self.now_us, isolation="read_committed")
        for (topic, partition), log in sorted(logs.items()):
            reader.write("seek", topic=topic, partition=partition, offset=log.log_start_offset)
            try:
                found, position = committed_on(log, partition)
            except CheckFailed:
                continue  # the log is unreadable at its end
            reader.read(self.now_us(), (topic, partition), found, position)


def spelled(value: bytes) -> str:
    """Decode a value as text; forged values may be arbitrary bytes."""
    return value.decode(errors="backslashreplace") or "empty"


def pieces_of(records: Any) -> list[bytes]:
    """Return the record batches of a request as a list."""
    pieces = records if isinstance(records, list) else [records or b""]
    return [bytes(piece) for piece in pieces]


def named(batch: bytes, header: BatchHeader, partition: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the value of each record of a batch."""
    for number, record in enumerate(records_of(batch)):
        value = record.value or b""
        if header.is_transactional:
            yield f"{header.producer_id}.{header.producer_epoch}.{partition}:{header.base_sequence + number}", value
        else:
            yield spelled(value), value


def committed_on(log: PartitionLog, partition: int) -> tuple[list[tuple[int, str]], int]:
    """Return the committed records of a log, and the first offset of an open transaction or the end."""
    found: list[tuple[int, str]] = []
    open_ones: dict[int, list[tuple[int, str]]] = {}
    for batch, header in batches_on(log):
        if header.is_control:
            marker = parse_marker(batch, header)
            in_transaction = open_ones.pop(header.producer_id, [])
            found += in_transaction if marker is not None and marker.committed else []
            continue
        into = open_ones.setdefault(header.producer_id, []) if header.is_transactional else found
        into += [(header.base_offset + n, name) for n, (name, _) in enumerate(named(batch, header, partition))]
    end = min((records[0][0] for records in open_ones.values() if records), default=log.log_end_offset)
    return sorted(record for record in found if record[0] < end), end

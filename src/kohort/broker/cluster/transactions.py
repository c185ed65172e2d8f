"""Transaction coordinator of a cluster: ``__transaction_state``, markers and timeouts.

The nodes share their logs, so one coordinator serves all of them. It is loaded when the process starts; the leader of a
partition of ``__transaction_state`` is only the node that producers address. EndTxn writes the decision, the markers
and a final record before its response. If there are very many markers or the disk fails, the remaining markers follow
later, and the next transaction of the producer must wait, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, Literal

from kohort.broker.cluster.log_items import slices_of
from kohort.broker.cluster.nodes import NodeMessage, PartitionAppended, TransactionMarked
from kohort.broker.purgatory import FlushTarget
from kohort.clock import Timers
from kohort.config.broker import BrokerConfig
from kohort.coordinator.memory_budget import EXISTING_FACTOR, NO_LIMIT, bytes_of_long_names
from kohort.coordinator.records import LogItem, TransactionEnded, partition_of
from kohort.coordinator.replay import Skipped
from kohort.coordinator.transactions import decide
from kohort.coordinator.transactions.states import AT_REST, DECIDED, TransactionState
from kohort.coordinator.transactions.transaction import Transaction, build_record, parse_record
from kohort.errors import ApiError, CorruptLog, ErrorCode, ProtocolError, StorageError
from kohort.log.partition import AppendResult, PartitionLog
from kohort.log.topics import Topic, Topics
from kohort.model import ProducerIdAndEpoch, TopicPartition
from kohort.notes import Note, failure, warning
from kohort.steps import Steps, in_order
from kohort.wire.record_batch import Marker, NewRecord, build_batch

NAME: Final = "__transaction_state"
MARKERS_RETRY_MS: Final = 1_000
MARKED_AT_ONCE: Final = 50
TransactionTimer = Literal["deadline", "markers", "expiry"]
ID_BYTES: Final = 800
"""Estimated memory of one transactional id with its timers, in bytes, without its name."""
PARTITION_BYTES: Final = 150
UNUSED_MS: Final = 86_400_000
CHECK_EVERY_MS: Final = 60_000
SPARE: Final = 8


class TransactionCoordinator:
    """Coordinator of all transactions of a cluster, with the state of each transactional id."""

    name = NAME

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        place: Callable[[Topic], object],
        tell: Callable[[NodeMessage], None],
        now_ms: int,
    ) -> None:
        self._config = config
        self._topics = topics
        self._wall = topics.wall
        self._place = place
        self._tell = tell
        self._by_id: dict[str, Transaction] = {}
        self.room = TransactionMemory(config.transaction_coordinator_max_bytes)
        self._unmarked: dict[str, list[TopicPartition]] = {}
        """For each transactional id: partitions that still need a marker. The last partition in the list is next."""
        self._unflushed: dict[PartitionLog, int] = {}
        """Offset up to which each log must be flushed before the response of the current request is sent."""
        self._unreadable: set[int] = set()
        self._timers: Timers[tuple[TransactionTimer, str]] = Timers()
        self.notes: list[Note] = []
        """Log lines about problems while loading ``__transaction_state``."""
        self._load(now_ms)

    # ---------------------------------------------------------------- records of __transaction_state

    @property
    def partition_count(self) -> int:
        topic = self._topics.get(NAME)
        return len(topic.partitions) if topic is not None else self._config.transaction_state_log_num_partitions

    def partition_of(self, transactional_id: str) -> int:
        return partition_of(transactional_id, self.partition_count)

    def ensure(self, now_ms: int) -> Topic:
        topic = self._topics.get(NAME)
        if topic is None:
            overrides = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "segment.bytes": str(max(self._config.transaction_state_log_segment_bytes, 1024)),
            }
            topic = self._topics.create(NAME, self.partition_count, overrides, now_ms, internal=True)
            self._place(topic)
        return topic

    def _load(self, now_ms: int) -> None:
        topic = self._topics.get(NAME)
        if topic is None:
            return
        for partition, log in enumerate(topic.partitions):
            skipped = Skipped()
            try:
                for item in chain.from_iterable(slices_of(log, skipped)):
                    self._load_one(item, skipped)
            except StorageError as error:
                self._unreadable.add(partition)
                self.notes.append(failure(f"the transactions of {NAME}-{partition} cannot be coordinated: {error}"))
            self.notes += skipped.notes(f"{NAME}-{partition}")
        for known in list(self._by_id.values()):
            self._arm(known)
            if known.state in DECIDED:
                self._complete(known, now_ms)
        self._timers.set(("expiry", ""), now_ms + self._config.transaction_remove_expired_interval_ms)

    def _load_one(self, item: LogItem, skipped: Skipped) -> None:
        key, value = item
        if value is not None and not isinstance(value, bytes):
            what = "a marker" if isinstance(value, TransactionEnded) else "records in a transaction"
            skipped.add(f"{what} of producer {value.producer_id}: {NAME} has no transactional records")
            return
        try:
            transactional_id, written = parse_record(key, value)
        except CorruptLog as error:
            skipped.add(error)
        else:
            self._replay(transactional_id, written and written.moved(-self._wall.ahead_ms))

    def _replay(self, transactional_id: str, written: Transaction | None) -> None:
        self.room.changed(self._by_id.get(transactional_id), written)
        if written is None:
            self._by_id.pop(transactional_id, None)
        else:
            self._by_id[transactional_id] = written

    def _check_room(self, known: Transaction | None, made: Transaction, now_ms: int) -> None:
        """Expire unused transactional ids if the memory limit is reached. Raises ApiError if that frees too little."""
        if self.room.takes(known, made):
            return
        for unused in list(self.room.expendable(self._by_id.values(), now_ms)):
            self._write(unused.transactional_id, None, now_ms)
        if not self.room.takes(known, made):
            self.room.refused += 1
            text = "a transactional id is rejected: all ids use up transaction.coordinator.max.bytes"
            self._topics.report(warning(text, "transactional ids"))
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, text)

    def _write(self, transactional_id: str, written: Transaction | None, now_ms: int) -> None:
        """Append a transactional id's new state to its log, then apply the state in memory. Raises ApiError."""
        topic, partition = self.ensure(now_ms), self.partition_of(transactional_id)
        try:
            key, value = build_record(transactional_id, written and written.moved(self._wall.ahead_ms))
            batch = build_batch([NewRecord(key, value, (), self._wall.at(now_ms))])
            log = topic.partitions[partition]
            self._appended(log, log.append(batch, now_ms, from_client=False))
        except (ApiError, StorageError, ProtocolError) as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{NAME}-{partition}: {error}") from error
        self._tell(PartitionAppended((topic.topic_id, partition), len(batch)))
        self._replay(transactional_id, written)
        if written is not None:
            self._arm(written)

    def _appended(self, log: PartitionLog, appended: AppendResult) -> None:
        if appended.awaits_flush:
            self._unflushed[log] = appended.last_offset

    def take_unflushed(self) -> list[FlushTarget]:
        """Return the log offsets to flush before the response to InitProducerId or EndTxn is sent."""
        needs, self._unflushed = list(self._unflushed.items()), {}
        return needs

    def _arm(self, known: Transaction) -> None:
        deadline_ms = known.deadline_ms
        if deadline_ms is None:
            self._timers.cancel(("deadline", known.transactional_id))
        else:
            self._timers.set(("deadline", known.transactional_id), deadline_ms)
        if ("expiry", "") not in self._timers:
            self._timers.set(("expiry", ""), known.updated_ms + self._config.transaction_remove_expired_interval_ms)

    def get(self, transactional_id: str) -> Transaction | None:
        """Return the transaction of a transactional id. Raises ApiError if its log partition could not be loaded."""
        if self.partition_of(transactional_id) in self._unreadable:
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{NAME}-{self.partition_of(transactional_id)} cannot be read"
            )
        return self._by_id.get(transactional_id)

    def of_partitions(self, partitions: Collection[int]) -> Steps[Iterator[Transaction]]:
        """Return the transactions of some partitions of ``__transaction_state``, sorted by transactional id."""
        names = yield from in_order(list(self._by_id))
        found = (self._by_id.get(name) for name in names if self.partition_of(name) in partitions)
        return (known for known in found if known is not None)

    # ---------------------------------------------------------------- requests of producers

    def init(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
    ) -> ProducerIdAndEpoch:
        """Return producer id and epoch for InitProducerId. Raises CONCURRENT_TRANSACTIONS during an abort."""
        most_ms = self._config.transaction_max_timeout_ms
        if not 0 < timeout_ms <= most_ms:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"transaction timeout of {timeout_ms} ms: expected 1 to transaction.max.timeout.ms={most_ms}",
            )
        known, new_id = self.get(transactional_id), self._topics.next_producer_id
        self._unflushed.clear()  # drop the flush targets of earlier requests
        made = decide.decide_init(known, transactional_id, timeout_ms, expected, new_id, now_ms)
        if made != known:
            self._check_room(known, made, now_ms)
            self._write(transactional_id, made, now_ms)
        if made.state is TransactionState.PREPARE_ABORT:
            self._complete(made, now_ms)
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS, "the previous transaction is being aborted")
        return ProducerIdAndEpoch(made.producer_id, made.epoch)

    def add(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Sequence[TopicPartition],
        version: int,
        now_ms: int,
    ) -> None:
        known = self.get(transactional_id)
        made = decide.decide_add(known, producer, partitions, version, now_ms)
        if made is not known:
            self._check_room(known, made, now_ms)
            self._write(transactional_id, made, now_ms)

    def verify(self, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition) -> None:
        decide.check_part_of(self.get(transactional_id), producer, partition)

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, version: int, now_ms: int, *, commit: bool
    ) -> ProducerIdAndEpoch:
        """Commit or abort a transaction; return the producer's next id and epoch. Raises ApiError."""
        known, new_id = self.get(transactional_id), self._topics.next_producer_id
        self._unflushed.clear()
        made = decide.decide_end(known, producer, version, new_id, now_ms, commit=commit)
        if made is not known:
            self._write(transactional_id, made, now_ms)
            self._complete(made, now_ms)
        else:
            self._wait_again(now_ms)
        return decide.next_producer(made)

    def _wait_again(self, now_ms: int) -> None:
        """Require a flush of all logs after a repeated EndTxn: the flush for the original EndTxn may have failed."""
        for log in chain.from_iterable(topic.partitions for topic in self._topics):
            try:
                awaited = log.awaited_offset(now_ms)
            except ApiError as error:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
            if awaited is not None:
                self._unflushed[log] = awaited

    # ---------------------------------------------------------------- markers

    def _complete(self, known: Transaction, now_ms: int) -> None:
        """Write a transaction's markers, then its final record; later ticks write missing or failed markers."""
        topic, partition = self.ensure(now_ms), self.partition_of(known.transactional_id)
        coordinator_epoch = topic.partitions[partition].leader_epoch
        commit = known.state is TransactionState.PREPARE_COMMIT
        marker = Marker(known.producer_id, known.epoch, commit, coordinator_epoch)
        unmarked = self._unmarked.setdefault(known.transactional_id, sorted(known.partitions, reverse=True))
        try:
            for _ in range(min(len(unmarked), MARKED_AT_ONCE)):
                self.mark(unmarked[-1], marker, now_ms)
                unmarked.pop()
            if unmarked:
                self._timers.set(("markers", known.transactional_id), now_ms)
                return
            self._write(known.transactional_id, decide.complete(known, now_ms), now_ms)
            del self._unmarked[known.transactional_id]
        except ApiError:
            self._timers.set(("markers", known.transactional_id), now_ms + MARKERS_RETRY_MS)

    def mark(self, place: TopicPartition, marker: Marker, now_ms: int) -> None:
        """Write a transaction marker; skip a deleted partition, or one with a newer producer epoch. Raises ApiError."""
        topic = self._topics.get(place.topic)
        if topic is None or not 0 <= place.partition < len(topic.partitions):
            return
        try:
            log = topic.partitions[place.partition]
            self._appended(log, log.end_transaction(marker, now_ms))
        except ApiError as error:
            if error.code is ErrorCode.INVALID_PRODUCER_EPOCH:
                return
            raise
        key = (topic.topic_id, place.partition)
        self._tell(TransactionMarked(place.topic, key, marker.producer_id, marker.committed))

    def unmarked_in(self, place: TopicPartition) -> set[int]:
        """Return the producer ids of ended transactions that still need a marker in the partition."""
        ids = (transactional_id for transactional_id, places in self._unmarked.items() if place in places)
        return {known.producer_id for known in map(self._by_id.get, ids) if known is not None}

    # ---------------------------------------------------------------- timeouts and expiry

    @property
    def wake_at_ms(self) -> int | None:
        return self._timers.wake_at_ms

    def tick(self, now_ms: int) -> None:
        """Abort transactions after their timeout, write missing markers, and expire unused transactional ids."""
        for kind, transactional_id in self._timers.pop_due(now_ms):
            if kind == "expiry":
                self._expire(now_ms)
                continue
            known = self._by_id.get(transactional_id)
            if known is None:
                continue
            if kind == "deadline" and known.state is TransactionState.ONGOING:
                self._time_out(known, now_ms)
            elif kind == "markers" and known.state in DECIDED:
                self._complete(known, now_ms)

    def _time_out(self, known: Transaction, now_ms: int) -> None:
        made = decide.time_out(known, now_ms)
        try:
            self._write(known.transactional_id, made, now_ms)
        except ApiError:
            self._timers.set(("deadline", known.transactional_id), now_ms + MARKERS_RETRY_MS)
        else:
            self._complete(made, now_ms)

    def _expire(self, now_ms: int) -> None:
        self._timers.set(("expiry", ""), now_ms + self._config.transaction_remove_expired_interval_ms)
        for known in list(self._by_id.values()):
            unused_ms = now_ms - known.updated_ms
            if known.state in AT_REST and unused_ms >= self._config.transactional_id_expiration_ms:
                try:
                    self._write(known.transactional_id, None, now_ms)
                except ApiError:
                    return  # removing the id failed: the next expiry check of transactional ids retries it


class TransactionMemory:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        """Memory limit of all transactional ids in bytes; -1: no limit."""
        self.used = 0
        self.refused = 0
        self._looked_ms: int | None = None

    def changed(self, before: Transaction | None, after: Transaction | None) -> None:
        self.used += size_of(after) - size_of(before)

    def takes(self, before: Transaction | None, after: Transaction) -> bool:
        added = size_of(after) - size_of(before)
        most = self.limit if before is None else EXISTING_FACTOR * self.limit
        return self.limit == NO_LIMIT or added <= 0 or self.used + added <= most

    def expendable(self, known: Iterable[Transaction], now_ms: int) -> Iterator[Transaction]:
        """Yield unused transactional ids, enough to free an eighth of the memory limit.

        Yields nothing if the previous check was less than a minute ago.
        """
        if self._looked_ms is not None and now_ms - self._looked_ms < CHECK_EVERY_MS:
            return
        self._looked_ms = now_ms
        unused = [one for one in known if one.state in AT_REST and now_ms - one.updated_ms >= UNUSED_MS]
        surplus = self.used - (self.limit - self.limit // SPARE)
        for one in sorted(unused, key=lambda each: each.updated_ms):
            if surplus <= 0:
                return
            surplus -= size_of(one)
            yield one


def size_of(known: Transaction | None) -> int:
    if known is None:
        return 0
    return ID_BYTES + bytes_of_long_names(known.transactional_id) + PARTITION_BYTES * len(known.partitions)

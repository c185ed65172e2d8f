"""Transactions of one producer (KIP-98): requests to the coordinator, and the state of the transaction.

In the first protocol the producer adds a partition to the transaction before its first batch, and a group before its
offsets; in the second (KIP-890) brokers do. One request is in flight at a time. A failed batch or a fenced group
member requires an abort. If another producer takes over the transactional id, this one is fenced permanently.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import (
    COORDINATOR_CHANNEL,
    TRANSACTION_KEY,
    CoordinatorKey,
    CoordinatorLookup,
)
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.outages import Outages
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Poll, Promise, Unsent
from kohort.client.writing import transaction_messages as messages
from kohort.clock import Rng, earliest
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ErrorCode, KohortError, ProducerFenced, TransactionFailed, UsageError
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, GroupMetadata, OffsetAndMetadata, ProducerIdAndEpoch, TopicPartition
from kohort.wire.messages import transactions as wire
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.producer_ids import InitProducerIdResponse
from kohort.wire.schema import Message

MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
UNKNOWN_PRODUCER: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
ABORTABLE: Final = frozenset(
    {
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
ADDING: Final = (wire.AddPartitionsToTxnRequest, wire.AddOffsetsToTxnRequest, wire.TxnOffsetCommitRequest)
TRANSACTION: Final = "transaction"
CONCURRENT_MS: Final = 20
"""Retry delay while the coordinator writes the markers of the previous transaction."""


class Phase(Enum):
    """State of the producer's transaction. Each value completes a message that begins with "the producer"."""

    NEW = "is not initialized: call init_transactions() first"
    STARTING = "is being initialized"
    READY = "has no transaction open: call begin_transaction() first"
    OPEN = "has a transaction open: commit or abort it first"
    COMMITTING = "is committing its transaction: call commit_transaction() again for the result"
    ABORTING = "is aborting its transaction: call abort_transaction() again for the result"
    STOPPED = "is stopped"


@dataclass(slots=True, eq=False)
class _Offsets:
    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    promise: Promise[None]


class Transactions:
    """Request source that sends the transaction requests of a producer; its sender sends the records.

    ``delivered`` returns True when all batches are completed. The transaction ends only after that.
    """

    def __init__(
        self, config: ProducerConfig, metadata: Metadata, rng: Rng, delivered: Callable[[], bool], outages: Outages
    ) -> None:
        assert config.transactional_id is not None
        self.producer = messages.TransactionalProducer(config.transactional_id)
        self.phase = Phase.NEW
        self.use_second_protocol = True
        """False disables the protocol of KIP-890, so that simulations can test the older protocol."""
        self._config = config
        self._metadata = metadata
        self._rng = rng
        self._delivered = delivered
        self._outages = outages
        self._request = RequestState(retry_backoff(config, rng))
        self._lookup = CoordinatorLookup(
            CoordinatorKey(config.transactional_id, TRANSACTION_KEY), config, metadata, rng, self._fail, outages
        )
        self._group_lookups: dict[str, CoordinatorLookup] = {}
        self._promise: Promise[None] = Promise()
        self._abortable_error: TransactionFailed | None = None
        self._fatal_error: KohortError | None = None
        self._partitions_to_add: set[TopicPartition] = set()
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._offsets: deque[_Offsets] = deque()
        self._needs_epoch = False
        """True if the next transaction needs a new epoch.

        That is so after a broken sequence, or if the outcome of a request is unknown.
        """
        self._outcome_unknown = False
        self._is_second_protocol = False

    def init(self) -> Promise[None]:
        """Request the producer id. The coordinator fences any earlier producer with the same transactional id."""
        if self.phase is not Phase.STARTING:
            self._check(Phase.NEW, "init_transactions() was called before")
            self._enter(Phase.STARTING)
        return self._promise

    def begin(self) -> None:
        self._check(Phase.READY)
        level = self._metadata.features.get(messages.FEATURE, 0)
        self._is_second_protocol = self.use_second_protocol and level >= messages.SECOND_PROTOCOL
        self.phase = Phase.OPEN

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Promise[None]:
        self.check_may_send()
        promise: Promise[None] = Promise()
        if offsets:
            self._offsets.append(_Offsets(group, dict(offsets), promise))
            for topic in {partition.topic for partition in offsets} if self._is_second_protocol else ():
                # TxnOffsetCommit needs the topic id from metadata, even if the producer never writes to the topic
                self._metadata.add_topic(topic)
        else:
            promise.resolve(None)
        return promise

    def commit(self) -> Promise[None]:
        if self.phase is not Phase.COMMITTING:
            self.check_may_send()
            self._enter(Phase.COMMITTING)
        return self._promise

    def abort(self) -> Promise[None]:
        if self.phase is not Phase.ABORTING:
            self._check(Phase.OPEN)
            self._enter(Phase.ABORTING)
            self._fail_offsets(TransactionFailed("the transaction was aborted"))
        return self._promise

    def abort_open_transaction(self) -> None:
        if self.phase is Phase.OPEN:
            self.abort()

    @property
    def is_ending(self) -> bool:
        return self.phase in (Phase.COMMITTING, Phase.ABORTING)

    def check_may_send(self) -> None:
        """Raise UsageError without a transaction, TransactionFailed in a failed one, or the producer's fatal error."""
        if self.phase is not Phase.OPEN:
            self._check(Phase.OPEN)
        if self._abortable_error is not None:
            raise self._abortable_error

    def _check(self, phase: Phase, otherwise: str = "") -> None:
        if self._fatal_error is not None:
            raise self._fatal_error
        if self.phase is not phase:
            raise UsageError(otherwise or f"the producer {self.phase.value}")

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._promise = Promise()

    @property
    def refusal(self) -> KohortError | None:
        if self._fatal_error is not None or self._abortable_error is not None:
            return self._fatal_error or self._abortable_error
        return TransactionFailed("the transaction was aborted") if self.phase is Phase.ABORTING else None

    def admits(self, partition: TopicPartition) -> bool:
        """True if the transaction includes the partition. If not, schedule the request that adds the partition."""
        if self._is_second_protocol:
            self._partitions.add(partition)  # KIP-890: the Produce request adds the partition to the transaction
        if partition in self._partitions:
            return True
        self._partitions_to_add.add(partition)
        return False

    @property
    def produce_max_version(self) -> int | None:
        return None if self._is_second_protocol else messages.PRODUCE_MAX_VERSION

    def on_batch_failed(self, error: KohortError) -> None:
        code = error.code if isinstance(error, ApiError) else None
        if code is ErrorCode.PRODUCER_FENCED:
            self._fail(self._fenced_error(error))
        elif code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            self._fail(error)
        elif self.phase in (Phase.OPEN, Phase.COMMITTING):
            self._require_abort(error)

    @property
    def identity(self) -> ProducerIdAndEpoch:
        return self.producer.id_and_epoch

    def restart_sequence(self, _of: ProducerIdAndEpoch) -> None:
        self._needs_epoch = True

    def drop_identity(self) -> None: ...

    def poll(self, now_ms: int) -> Poll:
        unsent: list[Unsent] = []
        wake_at_ms: int | None = None
        if not self._request.may_send(now_ms):
            wake_at_ms = self._request.wake_at_ms(now_ms)
        elif (request := self._next()) is not None:
            unsent.append(self._request.sent(request))
        for lookup in (self._lookup, *self._group_lookups.values()):
            poll = lookup.poll(now_ms)
            unsent += poll.unsent
            wake_at_ms = earliest(wake_at_ms, poll.wake_at_ms)
        return Poll(unsent, wake_at_ms)

    def _next(self) -> Unsent | None:
        if self.phase is Phase.STARTING:
            return self._init_request()
        if self.phase in (Phase.OPEN, Phase.COMMITTING) and self._abortable_error is None:
            if self._partitions_to_add:
                return self._to_coordinator(messages.add_partitions(self.producer, self._partitions_to_add))
            if self._offsets:
                return self._offset_request(self._offsets[0])
        if self.is_ending and self._delivered():
            if self._outcome_unknown and self.phase is Phase.ABORTING:
                self._needs_epoch = True  # the request for a new epoch aborts any open transaction
            if self._partitions or self._groups:
                return self._to_coordinator(messages.end(self.producer, commit=self.phase is Phase.COMMITTING))
            if self._needs_epoch:
                return self._init_request()
            self._finish()
        return None

    def _init_request(self) -> Unsent | None:
        return self._to_coordinator(messages.init_request(self.producer, self._config.transaction_timeout_ms))

    def _offset_request(self, pending: _Offsets) -> Unsent | None:
        group_id = pending.group.group_id
        if self._is_second_protocol:
            self._groups.add(group_id)  # KIP-890: TxnOffsetCommit adds the group to the transaction
        if group_id not in self._groups:
            return self._to_coordinator(messages.add_group(self.producer, group_id))
        lookup = self._group_lookups.get(group_id)
        if lookup is None:
            key, config, metadata = CoordinatorKey(group_id), self._config, self._metadata
            lookup = CoordinatorLookup(key, config, metadata, self._rng, self._require_abort, self._outages)
            self._group_lookups[group_id] = lookup
        ids = self._topic_ids({partition.topic for partition in pending.offsets}) if self._is_second_protocol else {}
        if ids is None:
            return None
        request = messages.commit_offsets(self.producer, pending.group, pending.offsets, ids)
        return self._to_coordinator(request, lookup, messages.BY_TOPIC_ID if ids and all(ids.values()) else None)

    def _topic_ids(self, topics: set[str]) -> Mapping[str, bytes | None] | None:
        """Return the ids of topics for TxnOffsetCommit (KIP-1319); None while their metadata are in flight.

        If metadata cannot be fetched, ids are None and the request uses topic names.
        """
        known = all(self._metadata.topic(t) is not None or self._metadata.error(t) is not None for t in topics)
        if not known and self._metadata.last_failure is None:
            return None
        return {topic: self._metadata.topic_id(topic) for topic in topics}

    def _to_coordinator(
        self, request: Message, lookup: CoordinatorLookup | None = None, max_version: int | None = None
    ) -> Unsent | None:
        lookup = lookup or self._lookup
        node_id = lookup.require()
        if node_id is None:
            return None
        versions = messages.MAX_VERSION_OF_SECOND if self._is_second_protocol else messages.MAX_VERSION
        return Unsent(
            node_id,
            request,
            self._config.request_timeout_ms,
            channel=COORDINATOR_CHANNEL,
            max_version=max_version or versions[request.API_KEY],
            context=lookup,
        )

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        if isinstance(response, FindCoordinatorResponse):
            sent.context.on_response(sent, response, now_ms)
            return
        self._request.ended(sent)
        code, where = messages.first_error(sent.request, response)
        if code is ErrorCode.NONE:
            self._request.succeeded()
            self._outages.recovered(TRANSACTION, f"{self._name} works again", now_ms)
            self._on_success(sent.request, response)
        else:
            topic = where.rpartition("-")[0] if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
            self._on_error(sent, answer_error(self._config, code, where or self._name, name=topic), now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if sent.request.API_KEY not in messages.MAX_VERSION:
            sent.context.on_failure(sent, error, now_ms)
            return
        self._request.ended(sent)
        if not error.retriable:
            self._fail(error)
            return
        sent.context.mark_unknown()
        self._outcome_unknown = True
        self._request.failed(now_ms)

    def _on_success(self, request: Message, response: Message) -> None:
        self._outcome_unknown = False
        if isinstance(response, InitProducerIdResponse):
            self.producer.id_and_epoch = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            self._needs_epoch = False
            self._finish()
        elif isinstance(request, wire.AddPartitionsToTxnRequest):
            added = {TopicPartition(t.name, p) for t in request.v3_and_below_topics for p in t.partitions}
            self._partitions |= added
            self._partitions_to_add -= added
        elif isinstance(request, wire.AddOffsetsToTxnRequest):
            self._groups.add(request.group_id)
        elif isinstance(request, wire.EndTxnRequest):
            assert isinstance(response, wire.EndTxnResponse)
            self._partitions.clear()
            self._groups.clear()
            if response.producer_id >= 0:
                self.producer.id_and_epoch = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
                self._needs_epoch = False
            if not self._needs_epoch:
                self._finish()
        elif self._offsets:  # an aborted transaction drops its pending offset commits
            self._offsets.popleft().promise.resolve(None)

    def _on_error(self, sent: Unsent, error: ApiError, now_ms: int) -> None:
        code = error.code
        if code in MOVED or code.retriable:
            self._outages.report_code(TRANSACTION, code, self._name, now_ms)
        if code in MOVED:
            sent.context.mark_unknown()
            self._request.failed(now_ms)
        elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._request.retry_at_ms = now_ms + CONCURRENT_MS
        elif code.retriable:
            if code is ErrorCode.UNKNOWN_TOPIC_ID:
                self._metadata.request_refresh()  # the topic was deleted and created again with another id
            self._request.failed(now_ms)
        elif code in FENCED:
            self._fail(self._fenced_error(error))
        elif code in UNKNOWN_PRODUCER and self.phase is Phase.ABORTING:
            # The coordinator does not know this producer. No transaction can be aborted; a new producer id is needed.
            self.producer.id_and_epoch = NO_PRODUCER_ID_AND_EPOCH
            self._partitions.clear()
            self._groups.clear()
            self._needs_epoch = True
        elif (code in UNKNOWN_PRODUCER or code in ABORTABLE) and self.phase in (Phase.OPEN, Phase.COMMITTING):
            self._require_abort(error)
        elif self.phase is Phase.ABORTING and isinstance(sent.request, ADDING):
            pass  # the request was sent before the transaction was aborted
        else:
            self._fail(error)

    @property
    def _name(self) -> str:
        return f"transactional.id {self.producer.transactional_id!r}"

    def _finish(self) -> None:
        self.phase = Phase.READY
        self._abortable_error = None
        self._partitions_to_add.clear()
        self._promise.resolve(None)

    def _require_abort(self, error: KohortError) -> None:
        if self._abortable_error is not None:
            return
        self._abortable_error = TransactionFailed(f"call abort_transaction(), then begin again: {error}")
        self._abortable_error.__cause__ = error
        self._fail_offsets(self._abortable_error)
        if self.phase is Phase.COMMITTING:
            self.phase = Phase.OPEN
            self._promise.fail(self._abortable_error)

    def _fail(self, error: KohortError) -> None:
        if self._fatal_error is None:
            self._fatal_error = error
        self.phase = Phase.STOPPED
        self._fail_offsets(error)
        self._promise.fail(error)

    def _fail_offsets(self, error: KohortError) -> None:
        while self._offsets:
            self._offsets.popleft().promise.fail(error)

    def _fenced_error(self, error: KohortError) -> ProducerFenced:
        fenced = ProducerFenced(
            f"another producer uses transactional.id {self.producer.transactional_id!r}, or the transaction "
            f"exceeded transaction.timeout.ms={self._config.transaction_timeout_ms}: {error}"
        )
        fenced.__cause__ = error
        return fenced

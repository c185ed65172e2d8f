"""The transactions of one producer (KIP-98): begun by a call, carried by its batches, ended by the coordinator.

By the first protocol a partition is named to the coordinator before its first batch leaves, and a group before its
offsets are committed; by the second (KIP-890) brokers see to that. One request is under way at a time. What is lost on
the way (a batch given up, a member fenced out of its group) leaves the transaction to be aborted, and nothing else. A
producer that loses the transactional id itself can do nothing any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kohort.client.requests.denials import answer_error
from kohort.client.requests.find_coordinator import COORDINATOR_LANE, TRANSACTION_KEY, CoordinatorKey, CoordinatorLookup
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.request_state import RequestState, retry_backoff
from kohort.client.requests.source import Poll, Promise, Unsent
from kohort.client.requests.troubles import Troubles
from kohort.client.writing.transaction_messages import (
    BY_TOPIC_ID,
    FEATURE,
    MAX_VERSION,
    MAX_VERSION_OF_SECOND,
    PRODUCE_MAX_VERSION,
    SECOND_PROTOCOL,
    TransactionalProducer,
    add_group,
    add_partitions,
    commit_offsets,
    end,
    first_error,
    init_request,
)
from kohort.clock import Rng, earliest
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ErrorCode, KohortError, ProducerFenced, TransactionFailed, UsageError
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, GroupMetadata, OffsetAndMetadata, ProducerIdAndEpoch, TopicPartition
from kohort.wire.messages.find_coordinator import FindCoordinatorResponse
from kohort.wire.messages.producer_ids import InitProducerIdResponse
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
)
from kohort.wire.schema import Message

MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})
FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
TO_BE_ABORTED: Final = frozenset(
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
ADDING: Final = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, TxnOffsetCommitRequest)
TRANSACTION: Final = "transaction"
CONCURRENT_MS: Final = 20
"""The coordinator still writes the markers of the transaction before: that takes a moment."""


class Phase(Enum):
    """Where the producer is; the text completes "the producer ..."."""

    NEW = "is not initialized: call init_transactions() first"
    STARTING = "is being initialized"
    READY = "has no transaction open: call begin_transaction() first"
    OPEN = "has a transaction open: commit or abort it first"
    COMMITTING = "commits its transaction, or has done so: call commit_transaction() again to hear what became of it"
    ABORTING = "aborts its transaction: call abort_transaction() again to hear of its end"
    STOPPED = "is stopped"


@dataclass(slots=True, eq=False)
class _Offsets:
    """Offsets that the transaction is to commit for a group."""

    group: GroupMetadata
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    promise: Promise[None]


class Transactions:
    """The request source beside the sender of a transactional producer.

    ``delivered`` says whether everything handed over has arrived or failed: nothing ends before that.
    """

    def __init__(
        self, config: ProducerConfig, metadata: Metadata, rng: Rng, delivered: Callable[[], bool], troubles: Troubles
    ) -> None:
        assert config.transactional_id is not None
        self.producer = TransactionalProducer(config.transactional_id)
        self.phase = Phase.NEW
        self.newest = True
        """Whether to speak the second protocol with clusters that do; simulations speak both."""
        self._config = config
        self._metadata = metadata
        self._rng = rng
        self._delivered = delivered
        self._troubles = troubles
        self._request = RequestState(retry_backoff(config, rng))
        self._lookup = CoordinatorLookup(
            CoordinatorKey(config.transactional_id, TRANSACTION_KEY), config, metadata, rng, self._stop, troubles
        )
        self._group_lookups: dict[str, CoordinatorLookup] = {}
        self._promise: Promise[None] = Promise()
        self._lost: TransactionFailed | None = None
        self._stopped: KohortError | None = None
        self._wanted: set[TopicPartition] = set()
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._offsets: deque[_Offsets] = deque()
        self._needs_epoch = False
        """Before the next transaction: a sequence is broken, or the coordinator may hold what it did not confirm."""
        self._in_doubt = False
        self._second = False

    # What is asked of it

    def init(self) -> Promise[None]:
        """Get the producer id; the coordinator aborts and fences an earlier holder of the transactional id."""
        if self.phase is not Phase.STARTING:
            self._check(Phase.NEW, "init_transactions() was called before")
            self._enter(Phase.STARTING)
        return self._promise

    def begin(self) -> None:
        self._check(Phase.READY)
        self._second = self.newest and self._metadata.features.get(FEATURE, 0) >= SECOND_PROTOCOL
        self.phase = Phase.OPEN

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> Promise[None]:
        self.check_may_send()
        promise: Promise[None] = Promise()
        if offsets:
            self._offsets.append(_Offsets(group, dict(offsets), promise))
            for topic in {partition.topic for partition in offsets} if self._second else ():
                self._metadata.want_also(topic)  # the producer need not have written to it
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
            self._forget_offsets(self._aborted())
        return self._promise

    def end_open(self) -> None:
        if self.phase is Phase.OPEN:
            self.abort()

    @property
    def is_ending(self) -> bool:
        return self.phase in (Phase.COMMITTING, Phase.ABORTING)

    def check_may_send(self) -> None:
        """Raise UsageError outside of a transaction, TransactionFailed in a lost one, ProducerFenced and the like."""
        if self.phase is not Phase.OPEN:
            self._check(Phase.OPEN)
        if self._lost is not None:
            raise self._lost

    def _check(self, phase: Phase, otherwise: str = "") -> None:
        if self._stopped is not None:
            raise self._stopped
        if self.phase is not phase:
            raise UsageError(otherwise or f"the producer {self.phase.value}")

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._promise = Promise()

    # For the sender

    @property
    def refusal(self) -> KohortError | None:
        if self._stopped is not None or self._lost is not None:
            return self._stopped or self._lost
        return self._aborted() if self.phase is Phase.ABORTING else None

    def admits(self, partition: TopicPartition) -> bool:
        """True if a batch may go to the partition; otherwise add it to the transaction first."""
        if self._second:
            self._partitions.add(partition)  # by the batch itself
        if partition in self._partitions:
            return True
        self._wanted.add(partition)
        return False

    @property
    def produce_max_version(self) -> int | None:
        """The highest version of Produce that goes with the protocol; None if any does."""
        return None if self._second else PRODUCE_MAX_VERSION

    def record_lost(self, error: KohortError) -> None:
        if isinstance(error, ApiError) and error.code in (
            ErrorCode.PRODUCER_FENCED,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ):
            self._stop(self._fenced(error) if error.code in FENCED else error)
        elif self.phase in (Phase.OPEN, Phase.COMMITTING):
            self._lose(error)

    @property
    def identity(self) -> ProducerIdAndEpoch:
        return self.producer.id_and_epoch

    def sequence_lost(self, _of: ProducerIdAndEpoch) -> None:
        self._needs_epoch = True

    def identity_lost(self) -> None:
        """Do nothing: what is given up for it says so, and it is another producer that has the id now."""

    # The source

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
            return self._ask(init_request(self.producer, self._config.transaction_timeout_ms))
        if self.phase in (Phase.OPEN, Phase.COMMITTING) and self._lost is None:
            if self._wanted:
                return self._ask(add_partitions(self.producer, self._wanted))
            if self._offsets:
                return self._ask_group(self._offsets[0])
        if self.is_ending and self._delivered():
            if self._in_doubt and self.phase is Phase.ABORTING:
                self._needs_epoch = True  # which aborts whatever there is
            if self._partitions or self._groups:
                return self._ask(end(self.producer, commit=self.phase is Phase.COMMITTING))
            if self._needs_epoch:
                return self._ask(init_request(self.producer, self._config.transaction_timeout_ms))
            self._ended()
        return None

    def _ask_group(self, asked: _Offsets) -> Unsent | None:
        group_id = asked.group.group_id
        if self._second:
            self._groups.add(group_id)  # by the commit itself
        if group_id not in self._groups:
            return self._ask(add_group(self.producer, group_id))
        lookup = self._group_lookups.get(group_id)
        if lookup is None:
            key, config, metadata = CoordinatorKey(group_id), self._config, self._metadata
            lookup = CoordinatorLookup(key, config, metadata, self._rng, self._lose, self._troubles)
            self._group_lookups[group_id] = lookup
        ids = self._topic_ids({partition.topic for partition in asked.offsets}) if self._second else {}
        if ids is None:
            return None
        request = commit_offsets(self.producer, asked.group, asked.offsets, ids)
        return self._ask(request, lookup, BY_TOPIC_ID if ids and all(ids.values()) else None)

    def _topic_ids(self, topics: set[str]) -> Mapping[str, bytes | None] | None:
        """Returns the ids of topics, as far as there are any (KIP-1319); None while an answer is awaited. Where nobody
        answers their names will do."""
        known = all(self._metadata.topic(t) is not None or self._metadata.error(t) is not None for t in topics)
        if not known and self._metadata.last_failure is None:
            return None
        return {topic: self._metadata.topic_id(topic) for topic in topics}

    def _ask(
        self, request: Message, lookup: CoordinatorLookup | None = None, max_version: int | None = None
    ) -> Unsent | None:
        lookup = lookup or self._lookup
        node_id = lookup.require()
        if node_id is None:
            return None
        return Unsent(
            node_id,
            request,
            self._config.request_timeout_ms,
            lane=COORDINATOR_LANE,
            max_version=max_version or (MAX_VERSION_OF_SECOND if self._second else MAX_VERSION)[request.API_KEY],
            context=lookup,
        )

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        if isinstance(response, FindCoordinatorResponse):
            sent.context.on_response(sent, response, now_ms)
            return
        self._request.ended(sent)
        code, where = first_error(sent.request, response)
        if code is ErrorCode.NONE:
            self._request.succeeded()
            self._troubles.mended(TRANSACTION, f"{self._name} is served", now_ms)
            self._done(sent.request, response)
        else:
            topic = where.rpartition("-")[0] if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
            self._refused(sent, answer_error(self._config, code, where or self._name, name=topic), now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        if sent.request.API_KEY not in MAX_VERSION:
            sent.context.on_failure(sent, error, now_ms)
            return
        self._request.ended(sent)
        if not error.retriable:
            self._stop(error)
            return
        sent.context.mark_unknown()
        self._in_doubt = True
        self._request.failed(now_ms)

    # What became of it

    def _done(self, request: Message, response: Message) -> None:
        self._in_doubt = False
        if isinstance(response, InitProducerIdResponse):
            self.producer.id_and_epoch = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
            self._needs_epoch = False
            self._ended()
        elif isinstance(request, AddPartitionsToTxnRequest):
            added = {TopicPartition(t.name, p) for t in request.v3_and_below_topics for p in t.partitions}
            self._partitions |= added
            self._wanted -= added
        elif isinstance(request, AddOffsetsToTxnRequest):
            self._groups.add(request.group_id)
        elif isinstance(request, EndTxnRequest):
            assert isinstance(response, EndTxnResponse)
            self._partitions.clear()
            self._groups.clear()
            if response.producer_id >= 0:
                self.producer.id_and_epoch = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
                self._needs_epoch = False
            if not self._needs_epoch:
                self._ended()
        elif self._offsets:  # they may have been forgotten by an abort meanwhile
            self._offsets.popleft().promise.resolve(None)

    def _refused(self, sent: Unsent, error: ApiError, now_ms: int) -> None:
        code = error.code
        if code in MOVED or code.retriable:
            self._troubles.refused(TRANSACTION, code, self._name, now_ms)
        if code in MOVED:
            sent.context.mark_unknown()
            self._request.failed(now_ms)
        elif code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self._request.wait_until(now_ms + CONCURRENT_MS)
        elif code.retriable:
            if code is ErrorCode.UNKNOWN_TOPIC_ID:
                self._metadata.request_refresh()  # the topic was made anew, and has another by now
            self._request.failed(now_ms)
        elif code in FENCED:
            self._stop(self._fenced(error))
        elif code in FORGOTTEN and self.phase is Phase.ABORTING:
            # The coordinator holds nothing of this producer: there is nothing to abort, and a new id to be had.
            self.producer.id_and_epoch = NO_PRODUCER_ID_AND_EPOCH
            self._partitions.clear()
            self._groups.clear()
            self._needs_epoch = True
        elif (code in FORGOTTEN or code in TO_BE_ABORTED) and self.phase in (Phase.OPEN, Phase.COMMITTING):
            self._lose(error)
        elif self.phase is Phase.ABORTING and isinstance(sent.request, ADDING):
            pass  # asked for before the abort, to which it does not matter
        else:
            self._stop(error)

    @property
    def _name(self) -> str:
        return f"transactional.id {self.producer.transactional_id!r}"

    def _ended(self) -> None:
        self.phase = Phase.READY
        self._lost = None
        self._wanted.clear()
        self._promise.resolve(None)

    def _lose(self, error: KohortError) -> None:
        if self._lost is not None:
            return
        self._lost = TransactionFailed(f"abort_transaction(), then begin again: {error}")
        self._lost.__cause__ = error
        self._forget_offsets(self._lost)
        if self.phase is Phase.COMMITTING:
            self.phase = Phase.OPEN
            self._promise.fail(self._lost)

    def _stop(self, error: KohortError) -> None:
        if self._stopped is None:
            self._stopped = error
        self.phase = Phase.STOPPED
        self._forget_offsets(error)
        self._promise.fail(error)

    def _forget_offsets(self, error: KohortError) -> None:
        while self._offsets:
            self._offsets.popleft().promise.fail(error)

    def _aborted(self) -> TransactionFailed:
        return TransactionFailed("the transaction was aborted")

    def _fenced(self, error: KohortError) -> ProducerFenced:
        fenced = ProducerFenced(
            f"another producer has taken over transactional.id {self.producer.transactional_id!r}, or the transaction "
            f"outlived transaction.timeout.ms={self._config.transaction_timeout_ms}: {error}"
        )
        fenced.__cause__ = error
        return fenced

"""Sends the batches of a producer: to each node one request with one batch per partition, in order, each once.

With idempotence (protocol/producers.md#numbering) every batch carries the producer's id and epoch and a sequence number
per partition, so a broker tells a repetition from something new. Up to five requests are under way per node. When one
fails, those behind it come back as out of order; they wait their turn again, one at a time until the partition flows.
Where the sequence cannot be continued (a batch was given up, the broker forgot the producer) the epoch is raised and
the partition's sequence begins again at 0, once nothing of it is under way (KIP-360).

A transactional producer's batches go to partitions that are in its transaction, under the id that the transaction has.
If a batch is given up, the transaction fails, and the next epoch comes from the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kohort.client.metrics.counts import SampleWindows, SendingMetrics
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.request_state import retry_backoff
from kohort.client.requests.source import Poll, Unsent
from kohort.client.requests.troubles import PASSING_MS, WRITING, Troubles
from kohort.client.writing.accumulator import REQUEST_OVERHEAD, Accumulator
from kohort.client.writing.produce_batch import SEQUENCES, ProduceBatch
from kohort.client.writing.producer_ids import Lineage, Numbering
from kohort.client.writing.transactions import Transactions
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ApiTimeout, ConnectionFailed, ErrorCode, KohortError, ProtocolError, error_code
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, NO_UUID, Node, ProducerIdAndEpoch, TopicPartition
from kohort.wire.compression import Codec
from kohort.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from kohort.wire.schema import Message

LAST_VERSION_WITH_NAMES: Final = 12
STALE_METADATA: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
LOST_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class Sender:
    """The request source of a producer. Without idempotence its batches have no ``numbering``; the transactions number
    those of a transactional one."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: Metadata,
        accumulator: Accumulator,
        rng: Rng,
        numbering: Numbering | None,
        troubles: Troubles,
    ) -> None:
        self.metrics = SendingMetrics(SampleWindows.of(config))
        self.completed: list[ProduceBatch] = []
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._numbering = numbering
        self._transactions = numbering if isinstance(numbering, Transactions) else None
        self._troubles = troubles
        self._backoff = retry_backoff(config, rng)
        self._lineages: dict[TopicPartition, Lineage] = {}
        self._under_way: dict[int, int] = {}
        self._next_expiry_ms = 0
        self._polled_at_ms = 0

    @property
    def idle(self) -> bool:
        return not self._accumulator.waiting and not any(self._under_way.values())

    # Polled

    def poll(self, now_ms: int) -> Poll:
        self._polled_at_ms = now_ms
        self._expire(now_ms)
        if self._accumulator.waiting and self._transactions is not None and self._transactions.refusal is not None:
            self._drop_waiting(self._transactions.refusal)
        if not self._accumulator.waiting:
            return Poll(wake_at_ms=self._wake_under_way())
        if self._numbering is not None and self._numbering.identity == NO_PRODUCER_ID_AND_EPOCH:
            return Poll(wake_at_ms=self._next_expiry_ms)
        wakes = [self._next_expiry_ms]
        by_node: dict[int, list[TopicPartition]] = {}
        due: set[int] = set()
        for tp, queue in self._accumulator.waiting.items():
            leader = self._metadata.leader(tp)
            if leader is None:
                self._metadata.want_also(tp.topic)
                self._metadata.request_refresh()
                if self._metadata.topic(tp.topic) is not None:
                    self._troubles.report((WRITING, tp), f"{tp} has no leader", now_ms, patience_ms=PASSING_MS)
                continue
            node_id = leader.node_id
            under_way = self._under_way.get(node_id, 0)
            may_leave_ms = self._may_leave_at(tp)
            if may_leave_ms is None or under_way >= self._config.max_in_flight_requests_per_connection:
                continue  # an answer must come first, and will be an event
            if may_leave_ms <= now_ms:
                by_node.setdefault(node_id, []).append(tp)
            # A full or due batch makes the request leave; batches for the same node go with it.
            ready_ms = max(may_leave_ms, 0 if queue[0].full else queue[0].ready_at_ms)
            if ready_ms <= now_ms:
                due.add(node_id)
            else:
                wakes.append(ready_ms)
        return Poll([self._request(node_id, by_node[node_id], now_ms) for node_id in due], min(wakes))

    def _may_leave_at(self, tp: TopicPartition) -> int | None:
        """Return from when on the partition's order and back-off let a batch go; None if an answer must come first."""
        if self._transactions is not None and not self._transactions.admits(tp):
            return None
        lineage = self._lineages.get(tp)
        if lineage is None:
            return 0
        first = self._numbering is not None and not lineage.known
        alone = first or self._config.max_in_flight_requests_per_connection == 1  # also where the leader has moved
        if lineage.under_way and (lineage.recovering or lineage.begin_again or alone):
            return None
        return lineage.not_before_ms

    def _request(self, node_id: int, tps: Iterable[TopicPartition], now_ms: int) -> Unsent:
        room = self._config.max_request_size - REQUEST_OVERHEAD
        batches: list[ProduceBatch] = []
        topics: dict[str, TopicProduceData] = {}
        named_only = False
        for tp in tps:
            if batches and self._accumulator.waiting[tp][0].size > room:
                continue
            batch, before = self._take(tp)
            room -= batch.size
            self._number(tp, batch)
            if batch.attempts == 1:
                self._leaves_first(batch, before, now_ms)
            batches.append(batch)
            topic_id = self._metadata.topic_id(tp.topic)
            named_only = named_only or topic_id is None
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = TopicProduceData(name=tp.topic, topic_id=topic_id or NO_UUID)
            topic.partition_data.append(PartitionProduceData(index=tp.partition, records=batch.buffers()))
        request = ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks_on_the_wire,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._under_way[node_id] = self._under_way.get(node_id, 0) + 1
        self.metrics.requests.record(sum(batch.count for batch in batches), now_ms)
        return Unsent(
            node_id,
            request,
            self._config.request_timeout_ms,
            max_version=self._max_version(named_only=named_only),
            expect_response=self._config.acks != "0",
            context=batches,
        )

    def _take(self, tp: TopicPartition) -> tuple[ProduceBatch, int]:
        limit = self._accumulator.limit(tp.topic)
        while True:
            before = self._accumulator.waiting[tp][0].size
            batch = self._accumulator.take(tp)
            if batch.size <= limit or batch.count == 1 or batch.unanswered:
                return batch, before
            self._split(batch)

    def _leaves_first(self, batch: ProduceBatch, before: int, now_ms: int) -> None:
        queued_ms = now_ms - (batch.deadline_ms - self._config.delivery_timeout_ms)
        self.metrics.left(batch.topic, batch.count, batch.size, queued_ms, now_ms)
        if batch.codec is not Codec.NONE and before:
            self.metrics.compressed(batch.topic, batch.size / before, now_ms)

    def _max_version(self, *, named_only: bool) -> int | None:
        most = LAST_VERSION_WITH_NAMES if named_only else None
        if self._transactions is not None:
            return self._transactions.produce_max_version or most
        return most

    def _number(self, tp: TopicPartition, batch: ProduceBatch) -> None:
        lineage = self._lineages.get(tp)
        if lineage is None:
            lineage = self._lineages[tp] = Lineage()
        batch.attempts += 1
        batch.transactional = self._transactions is not None
        if self._numbering is not None:
            self._continue_sequence(lineage, batch, self._numbering.identity)
        lineage.under_way.append(batch)

    def _continue_sequence(self, lineage: Lineage, batch: ProduceBatch, now: ProducerIdAndEpoch) -> None:
        """Number the batch, unless it may be on the log: then it goes again under its number, whatever came before
        it."""
        if batch.base_sequence >= 0:
            return
        if lineage.begin_again or (lineage.identity != now and not lineage.under_way):
            lineage.known = lineage.known and lineage.identity.producer_id == now.producer_id
            lineage.identity = now
            lineage.next_sequence, lineage.acked_sequence = 0, -1
            lineage.begin_again = False
        batch.number(*lineage.identity, lineage.next_sequence)
        lineage.next_sequence = (lineage.next_sequence + batch.count) % SEQUENCES

    # Answers

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, ProduceResponse)
        self._under_way[sent.node_id] -= 1
        results = self._results(sent, response)
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        for batch in sent.context:
            self._land(batch)
            result = results.get((batch.topic, batch.partition))
            if not sent.expect_response:
                self._succeed(batch, -1, -1, now_ms)
            elif result is None:
                self._retry(batch, ConnectionFailed("the broker's answer left the partition out"), now_ms)
            elif result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(batch, result.base_offset, result.log_append_time_ms, now_ms)
            else:
                self._refused(batch, result, nodes, now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._under_way[sent.node_id] -= 1
        self._metadata.request_refresh()
        for batch in sent.context:
            self._land(batch)
            batch.unanswered = True
            # A damaged answer is a lost one; the sequence keeps a batch that is on the log from being written twice.
            is_damaged = type(error) is ProtocolError and batch.base_sequence >= 0
            if error.retriable or is_damaged:
                self._retry(batch, error, now_ms)
            else:
                self._give_up(batch, error)

    def _results(self, sent: Unsent, response: ProduceResponse) -> dict[tuple[str, int], PartitionProduceResponse]:
        assert isinstance(sent.request, ProduceRequest)
        names = {t.topic_id: t.name for t in sent.request.topic_data}
        by_id = sent.version > LAST_VERSION_WITH_NAMES
        return {
            (names.get(t.topic_id, "") if by_id else t.name, p.index): p
            for t in response.responses
            for p in t.partition_responses
        }

    def _refused(
        self, batch: ProduceBatch, result: PartitionProduceResponse, nodes: Iterable[Node], now_ms: int
    ) -> None:
        code = error_code(result.error_code)
        self.metrics.refused(ProduceRequest, code)
        tp = TopicPartition(batch.topic, batch.partition)
        text = f"{tp}: {result.error_message}" if result.error_message else str(tp)
        error = answer_error(self._config, code, text, name=_about(code, tp))
        if code in STALE_METADATA:
            hint = result.current_leader
            if self._metadata.update_leader(tp, hint.leader_id, hint.leader_epoch, nodes):
                self._retry(batch, error, now_ms, at_once=True)
                return
            self._metadata.request_refresh()
        if code in TOO_LARGE and batch.count > 1:
            self._lineages[tp].recovering = True
            self._accumulator.set_limit(batch.topic, max(half.size for half in self._split(batch)))
        elif code in LOST_SEQUENCE and batch.base_sequence >= 0:
            if self._lineages[tp].is_past(batch):
                self._succeed(batch, -1, -1, now_ms)
            else:
                self._out_of_order(tp, batch, error, now_ms)
        elif code is ErrorCode.INVALID_PRODUCER_EPOCH or code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            if self._numbering is not None:
                self._numbering.identity_lost()
            self._give_up(batch, error)
        elif code.retriable:
            self._retry(batch, error, now_ms)
        elif result.record_errors and batch.count > 1:
            self._give_up(batch, *_errors_of_records(tp, code, result))
        else:
            self._give_up(batch, error)

    def _out_of_order(self, tp: TopicPartition, batch: ProduceBatch, error: ApiError, now_ms: int) -> None:
        """Go on where the broker misses what came before. If nothing is missing, it has forgotten this producer, or has
        taken others for its first.

        What comes before may also have been given up (``begin_again``). Then, too, nothing of this batch and of those
        after it is on the log, and they may have other numbers.
        """
        lineage = self._lineages[tp]
        ahead = (batch.base_sequence - lineage.acked_sequence - 1) % SEQUENCES
        if ahead == 0 or ahead > SEQUENCES // 2:
            if self._transactions is not None:
                self._give_up(batch, error)
                return
            self._begin_again(lineage)
        self._retry(batch, error, now_ms)
        if lineage.begin_again and not lineage.under_way:
            for unwritten in self._accumulator.waiting.get(tp, ()):
                unwritten.forget_number()

    def _land(self, batch: ProduceBatch) -> None:
        lineage = self._lineages[TopicPartition(batch.topic, batch.partition)]
        lineage.under_way.remove(batch)

    def _succeed(self, batch: ProduceBatch, base_offset: int, append_time_ms: int, now_ms: int) -> None:
        tp = TopicPartition(batch.topic, batch.partition)
        lineage = self._lineages[tp]
        lineage.recovering = False
        if self._troubles:
            self._troubles.mended((WRITING, tp), f"{tp} can be written again", now_ms)
        lineage.known = lineage.known or batch.producer_id == lineage.identity.producer_id
        lineage.acknowledge(batch)
        if not batch.done:
            batch.succeed(base_offset, append_time_ms)
            self._finished(batch)

    def _retry(self, batch: ProduceBatch, error: KohortError, now_ms: int, *, at_once: bool = False) -> None:
        tp = TopicPartition(batch.topic, batch.partition)
        lineage = self._lineages[tp]
        lineage.recovering = True
        batch.last_error = error
        if isinstance(error, ApiError):
            self._troubles.refused((WRITING, tp), error.code, f"writing to {tp}", now_ms)
        if batch.done:  # its time ran out while it was under way
            return
        batch.failures += 1
        if batch.failures > self._config.retries:
            self._give_up(batch, error)
            return
        if not at_once:
            lineage.not_before_ms = now_ms + self._backoff.delay_ms(batch.failures)
        self.metrics.tries_again(batch.topic, batch.count, now_ms)
        batch.ready_at_ms = 0
        self._accumulator.put_back(batch)

    def _split(self, batch: ProduceBatch) -> tuple[ProduceBatch, ProduceBatch]:
        self.metrics.splits.record(1, self._polled_at_ms)
        self._accumulator.release(batch)
        left, right = batch.split()
        for half in (right, left):
            self._accumulator.buffered_bytes += half.size
            self._accumulator.put_back(half)
        self.completed.append(batch)
        return left, right

    def _give_up(
        self, batch: ProduceBatch, error: KohortError, refused: Mapping[int, KohortError] | None = None
    ) -> None:
        if batch.base_sequence >= 0:
            self._begin_again(self._lineages[TopicPartition(batch.topic, batch.partition)])
        if not batch.done:
            self.metrics.gave_up(batch.topic, batch.count or len(batch.values), self._polled_at_ms)
            batch.fail(error, refused)
            self._finished(batch)
            if self._transactions is not None:
                self._transactions.record_lost(error)

    def _begin_again(self, lineage: Lineage) -> None:
        if lineage.begin_again:
            return
        lineage.begin_again = True
        if self._numbering is not None:
            self._numbering.sequence_lost(lineage.identity)

    def not_numbered(self, error: KohortError) -> None:
        """Fail waiting batches if ``error`` leaves the producer without an id for good."""
        if not error.retriable:
            self._drop_waiting(error)
        for batch in self._accumulator.batches():
            batch.last_error = error

    def abort(self, error: KohortError) -> None:
        self._drop_waiting(error)
        for lineage in self._lineages.values():
            for batch in lineage.under_way:
                self._give_up(batch, error)

    def _drop_waiting(self, error: KohortError) -> None:
        for tp, queue in list(self._accumulator.waiting.items()):
            for batch in list(queue):
                self._accumulator.drop(tp, batch)
                self._give_up(batch, error)

    def _finished(self, batch: ProduceBatch) -> None:
        self._accumulator.release(batch)
        self.completed.append(batch)

    # Time

    def _expire(self, now_ms: int) -> None:
        if now_ms < self._next_expiry_ms:
            return
        for tp, queue in list(self._accumulator.waiting.items()):
            for batch in [b for b in queue if b.deadline_ms <= now_ms]:
                self._accumulator.drop(tp, batch)
                self._give_up(batch, self._too_late(batch))
        for lineage in self._lineages.values():
            for batch in lineage.under_way:
                if batch.deadline_ms <= now_ms and not batch.done:
                    self._give_up(batch, self._too_late(batch))
        self._next_expiry_ms = min(self._deadlines(), default=now_ms + self._config.delivery_timeout_ms)

    def _deadlines(self) -> list[int]:
        waiting = [b.deadline_ms for b in self._accumulator.batches()]
        return waiting + [b.deadline_ms for x in self._lineages.values() for b in x.under_way if not b.done]

    def _wake_under_way(self) -> int | None:
        return self._next_expiry_ms if any(self._under_way.values()) else None

    def _too_late(self, batch: ProduceBatch) -> ApiTimeout:
        tp = TopicPartition(batch.topic, batch.partition)
        waited = f"{tp}: not delivered within delivery.timeout.ms={self._config.delivery_timeout_ms}"
        if batch.last_error is not None:
            return ApiTimeout(f"{waited} in {batch.attempts} attempts; the last failed: {batch.last_error}")
        if self._metadata.leader(tp) is None:
            why = self._metadata.last_failure or self._metadata.error(tp.topic) or "the partition has no leader"
            return ApiTimeout(f"{waited}: {why}")
        return ApiTimeout(f"{waited}, after {batch.attempts} attempts")


def _about(code: ErrorCode, tp: TopicPartition) -> str:
    return tp.topic if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""


def _errors_of_records(
    tp: TopicPartition, code: ErrorCode, result: PartitionProduceResponse
) -> tuple[KohortError, dict[int, KohortError]]:
    """Return what is wrong with a batch's other records, and with those that the broker names (KIP-467)."""
    why = result.error_message or "the broker does not say why"
    others = ApiError(code, f"{tp}: not refused itself, but it was sent in one batch with records that are: {why}")
    named: dict[int, KohortError] = {
        record.batch_index: ApiError(code, f"{tp}: {record.batch_index_error_message or why}")
        for record in result.record_errors
    }
    return others, named

"""Send a producer's batches: one request per node with one batch per partition, in order, without duplicates.

An idempotent producer numbers its batches (protocol/producers.md#numbering), so a broker detects duplicates. Up to five
requests are in flight per node. After a failed request, later requests fail as out of order. They are repeated one at
a time until one succeeds. If a batch fails permanently, the sequence of its partition restarts at 0 in the next epoch,
once no batch of the partition is in flight (KIP-360).

Batches of a transactional producer go to partitions of its transaction. A failed batch fails the transaction, and the
next epoch comes from the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kohort.client.metrics.counts import SampleWindows, SendingMetrics
from kohort.client.requests.denials import answer_error
from kohort.client.requests.metadata import LEADER_ERRORS, Metadata
from kohort.client.requests.outages import TRANSIENT_MS, WRITING, Outages
from kohort.client.requests.request_state import retry_backoff
from kohort.client.requests.source import Poll, Unsent
from kohort.client.writing.accumulator import REQUEST_OVERHEAD, Accumulator
from kohort.client.writing.produce_batch import SEQUENCES, ProduceBatch
from kohort.client.writing.producer_ids import Numbering, PartitionSequence
from kohort.client.writing.transactions import Transactions
from kohort.clock import Rng
from kohort.config.client import ProducerConfig
from kohort.errors import ApiError, ApiTimeout, ConnectionFailed, ErrorCode, KohortError, ProtocolError, error_code
from kohort.model import NO_PRODUCER_ID_AND_EPOCH, NO_UUID, Node, ProducerIdAndEpoch, TopicPartition
from kohort.wire.compression import Codec
from kohort.wire.messages import produce as wire
from kohort.wire.schema import Message

LAST_VERSION_WITH_NAMES: Final = 12
STALE_METADATA: Final = LEADER_ERRORS | {
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
}
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
LOST_SEQUENCE: Final = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})


class Sender:
    """Request source that sends a producer's batches. ``numbering``: producer ids; None without idempotence."""

    def __init__(
        self,
        config: ProducerConfig,
        metadata: Metadata,
        accumulator: Accumulator,
        rng: Rng,
        numbering: Numbering | None,
        outages: Outages,
    ) -> None:
        self.metrics = SendingMetrics(SampleWindows.of(config))
        self.completed: list[ProduceBatch] = []
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._numbering = numbering
        self._transactions = numbering if isinstance(numbering, Transactions) else None
        self._outages = outages
        self._backoff = retry_backoff(config, rng)
        self._sequences: dict[TopicPartition, PartitionSequence] = {}
        self._in_flight: dict[int, int] = {}
        self._next_expiry_ms = 0
        self._polled_at_ms = 0

    @property
    def idle(self) -> bool:
        return not self._accumulator.waiting and not any(self._in_flight.values())

    def poll(self, now_ms: int) -> Poll:
        self._polled_at_ms = now_ms
        self._expire(now_ms)
        if self._accumulator.waiting and self._transactions is not None and self._transactions.refusal is not None:
            self._drop_waiting(self._transactions.refusal)
        if not self._accumulator.waiting:
            return Poll(wake_at_ms=self._next_expiry_ms if any(self._in_flight.values()) else None)
        if self._numbering is not None and self._numbering.identity == NO_PRODUCER_ID_AND_EPOCH:
            return Poll(wake_at_ms=self._next_expiry_ms)
        wakes = [self._next_expiry_ms]
        by_node: dict[int, list[TopicPartition]] = {}
        due: set[int] = set()
        for tp, queue in self._accumulator.waiting.items():
            leader = self._metadata.leader(tp)
            if leader is None:
                self._metadata.add_topic(tp.topic)
                self._metadata.request_refresh()
                if self._metadata.topic(tp.topic) is not None:
                    self._outages.report((WRITING, tp), f"{tp} has no leader", now_ms, patience_ms=TRANSIENT_MS)
                continue
            node_id = leader.node_id
            in_flight = self._in_flight.get(node_id, 0)
            send_at_ms = self._send_at_ms(tp)
            if send_at_ms is None or in_flight >= self._config.max_in_flight_requests_per_connection:
                continue  # the node has the maximum number of requests in flight; its next response wakes the sender
            if send_at_ms <= now_ms:
                by_node.setdefault(node_id, []).append(tp)
            # A full or due batch triggers the Produce request; other batches for the same node are sent with it.
            ready_ms = max(send_at_ms, 0 if queue[0].full else queue[0].ready_at_ms)
            if ready_ms <= now_ms:
                due.add(node_id)
            else:
                wakes.append(ready_ms)
        return Poll([self._request(node_id, by_node[node_id], now_ms) for node_id in due], min(wakes))

    def _send_at_ms(self, tp: TopicPartition) -> int | None:
        """Return the earliest time in ms at which the partition's next batch may be sent; None if it must wait."""
        if self._transactions is not None and not self._transactions.admits(tp):
            return None
        sequence = self._sequences.get(tp)
        if sequence is None:
            return 0
        first = self._numbering is not None and not sequence.accepted
        # one batch in flight at a time: wait for its response, even if it was sent to the previous leader
        alone = first or self._config.max_in_flight_requests_per_connection == 1
        if sequence.in_flight and (sequence.recovering or sequence.must_restart or alone):
            return None
        return sequence.not_before_ms

    def _request(self, node_id: int, tps: Iterable[TopicPartition], now_ms: int) -> Unsent:
        room = self._config.max_request_size - REQUEST_OVERHEAD
        batches: list[ProduceBatch] = []
        topics: dict[str, wire.TopicProduceData] = {}
        named_only = False
        for tp in tps:
            if batches and self._accumulator.waiting[tp][0].size > room:
                continue
            batch, before = self._take(tp)
            room -= batch.size
            self._number(tp, batch)
            if batch.attempts == 1:
                self._count_first_send(batch, before, now_ms)
            batches.append(batch)
            topic_id = self._metadata.topic_id(tp.topic)
            named_only = named_only or topic_id is None
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = wire.TopicProduceData(name=tp.topic, topic_id=topic_id or NO_UUID)
            topic.partition_data.append(wire.PartitionProduceData(index=tp.partition, records=batch.buffers()))
        request = wire.ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks_on_the_wire,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
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

    def _count_first_send(self, batch: ProduceBatch, before: int, now_ms: int) -> None:
        queued_ms = now_ms - (batch.deadline_ms - self._config.delivery_timeout_ms)
        self.metrics.records_sent(batch.topic, batch.count, batch.size, queued_ms, now_ms)
        if batch.codec is not Codec.NONE and before:
            self.metrics.topics[batch.topic].compression.record(batch.size / before, now_ms)

    def _max_version(self, *, named_only: bool) -> int | None:
        of_transactions = None if self._transactions is None else self._transactions.produce_max_version
        return of_transactions or (LAST_VERSION_WITH_NAMES if named_only else None)

    def _number(self, tp: TopicPartition, batch: ProduceBatch) -> None:
        sequence = self._sequences.get(tp)
        if sequence is None:
            sequence = self._sequences[tp] = PartitionSequence()
        batch.attempts += 1
        batch.transactional = self._transactions is not None
        if self._numbering is not None:
            self._continue_sequence(sequence, batch, self._numbering.identity)
        sequence.in_flight.append(batch)

    def _continue_sequence(self, sequence: PartitionSequence, batch: ProduceBatch, now: ProducerIdAndEpoch) -> None:
        """Set the sequence number of a new batch. A batch that the log may contain keeps its number."""
        if batch.base_sequence >= 0:
            return
        if sequence.must_restart or (sequence.identity != now and not sequence.in_flight):
            sequence.accepted = sequence.accepted and sequence.identity.producer_id == now.producer_id
            sequence.identity = now
            sequence.next_sequence, sequence.acked_sequence = 0, -1
            sequence.must_restart = False
        batch.number(*sequence.identity, sequence.next_sequence)
        sequence.next_sequence = (sequence.next_sequence + batch.count) % SEQUENCES

    def on_response(self, sent: Unsent, response: Message, now_ms: int) -> None:
        assert isinstance(response, wire.ProduceResponse)
        self._in_flight[sent.node_id] -= 1
        results = self._results(sent, response)
        nodes = [Node(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints]
        for batch in sent.context:
            self._remove_in_flight(batch)
            result = results.get((batch.topic, batch.partition))
            if not sent.expect_response:
                self._succeed(batch, -1, -1, now_ms)
            elif result is None:
                self._retry(batch, ConnectionFailed("the broker's response lacks the partition"), now_ms)
            elif result.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self._succeed(batch, result.base_offset, result.log_append_time_ms, now_ms)
            else:
                self._refused(batch, result, nodes, now_ms)

    def on_failure(self, sent: Unsent, error: KohortError, now_ms: int) -> None:
        self._in_flight[sent.node_id] -= 1
        self._metadata.request_refresh()
        for batch in sent.context:
            self._remove_in_flight(batch)
            batch.unanswered = True
            # Retry after a damaged response: the sequence number prevents a duplicate write.
            is_damaged = type(error) is ProtocolError and batch.base_sequence >= 0
            if error.retriable or is_damaged:
                self._retry(batch, error, now_ms)
            else:
                self._fail(batch, error)

    def _results(
        self, sent: Unsent, response: wire.ProduceResponse
    ) -> dict[tuple[str, int], wire.PartitionProduceResponse]:
        assert isinstance(sent.request, wire.ProduceRequest)
        names = {t.topic_id: t.name for t in sent.request.topic_data}
        by_id = sent.version > LAST_VERSION_WITH_NAMES
        return {
            (names.get(t.topic_id, "") if by_id else t.name, p.index): p
            for t in response.responses
            for p in t.partition_responses
        }

    def _refused(
        self, batch: ProduceBatch, result: wire.PartitionProduceResponse, nodes: Iterable[Node], now_ms: int
    ) -> None:
        code = error_code(result.error_code)
        self.metrics.refused(wire.ProduceRequest, code)
        tp = TopicPartition(batch.topic, batch.partition)
        text = f"{tp}: {result.error_message}" if result.error_message else str(tp)
        denied_topic = tp.topic if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else ""
        error = answer_error(self._config, code, text, name=denied_topic)
        if code in STALE_METADATA:
            hint = result.current_leader
            if self._metadata.update_leader(tp, hint.leader_id, hint.leader_epoch, nodes):
                self._retry(batch, error, now_ms, at_once=True)
                return
            self._metadata.request_refresh()
        if code in TOO_LARGE and batch.count > 1:
            self._sequences[tp].recovering = True
            self._accumulator.set_limit(batch.topic, max(half.size for half in self._split(batch)))
        elif code in LOST_SEQUENCE and batch.base_sequence >= 0:
            if self._sequences[tp].is_superseded(batch):
                self._succeed(batch, -1, -1, now_ms)
            else:
                self._out_of_order(tp, batch, error, now_ms)
        elif code is ErrorCode.INVALID_PRODUCER_EPOCH or code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            if self._numbering is not None:
                self._numbering.drop_identity()
            self._fail(batch, error)
        elif code.retriable:
            self._retry(batch, error, now_ms)
        elif result.record_errors and batch.count > 1:
            self._fail(batch, *_errors_of_records(tp, code, result))
        else:
            self._fail(batch, error)

    def _out_of_order(self, tp: TopicPartition, batch: ProduceBatch, error: ApiError, now_ms: int) -> None:
        """Repeat a batch that the broker rejects as out of order.

        If no earlier batch is missing, the broker has dropped the producer's state, and the sequence restarts. After a
        failed earlier batch (``must_restart``) neither this batch nor later ones are in the log, so they are numbered
        again.
        """
        sequence = self._sequences[tp]
        ahead = (batch.base_sequence - sequence.acked_sequence - 1) % SEQUENCES
        if ahead == 0 or ahead > SEQUENCES // 2:
            if self._transactions is not None:
                self._fail(batch, error)
                return
            self._restart_sequence(sequence)
        self._retry(batch, error, now_ms)
        if sequence.must_restart and not sequence.in_flight:
            for unwritten in self._accumulator.waiting.get(tp, ()):
                unwritten.forget_number()

    def _remove_in_flight(self, batch: ProduceBatch) -> None:
        self._sequences[TopicPartition(batch.topic, batch.partition)].in_flight.remove(batch)

    def _succeed(self, batch: ProduceBatch, base_offset: int, append_time_ms: int, now_ms: int) -> None:
        tp = TopicPartition(batch.topic, batch.partition)
        sequence = self._sequences[tp]
        sequence.recovering = False
        if self._outages:
            self._outages.recovered((WRITING, tp), f"{tp} can be written again", now_ms)
        sequence.accepted = sequence.accepted or batch.producer_id == sequence.identity.producer_id
        sequence.acknowledge(batch)
        if not batch.done:
            batch.succeed(base_offset, append_time_ms)
            self._finished(batch)

    def _retry(self, batch: ProduceBatch, error: KohortError, now_ms: int, *, at_once: bool = False) -> None:
        tp = TopicPartition(batch.topic, batch.partition)
        sequence = self._sequences[tp]
        sequence.recovering = True
        batch.last_error = error
        if isinstance(error, ApiError):
            self._outages.report_code((WRITING, tp), error.code, f"writing to {tp}", now_ms)
        if batch.done:  # the batch expired (delivery.timeout.ms) while in flight
            return
        batch.failures += 1
        if batch.failures > self._config.retries:
            self._fail(batch, error)
            return
        if not at_once:
            sequence.not_before_ms = now_ms + self._backoff.delay_ms(batch.failures)
        self.metrics.topics[batch.topic].retried.record(batch.count, now_ms)
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

    def _fail(self, batch: ProduceBatch, error: KohortError, refused: Mapping[int, KohortError] | None = None) -> None:
        if batch.base_sequence >= 0:
            self._restart_sequence(self._sequences[TopicPartition(batch.topic, batch.partition)])
        if not batch.done:
            self.metrics.topics[batch.topic].lost.record(batch.count or len(batch.values), self._polled_at_ms)
            batch.fail(error, refused)
            self._finished(batch)
            if self._transactions is not None:
                self._transactions.on_batch_failed(error)

    def _restart_sequence(self, sequence: PartitionSequence) -> None:
        if sequence.must_restart:
            return
        sequence.must_restart = True
        if self._numbering is not None:
            self._numbering.restart_sequence(sequence.identity)

    def on_producer_id_failed(self, error: KohortError) -> None:
        if not error.retriable:
            self._drop_waiting(error)
        for batch in self._accumulator.batches():
            batch.last_error = error

    def abort(self, error: KohortError) -> None:
        self._drop_waiting(error)
        for sequence in self._sequences.values():
            for batch in sequence.in_flight:
                self._fail(batch, error)

    def _drop_waiting(self, error: KohortError) -> None:
        for tp, queue in list(self._accumulator.waiting.items()):
            for batch in list(queue):
                self._accumulator.drop(tp, batch)
                self._fail(batch, error)

    def _finished(self, batch: ProduceBatch) -> None:
        self._accumulator.release(batch)
        self.completed.append(batch)

    def _expire(self, now_ms: int) -> None:
        if now_ms < self._next_expiry_ms:
            return
        for tp, queue in list(self._accumulator.waiting.items()):
            for batch in [b for b in queue if b.deadline_ms <= now_ms]:
                self._accumulator.drop(tp, batch)
                self._fail(batch, self._timeout_error(batch))
        for sequence in self._sequences.values():
            for batch in sequence.in_flight:
                if batch.deadline_ms <= now_ms and not batch.done:
                    self._fail(batch, self._timeout_error(batch))
        self._next_expiry_ms = min(self._deadlines(), default=now_ms + self._config.delivery_timeout_ms)

    def _deadlines(self) -> list[int]:
        waiting = [b.deadline_ms for b in self._accumulator.batches()]
        return waiting + [b.deadline_ms for x in self._sequences.values() for b in x.in_flight if not b.done]

    def _timeout_error(self, batch: ProduceBatch) -> ApiTimeout:
        tp = TopicPartition(batch.topic, batch.partition)
        waited = f"{tp}: not delivered within delivery.timeout.ms={self._config.delivery_timeout_ms}"
        if batch.last_error is not None:
            return ApiTimeout(f"{waited} in {batch.attempts} attempts; the last failed: {batch.last_error}")
        if self._metadata.leader(tp) is None:
            why = self._metadata.last_failure or self._metadata.error(tp.topic) or "the partition has no leader"
            return ApiTimeout(f"{waited}: {why}")
        return ApiTimeout(f"{waited}, after {batch.attempts} attempts")


def _errors_of_records(
    tp: TopicPartition, code: ErrorCode, result: wire.PartitionProduceResponse
) -> tuple[KohortError, dict[int, KohortError]]:
    """Return the error of a rejected batch, and the errors of records that the broker names (KIP-467)."""
    why = result.error_message or "the broker gives no reason"
    others = ApiError(code, f"{tp}: rejected with other records of its batch: {why}")
    named: dict[int, KohortError] = {
        record.batch_index: ApiError(code, f"{tp}: {record.batch_index_error_message or why}")
        for record in result.record_errors
    }
    return others, named

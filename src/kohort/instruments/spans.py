"""Spans and metrics of a client's operations, by OpenTelemetry's messaging conventions. Times are in nanoseconds."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from opentelemetry import context as contexts
from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, Status, StatusCode

from kohort.client.producer import to_headers
from kohort.client.requests.metadata import Metadata
from kohort.instruments import semconv
from kohort.instruments.semconv import Attributes
from kohort.model import Header, Record, TopicPartition
from kohort.version import VERSION

HEADER_MOST_BYTES: Final = 8192
"""Maximum size of a parsed header, in bytes: other producers are untrusted."""


def inject(headers: Any, context: Context) -> list[Header]:
    """Return headers with the trace context, replacing an existing one. Raises UsageError for invalid headers."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    kept = [header for header in (to_headers(headers) if headers else ()) if header[0] not in carrier]
    return [*kept, *((name, text.encode()) for name, text in carrier.items())]


def extract(record: Record) -> Context:
    """Return the trace context in a record's headers; empty if missing or malformed."""
    if not record.headers:
        return Context()
    fields = propagate.get_global_textmap().fields
    carrier = {
        name: value.decode(errors="replace")
        for name, value in record.headers
        if name in fields and value is not None and len(value) <= HEADER_MOST_BYTES
    }
    return propagate.extract(carrier, Context()) if carrier else Context()


def links(records: Iterable[Record], most: int) -> Sequence[trace.Link]:
    """Return links to the spans that sent the records, without duplicates, at most ``most``."""
    found: dict[tuple[int, int], trace.Link] = {}
    for record in records:
        if not record.headers:
            continue
        context = trace.get_current_span(extract(record)).get_span_context()
        if context.is_valid:
            found[context.trace_id, context.span_id] = trace.Link(context)
            if len(found) == most:
                break
    return list(found.values())


LINKS_MOST: Final = 128
KEY_MOST_BYTES: Final = 256
SECOND_NS: Final = 1_000_000_000


class OpenSpan:
    """A span that is not ended, with its metrics. Ending it twice has no effect."""

    __slots__ = ("_began_ns", "_duration", "_span", "_token", "attributes", "context")

    def __init__(self, span: trace.Span, attributes: Attributes, duration: metrics.Histogram, began_ns: int) -> None:
        self.attributes = attributes
        self._span: trace.Span | None = span
        self._duration = duration
        self._began_ns = began_ns
        self.context = trace.set_span_in_context(span)
        self._token: Any = None

    def enter(self) -> None:
        self.context = trace.set_span_in_context(trace.get_current_span(self.context))
        self._token = contexts.attach(self.context)

    def end(self, error: BaseException | None = None, later: Mapping[str, Any] | None = None) -> Attributes | None:
        """End the span; return the attributes of its metrics, None if it has ended already."""
        span, self._span = self._span, None
        if span is None:
            return None
        # the garbage collector may end the span in another task, where it is not the current span
        if self._token is not None and contexts.get_current() is self.context:
            contexts.detach(self._token)
        self._token = None
        now_ns = time.time_ns()
        found = self.attributes | dict(later or {})
        if error is not None:
            found[semconv.ERROR] = semconv.error_type(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attributes(found)
        span.end(now_ns)
        of_metrics = semconv.of_metrics(found)
        self._duration.record(max(now_ns - self._began_ns, 0) / SECOND_NS, of_metrics)
        return of_metrics


class ClientTelemetry:
    """Spans and metrics of a client. ``metadata`` has the addresses of leaders."""

    def __init__(
        self, client_id: str, group_id: str | None, metadata: Metadata, tracer_provider: Any, meter_provider: Any
    ) -> None:
        self._metadata = metadata
        self._always: Attributes = {semconv.SYSTEM: "kafka", semconv.CLIENT: client_id}
        if group_id is not None:
            self._always[semconv.GROUP] = group_id
        self._with_old_names = semconv.requests_old_names(os.environ)
        self._tracer = trace.get_tracer("kohort", VERSION, tracer_provider)
        meter = metrics.get_meter("kohort", VERSION, meter_provider)
        self._duration = meter.create_histogram(
            semconv.OPERATION_DURATION,
            "s",
            "Duration of a client operation.",
            explicit_bucket_boundaries_advisory=semconv.BUCKETS_S,
        )
        self._process_duration = meter.create_histogram(
            semconv.PROCESS_DURATION,
            "s",
            "Duration of processing received records.",
            explicit_bucket_boundaries_advisory=semconv.BUCKETS_S,
        )
        self._sent = meter.create_counter(semconv.SENT, "{message}", "Records that were sent.")
        self._consumed = meter.create_counter(semconv.CONSUMED, "{message}", "Records that were returned to the user.")

    def send(self, topic: str) -> OpenSpan:
        return self._begin("send", "send", topic, SpanKind.PRODUCER, self._duration)

    def sent(self, span: OpenSpan, count: int, error: BaseException | None, later: Mapping[str, Any]) -> None:
        """End the span of sending ``count`` records."""
        of_metrics = span.end(error, self._shown(span.attributes | dict(later)))
        if of_metrics is not None:
            self._sent.add(count, of_metrics)

    def place(self, topic: str, partition: int) -> Attributes:
        """Return the attributes of a partition: its number and its leader's address."""
        leader = self._metadata.leader(TopicPartition(topic, partition))
        node = None if leader is None else self._metadata.node(leader.node_id)
        found: Attributes = {semconv.PARTITION: str(partition)}
        return found if node is None else found | {semconv.ADDRESS: node.host, semconv.PORT: node.port}

    def polled(self, records: Sequence[Record], began_ns: int) -> None:
        self._received(records, len(records), began_ns)
        for topic, count in Counter(record.topic for record in records).items():
            self.consumed("poll", "receive", topic, count)

    def polled_rows(self, count: int, began_ns: int) -> None:
        """Record a poll of Arrow rows, without details of the records."""
        self._received((), count, began_ns)

    def consumed(self, operation: str, kind: str, topic: str, count: int) -> None:
        """Count records that were returned to the user."""
        found = {semconv.OPERATION: operation, semconv.OPERATION_TYPE: kind, semconv.DESTINATION: topic}
        self._consumed.add(count, semconv.of_metrics(self._always | found))

    def poll_failed(self, error: BaseException, began_ns: int) -> None:
        self._begin("poll", "receive", None, SpanKind.CLIENT, self._duration, began_ns=began_ns).end(error)

    def _received(self, records: Sequence[Record], count: int, began_ns: int) -> None:
        topic = semconv.common_value([record.topic for record in records])
        found = links(records, LINKS_MOST)
        span = self._begin("poll", "receive", topic, SpanKind.CLIENT, self._duration, links=found, began_ns=began_ns)
        later: Attributes = {semconv.COUNT: count}
        partition = semconv.common_value([record.partition for record in records])
        if topic is not None and partition is not None:
            later |= self.place(topic, partition)
        span.end(None, self._shown(span.attributes | later))

    def process(self, records: Sequence[Record]) -> OpenSpan:
        """Start a processing span: a child of the span that sent the record, or with links if there are several."""
        one = records[0] if len(records) == 1 else None
        topic = semconv.common_value([record.topic for record in records])
        parent = None if one is None else self._parent(one)
        found = links(records, LINKS_MOST)
        kind, duration = SpanKind.CONSUMER, self._process_duration
        span = self._begin("process", "process", topic, kind, duration, links=found, parent=parent)
        partition = semconv.common_value([record.partition for record in records])
        if topic is not None and partition is not None:
            span.attributes |= self.place(topic, partition)
        if one is None:
            span.attributes[semconv.COUNT] = len(records)
        else:
            span.attributes[semconv.OFFSET] = one.offset
            span.attributes |= key_of(one.key)
            if one.value is None:
                span.attributes[semconv.TOMBSTONE] = True
        span.attributes = self._shown(span.attributes)
        span.enter()
        return span

    def _parent(self, record: Record) -> contexts.Context | None:
        """Return the parent of a processing span: None for the user's current span, else the record's context."""
        if trace.get_current_span().get_span_context().is_valid:
            return None
        return extract(record) or None

    def _begin(
        self,
        operation: str,
        kind: str,
        topic: str | None,
        span_kind: SpanKind,
        duration: metrics.Histogram,
        *,
        parent: Context | None = None,
        links: Sequence[trace.Link] = (),
        began_ns: int = 0,
    ) -> OpenSpan:
        began_ns = began_ns or time.time_ns()
        attributes = self._always | {semconv.OPERATION: operation, semconv.OPERATION_TYPE: kind}
        if topic is not None:
            attributes[semconv.DESTINATION] = topic
        name = operation if topic is None else f"{operation} {topic}"
        span = self._tracer.start_span(name, parent, span_kind, attributes, links, began_ns)
        return OpenSpan(span, attributes, duration, began_ns)

    def _shown(self, attributes: Attributes) -> Attributes:
        return semconv.with_old_names(attributes) if self._with_old_names else attributes


def key_of(key: bytes | str | None) -> Attributes:
    """Return the span attribute of a record's key, if the key is a short text."""
    if key is None or len(key) > KEY_MOST_BYTES:
        return {}
    try:
        return {semconv.KEY: key if isinstance(key, str) else key.decode()}
    except UnicodeDecodeError:
        return {}

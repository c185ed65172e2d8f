from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import kohort
from kohort import MissingExtra, UsageError
from support.waiting import eventually

PARTITIONS = 2


class TelemetryRecorder:
    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self._reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self._reader])

    @property
    def providers(self) -> dict[str, object]:
        return {"tracer_provider": self.tracer_provider, "meter_provider": self.meter_provider}

    def spans(self, operation: str = "") -> Sequence[ReadableSpan]:
        found = self._kept.get_finished_spans()
        return [s for s in found if s.name.split()[0] == operation or not operation]

    def metric(self, name: str) -> list[tuple[dict[str, object], float]]:
        data = self._reader.get_metrics_data()
        points = [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        return [(dict(p.attributes), p.value if hasattr(p, "value") else p.count) for p in points]


@pytest.fixture
def recorder() -> TelemetryRecorder:
    return TelemetryRecorder()


def test_sent_record_has_a_span_and_carries_its_context(bootstrap: str, topic: str, recorder: TelemetryRecorder):
    host, port = bootstrap.split(":")
    with kohort.Producer(bootstrap_servers=bootstrap, client_id="importer") as producer:
        kohort.instrument(producer, **recorder.providers)
        with recorder.tracer_provider.get_tracer("app").start_as_current_span("request") as parent:
            headers = {"from": "FRA", "traceparent": "of somebody else"}
            place = producer.send(topic, b"v", "LH400", partition=1, headers=headers).result()

    (span,) = recorder.spans("send")
    assert (span.name, span.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert span.parent == parent.get_span_context()
    assert dict(span.attributes) == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.client.id": "importer",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "1",
        "messaging.kafka.offset": place.offset,
        "server.address": host,
        "server.port": int(port),
    }
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([kohort.TopicPartition(topic, 1)])
        (record,) = consumer.poll(10_000)
    context = span.get_span_context()
    assert dict(record.headers)["traceparent"].startswith(f"00-{context.trace_id:032x}-{context.span_id:016x}".encode())
    assert [name for name, _ in record.headers] == ["from", "traceparent"]
    [(attributes, count)] = recorder.metric("messaging.client.sent.messages")
    assert (attributes["messaging.destination.name"], count) == (topic, 1)
    assert "messaging.kafka.offset" not in attributes
    assert [count for _, count in recorder.metric("messaging.client.operation.duration")] == [1]


def test_failed_send_records_the_error(bootstrap: str, topic: str, recorder: TelemetryRecorder):
    with kohort.Producer(bootstrap_servers=bootstrap, max_request_size=500) as producer:
        kohort.instrument(producer, **recorder.providers)
        with pytest.raises(kohort.ApiError):
            producer.send(topic, bytes(1000))
        with pytest.raises(UsageError):
            producer.send(topic, b"v", headers=5)  # type: ignore[arg-type]

    first, second = recorder.spans("send")
    assert first.attributes["error.type"] == "MESSAGE_TOO_LARGE"
    assert second.attributes["error.type"] == "UsageError"
    assert not first.status.is_ok


def test_batch_span_is_parent_of_record_spans(bootstrap: str, topic: str, recorder: TelemetryRecorder):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        kohort.instrument(producer, **recorder.providers)
        for delivery in producer.send_batch(topic, 0, [b"a", (b"k", b"b"), (b"k", b"c", {"h": b"x"})]):
            delivery.result(60_000)
        eventually(lambda: recorder.spans("send"))
        assert producer.send_batch(topic, 0, []) == []

    whole, empty = recorder.spans("send")
    assert whole.attributes["messaging.batch.message_count"] == 3
    assert "error.type" not in empty.attributes
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=topic) as consumer:
        kohort.instrument(consumer, **recorder.providers)
        consumer.subscribe(topic)
        records = []
        while len(records) < 3:
            records += consumer.poll(1000)
    assert {dict(r.headers)["traceparent"] for r in records} == {dict(records[0].headers)["traceparent"]}
    polls = recorder.spans("poll")
    assert sum(s.attributes["messaging.batch.message_count"] for s in polls) == 3
    assert [link.context.span_id for link in polls[0].links] == [whole.get_span_context().span_id]
    assert polls[0].attributes["messaging.consumer.group.name"] == topic
    assert (polls[0].kind, polls[0].attributes["messaging.operation.type"]) == (SpanKind.CLIENT, "receive")


def fill(bootstrap: str, topic: str, recorder: TelemetryRecorder, count: int) -> None:
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        kohort.instrument(producer, **recorder.providers)
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=0).result()


def test_iteration_has_a_span_for_each_record(bootstrap: str, topic: str, recorder: TelemetryRecorder):
    fill(bootstrap, topic, recorder, 3)
    records = []
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        kohort.instrument(consumer, **recorder.providers)
        consumer.assign([kohort.TopicPartition(topic, 0)])
        for record in consumer:
            records.append((record.offset, trace.get_current_span().get_span_context().span_id))
            if len(records) == 3:
                break
        assert not trace.get_current_span().get_span_context().is_valid, "the loop was left"

    processed = recorder.spans("process")
    assert [(s.attributes["messaging.kafka.offset"], s.get_span_context().span_id) for s in processed] == records
    sent = [s.get_span_context() for s in recorder.spans("send")]
    assert [s.parent.span_id for s in processed] == [s.span_id for s in sent], "a trace goes on where it is read"
    assert sum(count for _, count in recorder.metric("messaging.client.consumed.messages")) == 3
    assert sum(count for _, count in recorder.metric("messaging.process.duration")) == 3


@pytest.mark.parametrize("as_lists", [False, True])
def test_handler_has_a_span_for_each_record(bootstrap: str, topic: str, recorder: TelemetryRecorder, as_lists: bool):
    fill(bootstrap, topic, recorder, 3)
    current = []

    class Handler(kohort.GroupHandler):
        def consume_claim(self, session: kohort.GroupSession, claim: kohort.Claim) -> None:
            assert isinstance(claim, kohort.Claim)
            items: Any = claim.batches() if as_lists else claim
            for item in items:
                current.append(trace.get_current_span().get_span_context().span_id)
                last = item[-1] if as_lists else item
                session.mark_message(last)
                if last.offset == 2:
                    raise ValueError("bad record")

    with kohort.ConsumerGroup(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as group:
        kohort.instrument(group, **recorder.providers)
        with pytest.raises(kohort.HandlerFailed):
            group.run(topic, Handler())

    processed = recorder.spans("process")
    assert [s.get_span_context().span_id for s in processed] == current
    assert processed[-1].attributes["error.type"] == "ValueError"
    assert all("error.type" not in s.attributes for s in processed[:-1])
    assert all(s.name == f"process {topic}" and s.kind == SpanKind.CONSUMER for s in processed)
    assert processed[0].attributes["messaging.consumer.group.name"] == topic
    if as_lists:
        assert sum(len(s.links) for s in processed) == 3
        assert sum(s.attributes.get("messaging.batch.message_count", 1) for s in processed) == 3


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_each_attempt_of_handle_has_a_process_span(bootstrap: str, topic: str, recorder: TelemetryRecorder, face: str):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"0", partition=0)
        producer.send(topic, b"1", partition=0)
    options = {"bootstrap_servers": bootstrap, "group_id": topic, "auto_offset_reset": "earliest"}
    handled: list[bytes | None] = []
    stop: list[Any] = []

    def handle(record: kohort.Record) -> None:
        handled.append(record.value)
        if len(handled) == 1:
            raise ValueError("the first attempt")
        if record.value == b"1":
            stop[0]()

    async def story() -> None:
        async with kohort.AsyncConsumerGroup(**options) as group:
            stop.append(group.stop)
            kohort.instrument(group, **recorder.providers)
            await group.handle(topic, handle, delay_ms=1)

    if face == "tasks":
        asyncio.run(asyncio.wait_for(story(), 100))
    else:
        with kohort.ConsumerGroup(**options) as group:
            stop.append(group.stop)
            kohort.instrument(group, **recorder.providers)
            group.handle(topic, handle, delay_ms=1)

    processed = recorder.spans("process")
    assert handled == [b"0", b"0", b"1"]
    assert [s.attributes.get("error.type") for s in processed] == ["ValueError", None, None]


def test_each_asyncio_task_has_its_own_context(bootstrap: str, topic: str, recorder: TelemetryRecorder):
    traces = {}

    async def story() -> None:
        async with kohort.AsyncProducer(bootstrap_servers=bootstrap) as producer:
            kohort.instrument(producer, **recorder.providers)
            for n in range(4):
                await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
            assert await producer.send_batch(topic, 0, []) == []
        group = kohort.AsyncConsumerGroup(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest")

        class Handler(kohort.AsyncGroupHandler):
            async def consume_claim(self, session: kohort.AsyncGroupSession, claim: kohort.AsyncClaim) -> None:
                async for record in claim:
                    before = trace.get_current_span()
                    await asyncio.sleep(0)
                    assert trace.get_current_span() is before
                    traces[record.value] = before.get_span_context().span_id
                    if len(traces) == 4:
                        group.stop()

        async with group:
            kohort.instrument(group, **recorder.providers)
            await group.run(topic, Handler())
        async with kohort.AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            instrumentation = kohort.instrument(consumer, **recorder.providers)
            consumer.assign([kohort.TopicPartition(topic, 0)])
            record = await consumer.getone()
            with instrumentation.process(record):
                await asyncio.sleep(0)
            async for _ in consumer:
                break

    asyncio.run(asyncio.wait_for(story(), 100))
    assert len(set(traces.values())) == 4
    assert set(traces.values()) <= {s.get_span_context().span_id for s in recorder.spans("process")}
    assert recorder.spans("poll")


def test_old_attribute_names_are_added_on_request(
    bootstrap: str, topic: str, recorder: TelemetryRecorder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "http,messaging/dup")
    fill(bootstrap, topic, recorder, 1)

    (span,) = recorder.spans("send")
    assert span.attributes["messaging.operation"] == "publish"
    assert span.attributes["messaging.kafka.message.offset"] == span.attributes["messaging.kafka.offset"] == 0
    assert span.attributes["messaging.kafka.destination.partition"] == 0
    assert span.attributes["messaging.client_id"] == "kohort"


@pytest.mark.parametrize("rubbish", [b"", b"\xff\xfe", b"00-0-0-00", bytes(100_000), None])
def test_malformed_trace_headers_are_ignored(bootstrap: str, topic: str, recorder: TelemetryRecorder, rubbish):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, b"v", partition=0, headers=[("traceparent", rubbish)]).result()
    with kohort.Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        instrumentation = kohort.instrument(consumer, **recorder.providers)
        consumer.assign([kohort.TopicPartition(topic, 0)])
        records = consumer.poll(10_000)
        with instrumentation.process(records):
            pass
        with pytest.raises(UsageError, match="expected a record"), instrumentation.process([]):
            pass

    (span,) = recorder.spans("process")
    assert span.parent is None
    assert not span.links
    assert recorder.spans("poll")[0].attributes["messaging.batch.message_count"] == 1


def test_stopped_instrumentation_restores_methods_and_holds_no_reference(
    bootstrap: str, topic: str, recorder: TelemetryRecorder
):
    producer = kohort.Producer(bootstrap_servers=bootstrap)
    instrumentation = kohort.instrument(producer, **recorder.providers)
    assert kohort.instrument(producer) is instrumentation
    producer.send(topic, b"v").result()
    instrumentation.stop()
    assert "send" not in vars(producer)
    producer.send(topic, b"v").result()
    producer.close()
    eventually(lambda: len(recorder.spans("send")) == 1)

    consumer = kohort.Consumer(bootstrap_servers=bootstrap)
    kohort.instrument(consumer, **recorder.providers)
    reference = weakref.ref(consumer)
    consumer.close()
    del consumer
    gc.collect()
    assert reference() is None


def test_invalid_client_and_missing_package_are_reported(bootstrap: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(UsageError, match="expected a consumer, group or producer"):
        kohort.instrument("localhost:9092")  # type: ignore[arg-type]
    for name in [name for name in sys.modules if name.startswith(("opentelemetry", "kohort.instruments."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    from kohort.instruments.instrument import instrument

    with (
        kohort.Producer(bootstrap_servers=bootstrap) as producer,
        pytest.raises(MissingExtra, match=r"kohort\[otel\]"),
    ):
        instrument(producer)


def test_opentelemetry_is_not_imported_without_instrument(bootstrap: str):
    code = (
        "import sys, kohort\n"
        f"with kohort.Producer(bootstrap_servers={bootstrap!r}) as p: p.send('t', b'v').result(); p.metrics()\n"
        f"with kohort.Consumer(bootstrap_servers={bootstrap!r}) as c: c.metrics()\n"
        "print([m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus_client'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"

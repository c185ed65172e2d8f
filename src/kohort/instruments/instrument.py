"""``kohort.instrument(client)``: trace and measure a client with OpenTelemetry.

Wrappers replace the client's methods on this one object, so other clients have no overhead. OpenTelemetry is imported
by the first call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kohort.aio.consuming.async_consumer import AsyncConsumer
from kohort.aio.consuming.consumer import Consumer
from kohort.aio.group.async_consumer_group import AsyncConsumerGroup
from kohort.aio.group.consumer_group import ConsumerGroup
from kohort.aio.producing.async_producer import AsyncProducer
from kohort.aio.producing.producer import Producer
from kohort.errors import UsageError
from kohort.extras import needs
from kohort.model import Record

if TYPE_CHECKING:
    from kohort.instruments.spans import ClientTelemetry

InstrumentedClient = Consumer | AsyncConsumer | ConsumerGroup | AsyncConsumerGroup | Producer | AsyncProducer
_instrumented: Final[weakref.WeakKeyDictionary[Any, Instrumentation]] = weakref.WeakKeyDictionary()


class Instrumentation:
    """Spans and metrics of a client, until ``stop``. Returned by ``instrument``."""

    def __init__(self, client: InstrumentedClient, telemetry: Any) -> None:
        self._client = weakref.ref(client)
        self._telemetry: ClientTelemetry = telemetry
        self._places: list[tuple[weakref.ref[Any], list[str]]] = []

    def replace(self, client: object, calls: dict[str, Callable[..., Any]]) -> None:
        """Replace methods of an object, by name, until ``stop``. Internal."""
        for name, call in calls.items():
            setattr(client, name, call)
        self._places.append((weakref.ref(client), list(calls)))

    @contextmanager
    def process(self, records: Record | Sequence[Record]) -> Iterator[None]:
        """Run a block in a ``process`` span: ``with instrumentation.process(record): ...``, for records of ``poll``.

        The span's parent is the current span, or else the span that sent the record; for several records it has links
        to the spans that sent them. The span records an error of the block. Raises UsageError without records.
        """
        given = [records] if isinstance(records, Record) else list(records)
        if not given or not all(isinstance(record, Record) for record in given):
            raise UsageError(f"process: expected a record or records, not {records!r:.100}")
        span = self._telemetry.process(given)
        try:
            yield
        except BaseException as error:
            span.end(error)
            raise
        span.end()

    def stop(self) -> None:
        """Restore the client's own methods. Open spans still end normally."""
        for place, names in self._places:
            client = place()
            for name in names:
                vars(client).pop(name, None)
        self._places = []
        client = self._client()
        if client is not None:
            _instrumented.pop(client, None)


def instrument(
    client: InstrumentedClient, *, tracer_provider: Any = None, meter_provider: Any = None
) -> Instrumentation:
    """Trace and measure what ``client`` sends, polls and processes, by OpenTelemetry's messaging conventions.

    ``tracer_provider`` and ``meter_provider`` default to the application's. Sent records carry the trace context in
    their headers. A second call returns the first instrumentation of ``client``. Raises UsageError for other objects
    than consumers, groups and producers. Needs ``kohort[otel]``, else raises MissingExtra.

    Guide: docs/guides/tracing.md.
    """
    if not isinstance(client, InstrumentedClient):
        raise UsageError(f"instrument: expected a consumer, group or producer, not {client!r}")
    with needs("otel", "instrument"):
        from kohort.instruments import wrapped_calls
        from kohort.instruments.spans import ClientTelemetry
    existing = _instrumented.get(client)
    if existing is not None:
        return existing
    machine = client._machine  # private, but of this project
    group_id = getattr(client.config, "group_id", None)
    telemetry = ClientTelemetry(client.config.client_id, group_id, machine.metadata, tracer_provider, meter_provider)
    made = Instrumentation(client, telemetry)
    plain = wrapped_calls.OriginalCalls(client)
    match client:
        case Producer():
            made.replace(client, wrapped_calls.producer_calls(plain, telemetry))
        case AsyncProducer():
            made.replace(client, wrapped_calls.async_producer_calls(plain, telemetry))
        case Consumer():
            made.replace(client, wrapped_calls.consumer_calls(plain, telemetry))
            made.replace(client._reader, wrapped_calls.reader_calls(client._reader, telemetry))
        case AsyncConsumer():
            made.replace(client, wrapped_calls.async_consumer_calls(plain, telemetry))
            made.replace(client._reader, wrapped_calls.reader_calls(client._reader, telemetry))
        case ConsumerGroup():
            made.replace(client, wrapped_calls.group_calls(plain, telemetry, wrapped_calls.ProcessedHandler))
        case AsyncConsumerGroup():
            made.replace(client, wrapped_calls.group_calls(plain, telemetry, wrapped_calls.AsyncProcessedHandler))
    _instrumented[client] = made
    return made

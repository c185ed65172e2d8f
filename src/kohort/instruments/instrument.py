"""``kohort.instrument(client)``: one call after which a client is traced and measured by OpenTelemetry.

Calls are put in the place of the client's own, on this one object: whoever is not instrumented runs the methods of the
class, and nothing in them asks whether somebody looks. OpenTelemetry is imported when this is called first.
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
    from kohort.instruments.spans import ClientTelling

InstrumentedClient = Consumer | AsyncConsumer | ConsumerGroup | AsyncConsumerGroup | Producer | AsyncProducer
_instrumented: Final[weakref.WeakKeyDictionary[Any, Instrumentation]] = weakref.WeakKeyDictionary()


class Instrumentation:
    """What ``instrument`` returns: a client's spans and metrics, until ``stop``."""

    def __init__(self, client: InstrumentedClient, telling: Any) -> None:
        self._client = weakref.ref(client)
        self._telling: ClientTelling = telling
        self._places: list[tuple[weakref.ref[Any], list[str]]] = []

    def replace(self, client: object, calls: dict[str, Callable[..., Any]]) -> None:
        """Put ``calls`` in the place of the methods of these names. For who makes this."""
        for name, call in calls.items():
            setattr(client, name, call)
        self._places.append((weakref.ref(client), list(calls)))

    @contextmanager
    def process(self, records: Record | Sequence[Record]) -> Iterator[None]:
        """Be in a ``process`` span: ``with instrumentation.process(record): ...``, where records come from ``poll``.

        The span is the child of the one that the record was sent in, if there is no current one; of several records it
        has links to those. An error that is raised within is the span's, too. Raises UsageError for no records.
        """
        given = [records] if isinstance(records, Record) else list(records)
        if not given or not all(isinstance(record, Record) for record in given):
            raise UsageError(f"process: expected a record, or several, not {records!r:.100}")
        span = self._telling.process(given)
        try:
            yield
        except BaseException as error:
            span.end(error)
            raise
        span.end()

    def stop(self) -> None:
        """Let the client's own methods be called again. What was begun is told to its end."""
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
    """Have OpenTelemetry told of what ``client`` sends, polls and processes, by the conventions for messaging.

    ``tracer_provider`` and ``meter_provider`` are those of OpenTelemetry that the application has set, unless others
    are given. Records that are sent carry the context of the trace in their headers. A client that is instrumented
    already is returned as it is. Raises UsageError for what is no consumer, group or producer. Needs ``kohort[otel]``,
    or raises MissingExtra.

    Its guide is docs/guides/tracing.md.
    """
    if not isinstance(client, InstrumentedClient):
        raise UsageError(f"instrument: {client!r} is no consumer, group or producer")
    with needs("otel", "instrument"):
        from kohort.instruments import wrapped_calls
        from kohort.instruments.spans import ClientTelling
    already = _instrumented.get(client)
    if already is not None:
        return already
    machine = client._machine  # of the same project
    group_id = getattr(client.config, "group_id", None)
    telling = ClientTelling(client.config.client_id, group_id, machine.metadata, tracer_provider, meter_provider)
    made = Instrumentation(client, telling)
    plain = wrapped_calls.PlainCalls(client)
    match client:
        case Producer():
            made.replace(client, wrapped_calls.producer_calls(plain, telling))
        case AsyncProducer():
            made.replace(client, wrapped_calls.async_producer_calls(plain, telling))
        case Consumer():
            made.replace(client, wrapped_calls.consumer_calls(plain, telling))
            made.replace(client._reader, wrapped_calls.reader_calls(client._reader, telling))
        case AsyncConsumer():
            made.replace(client, wrapped_calls.async_consumer_calls(plain, telling))
            made.replace(client._reader, wrapped_calls.reader_calls(client._reader, telling))
        case ConsumerGroup():
            made.replace(client, wrapped_calls.group_calls(plain, telling))
        case AsyncConsumerGroup():
            made.replace(client, wrapped_calls.async_group_calls(plain, telling))
    _instrumented[client] = made
    return made

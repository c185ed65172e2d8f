"""The context of a trace in the headers of records: put in by who sends, found by who reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from opentelemetry import propagate, trace
from opentelemetry.context import Context

from kohort.client.producer import to_headers
from kohort.model import Header, Record

LONGEST: Final = 8192
"""Bytes of a header that is looked at: a stranger may have written it."""


def inject(headers: Any, context: Context) -> list[Header]:
    """Return headers with ``context``, in place of another one that they have. Raises UsageError for no headers."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    kept = [header for header in (to_headers(headers) if headers else ()) if header[0] not in carrier]
    return [*kept, *((name, text.encode()) for name, text in carrier.items())]


def extract(record: Record) -> Context:
    """Return the context that a record brings; the empty one where it brings none, or what makes no sense."""
    if not record.headers:
        return Context()
    fields = propagate.get_global_textmap().fields
    carrier = {
        name: value.decode(errors="replace")
        for name, value in record.headers
        if name in fields and value is not None and len(value) <= LONGEST
    }
    return propagate.extract(carrier, Context()) if carrier else Context()


def links(records: Iterable[Record], most: int) -> Sequence[trace.Link]:
    """Return links to the spans that records were sent in, each once, up to ``most``."""
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

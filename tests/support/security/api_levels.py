"""Requests at the lowest and highest API version that can encode them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kohort.broker.dispatch import SERVED
from kohort.wire.schema import NEW_LIST, FieldSpec, Message
from support.security.api_requests import ApiCall

Bounds = Mapping[int, tuple[int, int]]
"""The lowest and the highest version of each API, by its key."""
OURS: Final[Bounds] = {key: (api.low, api.high) for key, api in SERVED.items()}
NAMES: Final = ("name", "topic", "topic_id", "topic_names")
"""Topic fields that Kafka's clients may drop in versions without them; here the request would be empty."""


def is_encodable(message: Message, version: int) -> bool:
    """Return True if a version can encode all mandatory fields of a request (Kafka's rule)."""
    return all(_is_value_encodable(spec, getattr(message, spec.name), version) for spec in message.FIELDS)


def _is_value_encodable(spec: FieldSpec, value: Any, version: int) -> bool:
    if version not in spec.versions:
        is_dropped = spec.ignorable and spec.name not in NAMES
        return is_dropped or value == ([] if spec.default is NEW_LIST else spec.default)
    if value is None:
        return version in spec.nullable
    inner = value if isinstance(value, list) else [value]
    return all(is_encodable(item, version) for item in inner if isinstance(item, Message))


def at_both_ends(calls: Iterable[ApiCall], bounds: Bounds = OURS) -> Iterator[ApiCall]:
    """Yield each call at the lowest and highest version of its API, or at its own if neither can encode it."""
    for call in calls:
        key = type(call.message).API_KEY
        assert key is not None
        versions = sorted({v for v in bounds[key] if is_encodable(call.message, v)} or {call.version})
        for version in versions:
            at = replace(call, name=f"{call.name}, version {version}", version=version)
            yield at if version >= call.error_since else replace(at, refused=(), is_shorter=True)


def uncalled_bounds(calls: Iterable[ApiCall], bounds: Bounds = OURS) -> set[tuple[str, int]]:
    """Return the lowest and highest versions without a call."""
    called = {(type(call.message).API_KEY, call.version) for call in calls}
    return {(SERVED[key].name, v) for key, ends in bounds.items() for v in ends if (key, v) not in called}

"""The transactions of a producer, as both of its faces have them."""

from __future__ import annotations

from collections.abc import Mapping

from kohort.client.requests.engine import Engine
from kohort.client.user_input import offsets_to_commit
from kohort.errors import ApiTimeout
from kohort.model import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata | int]


def checked_offsets(offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets as they are committed; a bare number is an offset without a word with it. Raises UsageError."""
    given = {p: OffsetAndMetadata(at) if isinstance(at, int) else at for p, at in offsets.items()}
    return offsets_to_commit("send_offsets_to_transaction", given)


def not_ended(what: str, timeout_ms: int, engine: Engine) -> ApiTimeout:
    """The coordinator has not answered in time."""
    why = engine.told_of_addresses(timeout_ms)
    text = f"{what} was not answered within {timeout_ms} ms; it is still tried: call it again"
    return ApiTimeout(f"{text}; failed so far: {why}" if why else text)

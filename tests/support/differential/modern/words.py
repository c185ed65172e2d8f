"""Responses and records as comparable plain data: topics by name, hash-ordered lists sorted."""

from __future__ import annotations

from typing import Any

from kohort.errors import ProtocolError
from kohort.wire.consumer_protocol import parse_assignment
from kohort.wire.messages.consumer_group_records import CurrentTopicPartitions
from kohort.wire.schema import Message

OF_EVERYONE = {"ListGroupsResponse"}
ASSIGNMENTS = {"assignment", "member_assignment"}


class Words:
    """Names of topic ids, without the mark of the run."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.topics: dict[bytes, str] = {bytes(16): "none", b"\x01" * 16: "a stranger's"}

    def plain(self, value: Any) -> Any:
        """Return ``value`` as dicts, lists and strings."""
        if isinstance(value, CurrentTopicPartitions):
            epochs: list[Any] = list(value.assignment_epochs or ()) or [None] * len(value.partitions)
            since = dict(sorted(zip(value.partitions, epochs, strict=True)))
            return {"topic_id": self.plain(value.topic_id), "partitions": since}
        if isinstance(value, Message):
            return {f.name: self._field(value, f.name) for f in value.FIELDS}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = type(value).__name__
            return {"record": kind} | {name: self.plain(getattr(value, name)) for name in value._fields}
        if isinstance(value, list):
            items = [self.plain(v) for v in value]
            return sorted(items, key=repr) if all(isinstance(v, dict | int | str) for v in items) else items
        if isinstance(value, str):
            return value.replace(self.mark, "*")
        if isinstance(value, bytes | bytearray | memoryview):
            raw = bytes(value)
            return self.topics.get(raw, raw.replace(self.mark.encode(), b"*"))
        return value

    def _field(self, message: Message, name: str) -> Any:
        value = getattr(message, name)
        if (
            name in ASSIGNMENTS
            and isinstance(value, bytes | memoryview)
            and (share := _share(bytes(value))) is not None
        ):
            return self.plain(share)
        if type(message).__name__ in OF_EVERYONE and name == "groups":
            value = [v for v in value if self.mark in v.group_id]
        return self.plain(value)


def _share(blob: bytes) -> list[Any] | None:
    """Decode an assignment without its order; None if empty or unreadable."""
    try:
        read = parse_assignment(blob)
    except ProtocolError:
        return None
    return [blob[:2].hex(), str(read.user_data), *(f"{topic}:{number}" for topic, number in sorted(read.partitions))]

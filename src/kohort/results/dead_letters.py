"""Results of ``kohort dead-letters``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.groups import PeekedHeader
from kohort.results.result import Result


class DeadLetterCount(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters of a topic with one origin, group and reason. Times are those of the records, null if unknown."""

    topic: str
    origin: str | None
    group: str | None
    reason: str
    count: int
    oldest_ms: int | None
    newest_ms: int | None


class DeadLettersListed(Result, frozen=True, kw_only=True, tag="kohort/v1/dead-letters"):
    """Dead letters by topic, origin, group and reason. ``unread``: number of offsets beyond the limit of the search."""

    LINES: ClassVar[str] = "dead_letters"

    dead_letters: list[DeadLetterCount]
    unread: int


class DeadLetterShown(Result, frozen=True, kw_only=True, tag="kohort/v1/dead-letter"):
    """A dead letter. Bytes that are not UTF-8 are objects ``{"base64": ...}``; unknown facts are null."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    origin: str | None
    group: str | None
    attempts: int | None
    stage: str | None
    reason: str | None
    message: str | None
    stack: str | None
    key: str | dict[str, str] | None
    value: str | dict[str, str] | None
    headers: list[PeekedHeader]


class ReplayedCount(msgspec.Struct, frozen=True, kw_only=True):
    """Replayed dead letters with one reason and origin topic."""

    origin: str
    reason: str
    count: int


class NextOffset(msgspec.Struct, frozen=True, kw_only=True):
    """First offset of a partition that was not replayed."""

    partition: int
    offset: int


class DeadLettersReplayed(Result, frozen=True, kw_only=True, tag="kohort/v1/dead-letters.replay"):
    """Replayed dead letters of a topic; with ``dry_run`` none was sent.

    ``group``: group with the committed next offsets; null if the offsets were not committed. ``others``: skipped
    records of other origins or without one. ``tombstones``: skipped records without a value.
    """

    LINES: ClassVar[str] = "replayed"
    ON_LINES: ClassVar[tuple[str, ...]] = ("topic", "dry_run")

    topic: str
    dry_run: bool
    replayed: list[ReplayedCount]
    others: int
    tombstones: int
    group: str | None
    next: list[NextOffset]

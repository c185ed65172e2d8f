"""Output of ``kohort serve`` and ``kohort explain``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class BrokerReady(Result, frozen=True, kw_only=True, tag="kohort/v1/serve"):
    """A broker that takes connections: one line, as soon as it does."""

    bootstrap: str
    listeners: dict[str, str]
    """Addresses by the names of listeners."""
    cluster_id: str
    data: str | None
    """The folder; null in memory."""
    as_version: str
    metrics: str | None
    """Where /metrics is."""
    console: str | None = None
    """Where the console is."""


class LookAlike(msgspec.Struct, frozen=True, kw_only=True):
    """Another cause that looks the same from afar, and what tells it apart."""

    cause: str
    difference: str


class CauseExplained(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of rebalances, an event or a pattern; ``advice`` is null where nothing is to be done, ``kafka_log`` where
    Apache Kafka's broker writes nothing of its own."""

    code: str
    sentence: str
    proof: str
    look_alikes: list[LookAlike]
    advice: str | None
    kafka_log: str | None
    kind: str


class ErrorExplained(msgspec.Struct, frozen=True, kw_only=True):
    """An error code of Kafka's; ``causes`` are those of rebalances that it comes with."""

    name: str
    code: int
    retriable: bool
    meaning: str
    advice: str
    causes: list[str]


class CausesListed(Result, frozen=True, kw_only=True, tag="kohort/v1/explain.list"):
    """All causes."""

    LINES: ClassVar[str] = "causes"

    causes: list[CauseExplained]


class Explained(Result, frozen=True, kw_only=True, tag="kohort/v1/explain"):
    """What a word means: a cause, or an error; the other is null."""

    SEVERAL: ClassVar[type[Result] | None] = CausesListed

    cause: CauseExplained | None = None
    error: ErrorExplained | None = None

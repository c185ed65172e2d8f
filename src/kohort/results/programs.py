"""Results of ``kohort serve`` and ``kohort explain``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class BrokerReady(Result, frozen=True, kw_only=True, tag="kohort/v1/serve"):
    bootstrap: str
    listeners: dict[str, str]
    cluster_id: str
    data: str | None
    """Data folder of the broker. Null if the broker keeps its data in memory."""
    as_version: str
    metrics: str | None
    console: str | None = None


class LookAlike(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of rebalances that looks similar, and the difference between both causes."""

    cause: str
    difference: str


class CauseExplained(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a cause, an event or a pattern. ``kafka_log``: the matching log line of Apache Kafka."""

    code: str
    sentence: str
    proof: str
    look_alikes: list[LookAlike]
    advice: str | None
    kafka_log: str | None
    kind: str


class ErrorExplained(msgspec.Struct, frozen=True, kw_only=True):
    """Explanation of a Kafka error code. ``causes``: causes of rebalances in which the error occurs."""

    name: str
    code: int
    retriable: bool
    meaning: str
    advice: str
    causes: list[str]


class CausesListed(Result, frozen=True, kw_only=True, tag="kohort/v1/explain.list"):
    LINES: ClassVar[str] = "causes"

    causes: list[CauseExplained]


class Explained(Result, frozen=True, kw_only=True, tag="kohort/v1/explain"):
    """Explanation of a cause or of an error code. The field of the other kind is null."""

    SEVERAL: ClassVar[type[Result] | None] = CausesListed

    cause: CauseExplained | None = None
    error: ErrorExplained | None = None

"""Output of ``kohort check-history`` and ``kohort sim run``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class EvidenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """Line of a history (long lines truncated) and its place FILE:LINE."""

    place: str
    line: str


class AnomalyShown(msgspec.Struct, frozen=True, kw_only=True):
    """Anomaly of a history; ``meaning`` describes the check."""

    check: str
    sentence: str
    meaning: str
    evidence: list[EvidenceLine]


class HistoryChecked(Result, frozen=True, kw_only=True, tag="kohort/v1/check-history"):
    """Result of ``kohort check-history``: ``counts`` by check, and the first ``anomalies`` of each check."""

    LINES: ClassVar[str] = "anomalies"

    operations: int
    clients: int
    values: int
    transactions: int
    torn: int
    counts: dict[str, int]
    anomalies: list[AnomalyShown]


class FailedSeed(msgspec.Struct, frozen=True, kw_only=True):
    """Failed seed, its failure and the command that replays it."""

    seed: int
    failure: str
    replay: str


class SeedsRun(Result, frozen=True, kw_only=True, tag="kohort/v1/sim.run"):
    """Result of ``kohort sim run``."""

    LINES: ClassVar[str] = "failures"

    seeds: int
    failed: int
    events: int
    simulated_s: int
    failures: list[FailedSeed]

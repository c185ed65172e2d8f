"""Output of ``kohort check-history`` and ``kohort sim run``."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class EvidenceLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a history, as it stands there (a long one cut), and its place: FILE:LINE."""

    place: str
    line: str


class AnomalyShown(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a history; ``meaning`` is what any alarm of the check means."""

    check: str
    sentence: str
    meaning: str
    evidence: list[EvidenceLine]


class HistoryChecked(Result, frozen=True, kw_only=True, tag="kohort/v1/check-history"):
    """A history that was checked; ``counts`` has every check that alarmed, ``anomalies`` the first few of each."""

    LINES: ClassVar[str] = "anomalies"

    operations: int
    clients: int
    values: int
    transactions: int
    torn: int
    counts: dict[str, int]
    anomalies: list[AnomalyShown]


class FailedSeed(msgspec.Struct, frozen=True, kw_only=True):
    """A seed whose run broke a check, what broke, and the command that plays it again."""

    seed: int
    failure: str
    replay: str


class SeedsRun(Result, frozen=True, kw_only=True, tag="kohort/v1/sim.run"):
    """Simulated runs, of which none should have failed."""

    LINES: ClassVar[str] = "failures"

    seeds: int
    failed: int
    events: int
    simulated_s: int
    failures: list[FailedSeed]

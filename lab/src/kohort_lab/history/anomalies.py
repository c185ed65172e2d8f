"""Anomalies of a history: their stable names, their descriptions, and a collector."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

CHECKS: Final = MappingProxyType(
    {
        "lost-record": "a record that was acknowledged, or read by one reader, is missing at its offset for another",
        "duplicate-record": "a record of an idempotent producer is in the log twice",
        "value-at-two-offsets": "a record of an idempotent producer is at another offset than its acknowledgement says",
        "two-values-at-one-offset": "two clients saw different records at one offset",
        "reordered-records": "two records of an idempotent producer are in the log in reverse send order",
        "failed-but-written": "a record was read although its producer received an error for it",
        "phantom-read": "a record was read that no client sent, in a topic whose producers are all recorded",
        "non-monotonic-read": "a reader went back within a partition without a seek",
        "leader-epoch-went-back": "a record at a higher offset has a lower leader epoch",
        "aborted-read": "a read_committed reader saw a record of an aborted or unfinished transaction (G1a)",
        "uncommitted-read": "a read_committed reader saw a record before its producer requested the commit (G1a)",
        "partial-transaction": "read_committed readers saw some records of a transaction and skipped others (G1b)",
        "write-cycle": "transactions form a cycle of writes to committed offsets (G0)",
        "information-cycle": "transactions form a cycle of reads and writes (G1c)",
        "lost-update": "a transaction overwrote a write that it had not read (G-single)",
        "anti-dependency-cycle": "transactions form a cycle in which several missed another's write (G2)",
        "commit-went-back": "a member's committed offset went back within one generation",
        "commit-beyond-read": "a member committed further than it had read",
        "started-behind-commit": "the next owner began below the last acknowledged commit: records are read again",
        "started-ahead-of-commit": "the next owner began above every commit: records are skipped",
        "fenced-commit-acknowledged": "a commit of an earlier generation succeeded after a later assignment",
        "two-owners": "two members of a group owned one partition at the same time",
        "effect-twice": "one input record has its effect in two committed transactions",
        "effect-missing": "an input record below the committed offset has no effect in any possible commit",
    }
)
"""Description of each anomaly by stable name."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Anomaly: check, description, and evidence lines (numbers as in ``lines.py``)."""

    check: str
    sentence: str
    lines: tuple[int, ...]


class Anomalies:
    """Collector of anomalies; counts all and keeps the first ``most`` of each check."""

    def __init__(self, most: int = 10) -> None:
        self._most = most
        self._reported: set[tuple[str, tuple[int, ...]]] = set()
        self.counts: dict[str, int] = {}
        self.kept: list[Anomaly] = []

    def add(self, check: str, sentence: str, *lines: int) -> None:
        """Record an anomaly once per check and evidence; lines numbered 0 are dropped."""
        assert check in CHECKS, check
        evidence = tuple(dict.fromkeys(line for line in lines if line))
        count = self.counts.get(check, 0)
        if count < self._most:
            if (check, evidence) in self._reported:
                return
            self._reported.add((check, evidence))
            self.kept.append(Anomaly(check, sentence, evidence))
        self.counts[check] = count + 1

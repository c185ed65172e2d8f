"""What can be wrong with a history: each anomaly by its stable name, with what it means; and those that were found."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

CHECKS: Final = MappingProxyType(
    {
        "lost-record": "a record that was acknowledged, or seen by one reader, is not where a reader went past it",
        "duplicate-record": "a record of an idempotent producer is in the log twice",
        "value-at-two-offsets": "a record of an idempotent producer is not where its acknowledgement says it is",
        "two-values-at-one-offset": "two clients were told of different records at one offset",
        "reordered-records": "two records that an idempotent producer sent one after the other lie the other way round",
        "failed-but-written": "a record of which its producer was told that it is not written was read",
        "phantom-read": "a record was read that nobody sent, in a topic of which all producers are recorded",
        "non-monotonic-read": "a reader went back within a partition, and nobody told it to",
        "leader-epoch-went-back": "a record at a higher offset has a lower leader epoch",
        "aborted-read": "a reader of committed records saw one of a transaction that was aborted, or never ended (G1a)",
        "uncommitted-read": "a reader of committed records saw one before its transaction was asked to commit (G1a)",
        "partial-transaction": "readers of committed records saw one part of a transaction and went past another (G1b)",
        "write-cycle": "committed offsets of transactions contradict each other's order (G0)",
        "information-cycle": "transactions depend on each other in a circle of reads and writes (G1c)",
        "lost-update": "a transaction overwrote what another had written since it began to read (G-single)",
        "anti-dependency-cycle": "transactions form a circle in which more than one overlooked another's write (G2)",
        "commit-went-back": "a member's committed offset went back within one generation",
        "commit-beyond-read": "a member committed further than it had read",
        "started-behind-commit": "the next owner began below the last acknowledged commit: records are read again",
        "started-ahead-of-commit": "the next owner began above every commit: records are skipped",
        "fenced-commit-acknowledged": "a commit of an earlier generation was taken after a newer one was given out",
        "two-owners": "two members of a group had one partition at one time",
        "effect-twice": "one input has its effect in two committed transactions",
        "effect-missing": "an input below the committed offset has no effect in any transaction that may be committed",
    }
)
"""Every check by its name, which is stable, and what its alarm means."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One thing that is wrong: which check says so, a sentence, and the lines that prove it (see ``lines.py``)."""

    check: str
    sentence: str
    lines: tuple[int, ...]


class Anomalies:
    """Those found so far: all are counted, of each check the first ``most`` are kept."""

    def __init__(self, most: int = 10) -> None:
        self._most = most
        self._seen: set[tuple[str, tuple[int, ...]]] = set()
        self.counts: dict[str, int] = {}
        self.kept: list[Anomaly] = []

    def add(self, check: str, sentence: str, *lines: int) -> None:
        """Note one; ``lines`` of 0 are left out, and one of the same check and lines is not noted twice."""
        assert check in CHECKS, check
        evidence = tuple(dict.fromkeys(line for line in lines if line))
        count = self.counts.get(check, 0)
        if count < self._most:
            if (check, evidence) in self._seen:
                return
            self._seen.add((check, evidence))
            self.kept.append(Anomaly(check, sentence, evidence))
        self.counts[check] = count + 1

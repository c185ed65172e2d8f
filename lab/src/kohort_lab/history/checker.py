"""Check of a history: read its files once and return the anomalies with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kohort_lab.history.anomalies import CHECKS, Anomalies
from kohort_lab.history.checks.commits import check_commits
from kohort_lab.history.checks.cycles import check_cycles
from kohort_lab.history.checks.effects import check_effects
from kohort_lab.history.checks.logs import check_logs
from kohort_lab.history.checks.owners import check_owners
from kohort_lab.history.checks.visibility import check_visibility, note_committed_reads
from kohort_lab.history.intake import gather
from kohort_lab.history.lines import HistoryLines

MOST: Final = 10
"""Number of anomalies per check that are returned with evidence."""


@dataclass(frozen=True, slots=True)
class Proof:
    """Evidence line and its place FILE:LINE."""

    place: str
    line: str


@dataclass(frozen=True, slots=True)
class ProvenAnomaly:
    """Anomaly with the text of its evidence lines."""

    check: str
    sentence: str
    meaning: str
    evidence: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class CheckedHistory:
    """Result of a check; ``counts`` has the number of anomalies by check."""

    operations: int
    clients: int
    values: int
    transactions: int
    torn: int
    counts: dict[str, int]
    anomalies: tuple[ProvenAnomaly, ...]


def check_history(paths: Sequence[Path], most: int = MOST) -> CheckedHistory:
    """Check the history in ``paths``. Raises HistoryUnreadable for any other format."""
    lines = HistoryLines(paths)
    found = Anomalies(most)
    facts = gather(lines, found, lines.unreadable)
    note_committed_reads(facts)
    check_logs(facts)
    check_visibility(facts)
    check_commits(facts)
    check_owners(facts)
    check_effects(facts)
    check_cycles(facts)
    texts = lines.texts({line for anomaly in found.kept for line in anomaly.lines})
    names = list(CHECKS)
    proven = [
        ProvenAnomaly(
            anomaly.check,
            anomaly.sentence,
            CHECKS[anomaly.check],
            tuple(Proof(lines.place(line), texts.get(line, "")) for line in anomaly.lines),
        )
        for anomaly in sorted(found.kept, key=lambda a: names.index(a.check))
    ]
    counts = {name: found.counts[name] for name in names if name in found.counts}
    return CheckedHistory(
        operations=lines.count,
        clients=len(facts.clients),
        values=facts.values.count,
        transactions=len(facts.transactions),
        torn=lines.torn,
        counts=counts,
        anomalies=tuple(proven),
    )

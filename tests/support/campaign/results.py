"""Results of a campaign as data and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from support.campaign.campaign import CampaignRun
from support.campaign.right_causes import AFTERWARDS, GROUNDS, TRUTHS

CONFIDENCES: Final = ("proof", "high", "medium", "low", "-")
PATTERN: Final = "pattern "
COUNTED: Final = ("right", "wrong", "unnamed", "missed")


class MatrixRow(msgspec.Struct, frozen=True, order=True):
    """Number of rebalances by true cause, reported cause, confidence and verdict."""

    truth: str
    named: str
    confidence: str
    verdict: str
    times: int


class Mistake(msgspec.Struct, frozen=True):
    """A rebalance with a wrong cause, or a missed one."""

    verdict: str
    truth: str
    named: str
    confidence: str
    protocol: str
    action: str
    clients: tuple[str, ...]
    sentence: str


class CampaignResult(msgspec.Struct, frozen=True):
    """Result of one campaign on one broker."""

    ground: str
    versions: dict[str, str]
    seed: int
    groups: int
    actions: int
    took_s: int
    rows: tuple[MatrixRow, ...]
    mistakes: tuple[Mistake, ...]
    unsettled: int

    def count(self, *verdicts: str, sure: bool = False, proof: bool = False) -> int:
        """Count the rebalances with one of these verdicts; ``sure``, ``proof``: with that confidence only."""
        confidences = ("proof",) if proof else ("proof", "high") if sure else CONFIDENCES
        return sum(
            row.times
            for row in self.rows
            if row.verdict in verdicts and row.confidence in confidences and not row.truth.startswith(PATTERN)
        )

    @property
    def rebalances(self) -> int:
        """Number of judged rebalances."""
        return self.count(*COUNTED)

    @property
    def share_right(self) -> float:
        """Share of rebalances that were reported with the right cause."""
        return self.count("right") / max(1, self.rebalances)


def result_of(run: CampaignRun, seed: int, groups: int, versions: dict[str, str]) -> CampaignResult:
    """Summarize a run."""
    settled = [v for v in run.verdicts if v.verdict != "unsettled"]
    counts = Counter((v.truth, v.named, v.confidence, v.verdict) for v in settled)
    return CampaignResult(
        ground=run.ground,
        versions=versions,
        seed=seed,
        groups=groups,
        actions=len(run.noted),
        took_s=round(run.took_s),
        rows=tuple(sorted(MatrixRow(*key, times) for key, times in counts.items())),
        mistakes=tuple(
            Mistake(v.verdict, v.truth, v.named, v.confidence, v.protocol, v.action, v.clients, v.sentence)
            for v in settled
            if v.verdict != "right"
        ),
        unsettled=sum(v.verdict == "unsettled" for v in run.verdicts),
    )


def totals(results: Sequence[CampaignResult]) -> str:
    """Return the table of right causes by broker."""
    lines = [
        "| broker | rebalances | right | share | no cause | missed | wrong | wrong as proof "
        "| wrong with high confidence or proof |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in results:
        wrong, sure, proof = one.count("wrong"), one.count("wrong", sure=True), one.count("wrong", proof=True)
        lines.append(
            f"| {one.ground} | {one.rebalances} | {one.count('right')} | {100 * one.share_right:.1f} % "
            f"| {one.count('unnamed')} | {one.count('missed')} | {wrong} | {proof} | {sure} |"
        )
    return "\n".join(lines) + "\n"


def matrix(result: CampaignResult, patterns: bool = False) -> str:
    """Return the confusion matrix: a row for each pair of true and reported cause."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for row in result.rows:
        if row.truth.startswith(PATTERN) == patterns:
            key = row.truth.removeprefix(PATTERN), row.named, row.verdict
            found.setdefault(key, Counter())[row.confidence] += row.times
    lines = ["| true cause | reported cause | proof | high | medium | low | verdict |", "|---|---|--:|--:|--:|--:|---|"]
    for (truth, named, verdict), times in sorted(found.items()):
        cells = " | ".join(str(times[c]) if times[c] else "" for c in CONFIDENCES[:4])
        cell = verdict if not times["-"] else f"{verdict}: {times['-']}"
        lines.append(f"| {code(truth)} | {code(named)} | {cells} | {cell} |")
    return "\n".join(lines) + "\n"


def mistakes(result: CampaignResult) -> str:
    """Return the table of wrong and missed causes."""
    found = [one for one in result.mistakes if not one.truth.startswith(PATTERN)]
    if not found:
        return "None.\n"
    lines = []
    for one in found:
        sure = f" ({one.confidence})" if one.confidence != "-" else ""
        who = f"{one.action} ({', '.join(one.clients)})"
        lines.append(f"- {code(one.truth)}, reported: {code(one.named)}{sure}. Action: {who}, {one.protocol}.")
        lines.append(f"  {one.sentence}")
    return "\n".join(lines) + "\n"


def truths() -> str:
    """Return the table of right causes by action."""
    lines = ["| true cause | broker | also right | broader, at medium or low | reason |", "|---|---|---|---|---|"]
    for truth in TRUTHS.values():
        for ground in GROUNDS:
            also, broader = truth.also.get(ground, ()), truth.broader.get(ground, ())
            if also or broader:
                names = [", ".join(code(name) for name in truth_names) for truth_names in (also, broader)]
                lines.append(f"| {code(truth.cause)} | {ground} | {names[0]} | {names[1]} | {truth.because} |")
    exact = ", ".join(code(t.cause) for t in TRUTHS.values() if not t.also and not t.broader)
    later = "\n".join(f"- {one};" for one in AFTERWARDS)
    return "\n".join(lines) + f"\n\nWithout other right causes: {exact}.\n\nAdded after the first results:\n\n{later}\n"


def code(word: str) -> str:
    """Format the name of a cause as code."""
    return word if word.startswith("(") else f"`{word}`"


def versions_text(result: CampaignResult) -> str:
    """Return the versions of broker and clients as text."""
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())

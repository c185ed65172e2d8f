"""What a campaign came to, as it is kept and as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from support.campaign.campaign import CampaignRun
from support.campaign.truths import AFTERWARDS, GROUNDS, TRUTHS

CONFIDENCES: Final = ("proof", "high", "medium", "low", "-")
PATTERN: Final = "pattern "
COUNTED: Final = ("right", "wrong", "unnamed", "missed")


class MatrixRow(msgspec.Struct, frozen=True, order=True):
    """How often a truth was called something, this surely, and whether that is right."""

    truth: str
    named: str
    confidence: str
    verdict: str
    times: int


class Mistake(msgspec.Struct, frozen=True):
    """A rebalance that was not named rightly."""

    verdict: str
    truth: str
    named: str
    confidence: str
    protocol: str
    action: str
    clients: tuple[str, ...]
    sentence: str


class CampaignResult(msgspec.Struct, frozen=True):
    """One campaign on one broker."""

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
        """Return how many rebalances have one of these verdicts; only those that were told for sure, or as proof."""
        confidences = ("proof",) if proof else ("proof", "high") if sure else CONFIDENCES
        return sum(
            row.times
            for row in self.rows
            if row.verdict in verdicts and row.confidence in confidences and not row.truth.startswith(PATTERN)
        )

    @property
    def rebalances(self) -> int:
        """All that were judged."""
        return self.count(*COUNTED)

    @property
    def share_right(self) -> float:
        """The share that was named rightly."""
        return self.count("right") / max(1, self.rebalances)


def result_of(run: CampaignRun, seed: int, groups: int, versions: dict[str, str]) -> CampaignResult:
    """Return what a run came to."""
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
    """Return the table of how often each broker's rebalances were named rightly."""
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
    """Return the confusion matrix: a row for each truth and name that came together."""
    found: dict[tuple[str, str, str], Counter[str]] = {}
    for row in result.rows:
        if row.truth.startswith(PATTERN) == patterns:
            key = row.truth.removeprefix(PATTERN), row.named, row.verdict
            found.setdefault(key, Counter())[row.confidence] += row.times
    lines = ["| true cause | reported cause | proof | high | medium | low | verdict |", "|---|---|--:|--:|--:|--:|---|"]
    for (truth, named, verdict), times in sorted(found.items()):
        cells = " | ".join(str(times[c]) if times[c] else "" for c in CONFIDENCES[:4])
        told = verdict if not times["-"] else f"{verdict}: {times['-']}"
        lines.append(f"| {code(truth)} | {code(named)} | {cells} | {told} |")
    return "\n".join(lines) + "\n"


def mistakes(result: CampaignResult) -> str:
    """Return the table of what was not named rightly."""
    found = [one for one in result.mistakes if not one.truth.startswith(PATTERN)]
    if not found:
        return "None.\n"
    lines = ["| true cause | reported cause | action | protocol | report |", "|---|---|---|---|---|"]
    for one in found:
        sure = f" ({one.confidence})" if one.confidence != "-" else ""
        who = f"{one.action} ({', '.join(one.clients)})"
        sentence = one.sentence.replace("|", "\\|")
        lines.append(f"| {code(one.truth)} | {code(one.named)}{sure} | {who} | {one.protocol} | {sentence} |")
    return "\n".join(lines) + "\n"


def truths() -> str:
    """Return the table of what is right to say."""
    lines = ["| truth | right on | also right | broader, at medium or low | since |", "|---|---|---|---|---|"]
    for truth in TRUTHS.values():
        for ground in GROUNDS:
            also, broader = truth.also.get(ground, ()), truth.broader.get(ground, ())
            if also or broader:
                names = [", ".join(code(name) for name in told) for told in (also, broader)]
                lines.append(f"| {code(truth.cause)} | {ground} | {names[0]} | {names[1]} | {truth.because} |")
    exact = ", ".join(code(t.cause) for t in TRUTHS.values() if not t.also and not t.broader)
    later = "\n".join(f"- {one};" for one in AFTERWARDS)
    return "\n".join(lines) + f"\n\nWithout other right causes: {exact}.\n\nAdded after the first results:\n\n{later}\n"


def code(word: str) -> str:
    """Return a cause as code; what is none stays as it is."""
    return word if word.startswith("(") else f"`{word}`"


def versions_text(result: CampaignResult) -> str:
    """Return what played."""
    return ", ".join(f"{name} {version}" for name, version in result.versions.items())

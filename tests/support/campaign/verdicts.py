"""Compare the rebalances that ``kohort group why`` reports with the actions of the campaign, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec

from kohort.insight.findings.model import RebalanceFinding
from kohort.insight.patterns import find_patterns
from support.campaign.clients import COOPERATIVE
from support.campaign.group_run import ExpectedCause, Provoked
from support.campaign.right_causes import ALWAYS_TRUE, FOLLOW, GROUNDS, LEADERS_OWN, OURS, PATTERNS, TRUTHS, UNNAMED

NOTHING: Final = "(nothing)"
"""Name of a missing report or a missing action."""
FOLLOWUP: Final = "COOPERATIVE_FOLLOWUP"
NO_REBALANCE: Final = "no_rebalance"
UP_TO_CLIENTS: Final = ("topic_created", "topic_deleted", "partitions")
"""Actions that cause a rebalance only if clients notice them."""
SCALES: Final = ("SCALE_OUT", "SCALE_IN", "ROLLING_DEPLOY", "CRASH_LOOP", "AUTOSCALER")
"""Rebalance patterns of joining and leaving members; each action is one of them or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rebalance: its true cause, the reported cause, and the verdict."""

    truth: str
    named: str
    confidence: str
    verdict: str
    group: str
    protocol: str
    action: str
    clients: tuple[str, ...] = ()
    sentence: str = ""
    at_ms: int = 0

    @property
    def is_sure(self) -> bool:
        return self.confidence in ("proof", "high")


def judge(ground: str, provoked: Sequence[Provoked], rebalances: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Return the verdicts on one group: its actions and its reported rebalances, both in order."""
    assert ground in GROUNDS
    verdicts: list[Verdict] = []
    before: Provoked | None = None
    for noted in provoked:
        within = [one for one in rebalances if noted.from_ms <= one["opened_at_ms"] < noted.until_ms]
        if noted.flaw is None:
            verdicts += _Window(ground, noted, within, before).judge()
            verdicts += _judge_patterns(noted, within)
        else:
            verdicts.append(_verdict(noted, NOTHING, NOTHING, "unsettled", {"sentence": noted.flaw}))
        before = noted
    return verdicts


class _Window:
    """One action, and the rebalances reported until the group was settled.

    Actions and reports are aligned in order, with as few wrong or missed ones as possible. ``before`` is the previous
    action: clients may notice its changes of topics in this window.
    """

    def __init__(
        self, ground: str, noted: Provoked, rebalances: Sequence[dict[str, Any]], before: Provoked | None = None
    ) -> None:
        self._ground, self._noted = ground, noted
        self._late = before.expected if before is not None and before.action in UP_TO_CLIENTS else ()
        self._steps = [step for step in noted.expected if _is_reportable(ground, step)]
        self._rebalances = [one for one in rebalances if not self._is_beside(one)]
        self._best = cache(self._find_best)

    def _is_beside(self, one: dict[str, Any]) -> bool:
        """Return True for an event that does not count in this window."""
        cause = one["cause"]
        follows = cause == ALWAYS_TRUE or self._noted.action in FOLLOW.get(cause, ())
        return one["end"] == NO_REBALANCE and follows

    def judge(self) -> list[Verdict]:
        verdicts = sorted(self._best(0, 0, 0)[1], key=lambda verdict: verdict.verdict == "missed")
        if self._noted.action in UP_TO_CLIENTS and not self._noted.changed:
            return [verdict for verdict in verdicts if verdict.verdict != "missed"]
        return verdicts

    def _find_best(self, i: int, at: int, count: int) -> tuple[int, tuple[Verdict, ...]]:
        """Return the fewest wrong or missed reports from report ``i`` and step ``at``, with their verdicts.

        ``count``: reports that are matched to that step so far.
        """
        if at == len(self._steps) and i == len(self._rebalances):
            return 0, ()
        options = list(self._options(i, at, count)) if i < len(self._rebalances) else []
        if at < len(self._steps):
            step = self._steps[at]
            missed = tuple(_verdict(self._noted, step.truth, NOTHING, "missed", {}) for _ in range(step.least - count))
            cost, later = self._best(i, at + 1, 0)
            options.append((cost + len(missed), missed + later))
        return min(options, key=lambda option: option[0])

    def _options(self, i: int, at: int, count: int) -> Iterator[tuple[int, tuple[Verdict, ...]]]:
        """Yield the possible matches of report ``i``: the next step, or an event that does not count."""
        one = self._rebalances[i]
        cause, confidence = one["cause"], one["confidence"]
        bad = "unnamed" if cause == UNNAMED else "wrong"
        if at < len(self._steps):
            step = self._steps[at]
            if step.most is None or count < step.most:
                right = _names(step, one) and TRUTHS[step.truth].allows(self._ground, cause, confidence)
                cost, later = self._best(i + 1, at, count + 1)
                verdict = _verdict(self._noted, step.truth, cause, "right" if right else bad, one)
                yield cost + (not right), (verdict, *later)
        cost, later = self._best(i + 1, at, count)
        late = [step.truth for step in self._late if TRUTHS[step.truth].allows(self._ground, cause, confidence)]
        if cause == LEADERS_OWN or late:
            truth = LEADERS_OWN if cause == LEADERS_OWN else late[0]
            yield cost, (_verdict(self._noted, truth, cause, "right", one), *later)
        elif self._noted.protocol == COOPERATIVE and one["end"] != NO_REBALANCE:
            right = cause == FOLLOWUP
            yield cost + (not right), (_verdict(self._noted, FOLLOWUP, cause, "right" if right else bad, one), *later)
        else:
            yield cost + 1, (_verdict(self._noted, NOTHING, cause, bad, one), *later)


def _is_reportable(ground: str, step: ExpectedCause) -> bool:
    """Return True if the broker can report the step: only kohort reports the deletion of a group."""
    return ground == OURS or step.truth != "GROUP_DELETED"


def _names(step: ExpectedCause, one: dict[str, Any]) -> bool:
    """Return True if a finding names a member of the step, or no member."""
    trigger = one.get("trigger")
    return not step.who or trigger is None or trigger["client_id"] in step.who


def _verdict(noted: Provoked, truth: str, named: str, verdict: str, one: dict[str, Any]) -> Verdict:
    return Verdict(
        truth=truth,
        named=named,
        confidence=one.get("confidence", "-"),
        verdict=verdict,
        group=noted.group,
        protocol=noted.protocol,
        action=noted.action,
        clients=noted.clients,
        sentence=one.get("sentence", ""),
        at_ms=one.get("opened_at_ms", noted.from_ms),
    )


def _judge_patterns(noted: Provoked, within: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Return the verdicts on the patterns that the reports of one action name."""
    found = [msgspec.convert(one, RebalanceFinding) for one in within]
    named = {p.pattern: p for p in find_patterns(found) if p.pattern in SCALES}
    expected_patterns = PATTERNS.get(noted.action, ())
    verdicts = []
    for code, pattern in named.items():
        truth, verdict = (code, "right") if code in expected_patterns else (NOTHING, "wrong")
        reported = {"confidence": pattern.confidence, "sentence": pattern.sentence, "opened_at_ms": pattern.from_ms}
        verdicts.append(_verdict(noted, f"pattern {truth}", code, verdict, reported))
    if expected_patterns and not {*expected_patterns} & {*named}:
        verdicts.append(_verdict(noted, f"pattern {expected_patterns[0]}", NOTHING, "missed", {}))
    return verdicts

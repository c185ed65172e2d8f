"""Which software the members run that rebalances began with, as far as their clients told the cluster.

They tell the coordinator when they connect (KIP-511), whose journal has it; some push it with their metrics (KIP-714).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kohort.results.console import CausesSoftware, SoftwareOffender
from kohort.verbs.client_reports import software_of

if TYPE_CHECKING:
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.telemetry.report import ClientReport

MOST: Final = 20
"""Of them are told."""
NOBODY: Final = "it began with no member in particular"
NO_PUSH: Final = "its client pushed no metrics within the last hour (KIP-714): kohort client-metrics set asks for them"
NOT_SAID: Final = f"the journal does not have it, and {NO_PUSH}"
NOT_NAMED: Final = "its client did not name its software"


def offending_software(
    rebalances: Iterable[RebalanceFinding],
    journal: Mapping[str, Mapping[str, str]],
    reports: Sequence[ClientReport] | None,
    why_no_reports: str,
) -> CausesSoftware:
    """Return the software behind ``rebalances``, the most frequent first: what the ``journal`` of a group has of a
    member, else what its client pushed. ``reports`` is None where none can be had."""
    causes: Mapping[str, Counter[str]] = defaultdict(Counter)
    unknown: Counter[str] = Counter()
    by_group: Mapping[str | None, list[ClientReport]] = defaultdict(list)
    for report in reports or ():
        by_group[report.group].append(report)
    for this in rebalances:
        of_group = None if reports is None else by_group.get(this.group, [])
        software, why = _told_by_journal(this, journal), ""
        if software is None:
            software, why = _pushed(this, of_group, why_no_reports)
        if software is None:
            unknown[why] += 1
        else:
            causes[software][this.cause] += 1
    worst = sorted(causes, key=lambda software: (-causes[software].total(), software))[:MOST]
    return CausesSoftware(
        software=[
            SoftwareOffender(
                software=software, rebalances=causes[software].total(), cause=causes[software].most_common(1)[0][0]
            )
            for software in worst
        ],
        unknown=dict(unknown.most_common()),
    )


def lacks_software(this: RebalanceFinding, journal: Mapping[str, Mapping[str, str]]) -> bool:
    """Tell whether a rebalance began with a member whose software its group's journal does not have."""
    return this.trigger is not None and _told_by_journal(this, journal) is None


def _told_by_journal(this: RebalanceFinding, journal: Mapping[str, Mapping[str, str]]) -> str | None:
    return None if this.trigger is None else journal.get(this.group, {}).get(this.trigger.member_id)


def _pushed(
    this: RebalanceFinding, reports: Sequence[ClientReport] | None, why_no_reports: str
) -> tuple[str | None, str]:
    """Return the software of the member that a rebalance began with, or why it is not known."""
    from kohort.telemetry.report_reader import report_of_member

    who = this.trigger
    if who is None:
        return None, NOBODY
    if reports is None:
        return None, why_no_reports
    report = report_of_member(reports, this.group, who.member_id, who.client_id, who.host)
    if report is None:
        return None, NO_PUSH if this.origin == "inferred" else NOT_SAID
    return software_of(report), NOT_NAMED

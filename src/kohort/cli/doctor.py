"""``kohort doctor``: rules over one group or all, each finding with its evidence and with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.looking import GroupsSeen, Looks, look_at_all, look_at_one, look_options, tell_unseen
from kohort.cli.output import output_of, print_result
from kohort.cli.show import cell, print_prose
from kohort.insight.findings.doctor import SEVERITIES, DoctorFinding, examine, is_bad
from kohort.results.lag import DoctorReport
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

HELP = """Say what is wrong with GROUP, or with any group, and what to do about it.

The exit code is 7 where anything is a warning or an error, or could not be seen. Rules about progress take several
looks (--watch-for 20s); after one look they say nothing. A group that has nothing to do is well.

\b
Examples:
  kohort doctor
  kohort doctor my-group --watch-for 20s
  kohort doctor --output ndjson | jq -c '{severity, group, rule}'
"""
FACTS_SHOWN = 5


@click.command(help=HELP, short_help="Say what is wrong with groups, and what to do.")
@click.argument("group_id", metavar="[GROUP]", required=False, shell_complete=complete_groups)
@look_options
@cluster_options
@output_of(DoctorReport)
def doctor(group_id: str | None, looks: Looks, cluster: ClusterAccess, output: str) -> None:
    seen = look_at_all(cluster, looks, lambda _: True) if group_id is None else look_at_one(cluster, group_id, looks)[1]
    found = findings_of(seen)
    unseen = tell_unseen(seen, "kohort doctor")
    if output != "table":
        unknown = sum(one.health is None for one in seen.groups)
        print_result(DoctorReport(examined=len(seen.groups), findings=found, unknown=unknown), output)
    else:
        for one in found:
            print_finding(one)
    bad = {one.group for one in found if is_bad([one])}
    examined = len(seen.groups)
    if bad:
        raise CheckNotMet(
            f"{len(bad)} of {examined} group{'s' * (examined != 1)} need{'s' * (len(bad) == 1)} attention"
        )
    if unseen is not None:
        raise CheckNotMet("whether all is well cannot be told: not all was seen")
    if not found and output == "table":
        click.echo(without_findings(seen.groups, looks), err=True)


def without_findings(groups: Sequence[GroupFinding], looks: Looks) -> str:
    """Return the sentence of a report without findings; a group of unknown health is not called healthy."""
    if not groups:
        return "no group is visible here: nothing was examined"
    examined = f"{len(groups)} group{'s' * (len(groups) != 1)}"
    unknown = sum(one.health is None for one in groups)
    hint = "" if looks.watch_ms else "--watch-for 20s"
    if unknown:
        return f"no finding in {examined}; the health of {unknown} is unknown{f': {hint}' if hint else ''}"
    return f"nothing is wrong with {examined}{f'; whether lags are read takes {hint}' if hint else ''}"


def findings_of(seen: GroupsSeen) -> list[DoctorFinding]:
    """Return what the rules find in all groups, the worst first."""
    found = [one for group in seen.groups for one in examine(group, seen.rebalances_of(group.group))]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.group))


def print_finding(one: DoctorFinding) -> None:
    """Print one finding: how bad, where, what; then evidence and advice."""
    print_prose(f"{one.severity.upper()}  {cell(one.group)}  {one.rule}: {one.sentence}", indent="  ")
    for fact in one.evidence[:FACTS_SHOWN]:
        print_prose(f"{fact.kind}: {fact.value}", indent=" " * 12, first=f"  {'EVIDENCE':<10}")
    if len(one.evidence) > FACTS_SHOWN:
        click.echo(f"  {'':<10}and {len(one.evidence) - FACTS_SHOWN} more: --output json has them all")
    print_prose(f"{one.advice}  (confidence: {one.confidence})", indent=" " * 12, first=f"  {'ADVICE':<10}")

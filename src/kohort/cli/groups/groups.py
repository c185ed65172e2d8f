"""``kohort groups`` and ``kohort doctor``: show the health and the problems of all groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kohort.cli.groups.sampling import (
    SampledGroups,
    SamplingOptions,
    print_gaps,
    sample_all_groups,
    sample_one_group,
    sampling_options,
)
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.output import output_of, print_result, report_rows
from kohort.cli.terminal.show import cell, print_prose
from kohort.cli.terminal.wording import eta_text, lag_time_text, last_rebalance_text, print_fact
from kohort.insight.findings.doctor import SEVERITIES, DoctorFinding, examine, is_bad
from kohort.insight.names import count
from kohort.results.groups import DoctorReport, GroupRow, GroupsListed
from kohort.verbs.describing import row_of, worst_first
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

GROUPS_HELP = """List the groups, the worst first.

LAG is in records. LAG-TIME is the age of the oldest unread record, ETA the time until the lag is 0. HEALTH is OK, WARN
(such as a growing lag), STALL (no progress of commits), STOP (no owner), REWIND (an offset went back), REBALANCING or
STORM. After one sample HEALTH may be - (unknown): --watch-for 20s takes several samples. REBALANCES-1H and
LAST-REBALANCE come from the journal of a kohort broker or of kohort watch.

The exit code is not 0 if a group could not be sampled.

\b
Examples:
  kohort groups
  kohort groups --state stable --watch-for 20s
  kohort groups --output json | jq '.groups[] | select(.lag > 1000) | .group'
"""
COLUMNS = ("HEALTH", "GROUP", "STATE", "MEMBERS", "LAG", "LAG-TIME", "ETA", "REBALANCES-1H", "LAST-REBALANCE")


@click.command(help=GROUPS_HELP, short_help="List the groups with lag and health, the worst first.")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Show only groups in this state; repeatable.")
@sampling_options
@cluster_options
@output_of(GroupsListed)
def groups(states: tuple[str, ...], sampling: SamplingOptions, cluster: ClusterAccess, output: str) -> None:
    lowered = {state.lower().replace("-", "") for state in states}
    sampled = sample_all_groups(cluster, sampling, lambda g: not lowered or g.state.lower() in lowered)
    gap = print_gaps(sampled, "kohort groups")
    found = worst_first(map(row_of, sampled.groups))
    report_rows(
        output, GroupsListed(groups=found), COLUMNS, [cells_of(g) for g in found], none="the cluster shows no group"
    )
    if output == "table":
        print_notes(sampled, sampling)
    if gap is not None:
        click.get_current_context().exit(exit_code_of(gap))


def cells_of(row: GroupRow) -> tuple[object, ...]:
    members = f"{row.members} ({row.idle_members} idle)" if row.idle_members else row.members
    waited = lag_time_text(row.lag, row.lag_ms, complete=row.lag_ms_complete)
    times = (waited, eta_text(row.draining, row.eta_ms), row.rebalances_1h, last_rebalance_text(row.last_rebalance))
    return (row.health, row.group, row.state, members, row.lag, *times)


def print_notes(sampled: SampledGroups, sampling: SamplingOptions) -> None:
    """Print on stderr the columns of the group list that are incomplete, each with the option that completes it."""
    if sampled.times_left_out and sampling.append_times is None:
        click.echo("LAG-TIME is left out for many groups: --append-times 5000 reads it for the worst groups", err=True)
    elif sampled.not_looked_up and not sampled.times_left_out:
        unread = count(sampled.not_looked_up, "record timestamp")
        click.echo(f"LAG-TIME with ≥ is a lower bound: {unread} not read", err=True)
    if not sampling.watch_ms and any(g.health is None for g in sampled.groups):
        click.echo("HEALTH is unknown (-) after one sample: --watch-for 20s takes several samples", err=True)


DOCTOR_HELP = """Report problems of GROUP, or of all groups, with evidence and advice.

Rules about progress need several samples (--watch-for 20s). The exit code is 7 for a warning, an error, or a group that
could not be sampled.

\b
Examples:
  kohort doctor
  kohort doctor my-group --watch-for 20s
  kohort doctor --output ndjson | jq -c '{severity, group, rule}'
"""
FACTS_SHOWN = 5


@click.command(help=DOCTOR_HELP, short_help="Report problems of groups, with advice.")
@click.argument("group_id", metavar="[GROUP]", required=False, shell_complete=complete_groups)
@sampling_options
@cluster_options
@output_of(DoctorReport)
def doctor(group_id: str | None, sampling: SamplingOptions, cluster: ClusterAccess, output: str) -> None:
    if group_id is None:
        sampled = sample_all_groups(cluster, sampling, lambda _: True)
    else:
        sampled = sample_one_group(cluster, group_id, sampling)
    found = findings_of(sampled)
    gap = print_gaps(sampled, "kohort doctor")
    if output != "table":
        unknown = sum(one.health is None for one in sampled.groups)
        print_result(DoctorReport(examined=len(sampled.groups), findings=found, unknown=unknown), output)
    else:
        for one in found:
            print_finding(one)
    bad = {one.group for one in found if is_bad([one])}
    examined = len(sampled.groups)
    if bad:
        raise CheckNotMet(f"{len(bad)} of {count(examined, 'group')} need{'s' * (len(bad) == 1)} attention")
    if gap is not None:
        raise CheckNotMet("the health of some groups is unknown: they could not be sampled")
    if not found and output == "table":
        click.echo(healthy_text(sampled.groups, sampling), err=True)


def healthy_text(groups: Sequence[GroupFinding], sampling: SamplingOptions) -> str:
    if not groups:
        return "the cluster shows no group, so none was examined"
    examined = count(len(groups), "group")
    unknown = sum(one.health is None for one in groups)
    hint = "" if sampling.watch_ms else "--watch-for 20s"
    if unknown:
        return f"no problem in {examined}; the health of {unknown} is unknown{f': {hint}' if hint else ''}"
    return f"no problem in {examined}{f'; progress is checked only with {hint}' if hint else ''}"


def findings_of(sampled: SampledGroups) -> list[DoctorFinding]:
    found = [one for group in sampled.groups for one in examine(group, sampled.rebalances_of(group.group))]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.group))


def print_finding(one: DoctorFinding) -> None:
    print_prose(f"{one.severity.upper()}  {cell(one.group)}  {one.rule}: {one.sentence}", indent="  ")
    for fact in one.evidence[:FACTS_SHOWN]:
        print_fact("EVIDENCE", f"{fact.kind}: {fact.value}")
    if len(one.evidence) > FACTS_SHOWN:
        print_fact("", f"and {len(one.evidence) - FACTS_SHOWN} more: --output json has them all")
    print_fact("ADVICE", f"{one.advice}  (confidence: {one.confidence})")

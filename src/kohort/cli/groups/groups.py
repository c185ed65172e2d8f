"""``kohort groups`` and ``kohort doctor``: the health of all groups, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kohort.cli.groups.sampling import GroupsSeen, Looks, look_at_all, look_at_one, look_options, tell_unseen
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import cell, print_prose, print_table
from kohort.cli.terminal.wording import eta_text, lag_time_text, last_rebalance_text, print_fact
from kohort.insight.findings.doctor import SEVERITIES, DoctorFinding, examine, is_bad
from kohort.results.groups import DoctorReport, GroupsListed
from kohort.verbs.describing import idle_of, row_of, worst_first
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding

GROUPS_HELP = """List the consumer groups, the worst first.

LAG is in records; LAG-TIME is the age of the next record, by its timestamp; ETA is the time until the lag is 0. HEALTH
is OK, WARN (the lag grows), STALL (an owner commits no progress), STOP (no member reads), REWIND (an offset went
back), REBALANCING or STORM; - is unknown after one sample: --watch-for 20s. REBALANCES-1H and LAST-REBALANCE come from
the journal of a kohort broker or of kohort watch. The exit code is not 0 if a group could not be sampled.

\b
Examples:
  kohort groups
  kohort groups --state stable --watch-for 20s
  kohort groups --output json | jq '.groups[] | select(.lag > 1000) | .group'
"""
COLUMNS = ("HEALTH", "GROUP", "STATE", "MEMBERS", "LAG", "LAG-TIME", "ETA", "REBALANCES-1H", "LAST-REBALANCE")


@click.command(help=GROUPS_HELP, short_help="List the consumer groups, the worst first.")
@click.option("--state", "states", metavar="STATE", multiple=True, help="Only groups in this state; may be repeated.")
@look_options
@cluster_options
@output_of(GroupsListed)
def groups(states: tuple[str, ...], looks: Looks, cluster: ClusterAccess, output: str) -> None:
    wanted = {state.lower().replace("-", "") for state in states}
    seen = look_at_all(cluster, looks, lambda g: not wanted or g.state.lower() in wanted)
    unseen = tell_unseen(seen, "kohort groups")
    found = worst_first(seen.groups)
    if output != "table":
        print_result(GroupsListed(groups=[row_of(g) for g in found]), output)
    else:
        print_table(COLUMNS, [cells_of(g) for g in found], none="no group is visible here")
        print_notes(seen, looks)
    if unseen is not None:
        click.get_current_context().exit(exit_code_of(unseen))


def cells_of(found: GroupFinding) -> tuple[object, ...]:
    idle = idle_of(found)
    members = len(found.members)
    return (
        found.health,
        found.group,
        found.state,
        f"{members} ({idle} idle)" if idle else members,
        found.lag,
        lag_time_text(found.lag, found.lag_ms, complete=found.lag_ms_complete),
        eta_text(found.draining, found.eta_ms),
        found.rebalances_1h,
        last_rebalance_text(found),
    )


def print_notes(seen: GroupsSeen, looks: Looks) -> None:
    """Print on stderr what the table lacks, and the option that adds it."""
    if seen.times_left_out and looks.append_times is None:
        text = "LAG-TIME is left out, since there are so many groups: --append-times 5000 asks the log at the worst"
        click.echo(text, err=True)
    elif seen.not_looked_into and not seen.times_left_out:
        behind = seen.not_looked_into
        click.echo(f"at {behind} offsets the log did not say since when records wait: LAG-TIME with ≥", err=True)
    if not looks.watch_ms and any(g.health is None for g in seen.groups):
        click.echo("HEALTH - is what one look cannot tell: --watch-for 20s looks several times", err=True)


DOCTOR_HELP = """Report problems of GROUP, or of all groups, with evidence and advice.

The exit code is 7 for a warning, an error, or a group that could not be sampled. Rules about progress need several
samples (--watch-for 20s).

\b
Examples:
  kohort doctor
  kohort doctor my-group --watch-for 20s
  kohort doctor --output ndjson | jq -c '{severity, group, rule}'
"""
FACTS_SHOWN = 5


@click.command(help=DOCTOR_HELP, short_help="Report problems of groups, with advice.")
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
    """Return the sentence of a report without findings; unknown health is not called healthy."""
    if not groups:
        return "no group is visible here: nothing was examined"
    examined = f"{len(groups)} group{'s' * (len(groups) != 1)}"
    unknown = sum(one.health is None for one in groups)
    hint = "" if looks.watch_ms else "--watch-for 20s"
    if unknown:
        return f"no finding in {examined}; the health of {unknown} is unknown{f': {hint}' if hint else ''}"
    return f"nothing is wrong with {examined}{f'; whether lags are read takes {hint}' if hint else ''}"


def findings_of(seen: GroupsSeen) -> list[DoctorFinding]:
    found = [one for group in seen.groups for one in examine(group, seen.rebalances_of(group.group))]
    return sorted(found, key=lambda one: (SEVERITIES.index(one.severity), one.group))


def print_finding(one: DoctorFinding) -> None:
    print_prose(f"{one.severity.upper()}  {cell(one.group)}  {one.rule}: {one.sentence}", indent="  ")
    for fact in one.evidence[:FACTS_SHOWN]:
        print_fact("EVIDENCE", f"{fact.kind}: {fact.value}")
    if len(one.evidence) > FACTS_SHOWN:
        print_fact("", f"and {len(one.evidence) - FACTS_SHOWN} more: --output json has them all")
    print_fact("ADVICE", f"{one.advice}  (confidence: {one.confidence})")

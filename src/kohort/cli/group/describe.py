"""``kohort group describe``: show the partitions, topics, members or state of groups.

The first columns are those of Kafka's own tool; ``tests/interop/test_group_tool.py`` compares both. Columns with lag
time and health follow. One difference: a missing instance id is ``-``, where Kafka's tool prints blanks.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kohort.cli.group.chosen import chosen_groups, is_one, several_groups
from kohort.cli.groups.sampling import SampledGroups, SamplingOptions, print_gaps, sample_named_groups, sampling_options
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.options import DURATION
from kohort.cli.terminal.output import output_of, print_result, raise_last
from kohort.cli.terminal.show import print_prose, print_table
from kohort.cli.terminal.wording import (
    eta_text,
    in_ranges,
    lag_time_text,
    last_rebalance_text,
    print_fact,
    rate_text,
    span_text,
)
from kohort.errors import KohortError
from kohort.insight.names import count
from kohort.model import by_topic
from kohort.results.groups import GroupDescribed, GroupMemberRow, GroupPartitionRow, GroupsDescribed, TopicLagRow
from kohort.verbs.describing import coordinators, described, partitions_named
from kohort.verbs.groups import is_missing, no_such_group
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding, MemberFinding, PartitionFinding

HELP = """Show the partitions of each GROUP: committed offsets, lag, owners, health.

The first columns are those of kafka-consumer-groups; --verbose adds columns after them. A negative LAG means that the
committed offset is beyond the log end. One sample shows the lag; most health values need several (--watch-for 20s).

STATUS is the health of a partition: OK, WARN (such as a growing lag), STOP (no owner), STALL (no progress) or REWIND
(the offset went back). HEALTH of a group is STORM (many rebalances within ten minutes), REBALANCING, or the worst
STATUS of its partitions. LAG-TIME is the age of the next unread record. LEAD is the number of offsets from the log
start to the committed offset: at 0, retention may delete unread records. STABLE-LAG is the lag of read_committed
consumers. OUT: records read per second, IN: records written per second.

STATE of a member is ok, stuck (no progress), not-fetching (some of its partitions make no progress), not-committing
(no commit yet), rewinding, slow, hot (far more lag than other members) or idle. For the consumer protocol (KIP-848),
--members shows the partitions that each member still has to revoke (TO-REVOKE) and to receive (TO-GET).

\b
Examples:
  kohort group describe my-group
  kohort group describe my-group --members --watch-for 20s
  kohort group describe g --state --watch-for 20s --output json | jq .status
  kohort group describe my-group --topics --fail-above 1000
  kohort group describe --all-groups --output ndjson | jq -c '[.group, .lag]'
"""


@click.command("describe", help=HELP, short_help="Show partitions, lag, members and health.")
@several_groups
@click.option("--offsets", "view", flag_value="offsets", default=True, help="Show partitions and lag (the default).")
@click.option("--topics", "view", flag_value="topics", help="Show the lag of each topic.")
@click.option("--members", "view", flag_value="members", help="Show members, their partitions and their progress.")
@click.option("--state", "view", flag_value="state", help="Show state, coordinator, assignor and health.")
@click.option("--behind", is_flag=True, help="Show only partitions with a lag or an unknown lag.")
@click.option(
    "--fail-above",
    metavar="N|DURATION",
    help="Exit with code 7 if the LAG of a group is above N records, or its LAG-TIME above DURATION.",
)
@click.option("--verbose", is_flag=True, help="Show more columns: epochs, target assignments, rates, reasons.")
@sampling_options
@cluster_options
@output_of(GroupDescribed)
def describe_group(
    cluster: ClusterAccess, sampling: SamplingOptions, output: str, view: str, verbose: bool, **given: Any
) -> None:
    limit = limit_of(given["fail_above"])
    errors: list[KohortError] = []
    with cluster.admin() as admin:
        names = chosen_groups(admin, (*given["names"], *given["more"]), every=given["all_groups"])
        sampled = sample_named_groups(cluster, admin, names, sampling)
        for name in [name for name in names if name in sampled.errors]:
            error = sampled.errors.pop(name)
            errors.append(no_such_group(admin, name) if is_missing(error) else error)
        nodes = coordinators(admin) if sampled.groups else {}
    if is_one(given) and errors:
        raise errors[0]
    found = [_described(sampled, status, nodes, behind=given["behind"]) for status in sampled.groups]
    if output != "table":
        print_result(found[0] if is_one(given) else GroupsDescribed(groups=found), output)
    else:
        for number, (group, status) in enumerate(zip(found, sampled.groups, strict=True)):
            if number:
                click.echo()
            print_prose(status.sentence, err=True)
            if note := reconciling_note(group, view) or unowned_note(group):
                print_prose(note, err=True)
            print_table(*VIEWS[view](group, status, verbose=verbose))
            if view == "state":
                for fact in status.evidence:
                    print_fact("EVIDENCE", f"{fact.kind}: {fact.value}", err=True)
    gap = print_gaps(sampled, "kohort group describe")
    errors += [above for status in sampled.groups if (above := lag_above(status, limit)) is not None]
    raise_last(errors, "kohort group")
    if gap is not None:
        click.get_current_context().exit(exit_code_of(gap))


def _described(sampled: SampledGroups, status: GroupFinding, nodes: dict[int, str], *, behind: bool) -> GroupDescribed:
    about, snapshot = sampled.descriptions[status.group], sampled.snapshots[status.group]
    group = described(about, snapshot, nodes.get(about.coordinator_id), status)
    if behind:
        late = {(p.topic, p.partition) for p in status.partitions if p.lag is None or p.blame != "none"}
        group.partitions[:] = [row for row in group.partitions if (row.topic, row.partition) in late]
    return group


def reconciling_note(group: GroupDescribed, view: str) -> str | None:
    """Return a sentence about a consumer group that has not reached its target assignment. None for other groups."""
    if group.state == "Assigning":
        return (
            f"group {group.group!r} waits for a target assignment for group epoch {group.group_epoch}; "
            f"the present target assignment has epoch {group.assignment_epoch}"
        )
    if group.state != "Reconciling":
        return None
    to_revoke, to_get = sum(len(m.to_revoke) for m in group.members), sum(len(m.to_get) for m in group.members)
    return (
        f"group {group.group!r} reconciles to its target assignment of epoch {group.assignment_epoch}: "
        f"{count(to_revoke, 'partition')} to revoke, {to_get} to assign"
        + ("" if view == "members" else "; --members shows the members")
    )


def unowned_note(group: GroupDescribed) -> str | None:
    """Return a sentence about the subscribed partitions that no member owns; None if each has an owner."""
    if not group.unowned:
        return None
    names = ", ".join(group.unowned[:5]) + (" and more" if len(group.unowned) > 5 else "")
    what = f"{count(len(group.unowned), 'partition')} of {group.group!r} without an owner: {names}. "
    if group.group_type == "consumer":
        return what + "The coordinator has not yet noticed new partitions of its topics"
    return (
        what + "Either the assignor did not assign them, or a static member returned during a cooperative rebalance; "
        "the next rebalance assigns them"
    )


CellTable = tuple[tuple[str, ...], list[tuple[object, ...]]]
"""Column headings of a table, and its rows."""


def offsets_table(group: GroupDescribed, status: GroupFinding, *, verbose: bool) -> CellTable:
    """Return a table with a row per partition. ``verbose`` adds leader epochs (KIP-1099), rates and status reasons."""
    findings = {(one.topic, one.partition): one for one in status.partitions}
    epoch = ("LEADER-EPOCH",) if verbose else ()
    more = ("STABLE-LAG", "LEAD", "OUT", "IN", "WHY") if verbose else ()
    columns = ("GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST")

    def cells(row: GroupPartitionRow, one: PartitionFinding) -> tuple[object, ...]:
        at = (group.group, row.topic, row.partition, *((row.leader_epoch,) if verbose else ()))
        kafka = (*at, row.current_offset, row.log_end_offset, row.lag, row.member_id, row.host, row.client_id)
        ours = (one.status, lag_time_text(one.lag, one.lag_ms, complete=True))
        if not verbose:
            return (*kafka, *ours)
        rates = (rate_text(one.read_per_s), rate_text(one.written_per_s))
        return (*kafka, *ours, one.stable_lag, one.lead, *rates, one.unknown or one.reason)

    rows = [cells(row, findings[row.topic, row.partition]) for row in group.partitions]
    return (*columns, "CLIENT-ID", "STATUS", "LAG-TIME", *more), rows


def topics_table(group: GroupDescribed, status: GroupFinding, *, verbose: bool) -> CellTable:
    columns = ("GROUP", "TOPIC", "#PARTITIONS", "BEHIND", "LAG", "STABLE-LAG", "LAG-TIME", "ETA")

    def cells(row: TopicLagRow) -> tuple[object, ...]:
        waited = lag_time_text(row.lag, row.lag_ms, complete=status.lag_ms_complete)
        eta = None if row.eta_ms is None else span_text(row.eta_ms)
        shown = (group.group, row.topic, row.partitions, row.behind, row.lag, row.stable_lag, waited, eta)
        return (*shown, row.lead, rate_text(row.read_per_s), rate_text(row.written_per_s)) if verbose else shown

    return (*columns, *(("LEAD", "OUT", "IN") if verbose else ())), [cells(row) for row in group.topics]


def members_table(group: GroupDescribed, status: GroupFinding, *, verbose: bool) -> CellTable:
    """Return a table with a row per member. ``verbose`` adds epochs and target assignments (KIP-1099)."""
    findings = {one.member.member_id: one for one in status.members}
    static = any(m.group_instance_id for m in group.members)
    is_consumer = group.group_type == "consumer"
    mixed = is_consumer and {"classic", "consumer"} <= {m.member_type for m in group.members}
    columns = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if static else []), "HOST", "CLIENT-ID", "#PARTITIONS"]
    if verbose:
        columns += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        columns += ["UPGRADED"] if mixed else []
        columns += ["LAG", "LAG-TIME", "ETA"]
    else:
        columns += ["TO-REVOKE", "TO-GET"] if is_consumer else ["LAG", "ASSIGNMENT"]

    def cells(m: GroupMemberRow, one: MemberFinding | None) -> tuple[object, ...]:
        ids = [group.group, m.member_id, *([m.group_instance_id] if static else [])]
        row: list[object] = [*ids, m.host, m.client_id, len(m.assignment)]
        if verbose:
            row += _progress(m, group.assignment_epoch)
            row += [UPGRADED.get(m.member_type)] if mixed else []
            waited = None if one is None else lag_time_text(one.lag, one.lag_ms, complete=one.lag_ms_complete)
            row += [m.lag, waited, None if one is None else eta_text(one.draining, one.eta_ms)]
        else:
            row += [_ranges(m.to_revoke), _ranges(m.to_get)] if is_consumer else [m.lag, _ranges(m.assignment)]
        return (*row, *((None, None) if one is None else (one.state, one.reason)))

    rows = [cells(m, findings.get(m.member_id)) for m in group.members]
    return (*columns, "STATE", "WHY"), rows


UPGRADED = {"consumer": "true", "classic": "false"}


def _progress(member: GroupMemberRow, target_epoch: int | None) -> list[object]:
    """Return the cells epoch, assignment, target epoch and target assignment.

    In a classic group, all cells but the assignment are None.
    """
    if member.target_assignment is None:
        return [None, numbered(member.assignment), None, None]
    return [member.member_epoch, numbered(member.assignment), target_epoch, numbered(member.target_assignment)]


def state_table(group: GroupDescribed, status: GroupFinding, *, verbose: bool) -> CellTable:
    """Return a table with the state of a group. ``verbose`` adds epochs, in the column order of Kafka's own tool."""
    epochs = (group.group_epoch, group.assignment_epoch)
    coordinator = f"{group.coordinator or ''} ({group.coordinator_id})".lstrip()
    columns: tuple[str, ...] = ("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE")
    row: tuple[object, ...] = (group.group, coordinator, group.assignor, group.state)
    if verbose:
        columns, row = (*columns, "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"), (*row, *epochs)
    columns, row = (*columns, "#MEMBERS", "LAG"), (*row, len(group.members), group.lag)
    if not verbose and group.group_type == "consumer":
        columns, row = (*columns, "GROUP-EPOCH", "TARGET-EPOCH"), (*row, *epochs)
    columns = (*columns, "HEALTH", "LAG-TIME", "ETA", "BLAME", "REBALANCES-1H", "LAST-REBALANCE")
    waited = lag_time_text(status.lag, status.lag_ms, complete=status.lag_ms_complete)
    blame = None if status.blame in ("none", "unknown") else status.blame
    found = (status.health, waited, eta_text(status.draining, status.eta_ms), blame, status.rebalances_1h)
    return columns, [(*row, *found, last_rebalance_text(status.last_rebalance))]


VIEWS = {"offsets": offsets_table, "topics": topics_table, "members": members_table, "state": state_table}


def _ranges(names: Iterable[str]) -> str:
    return in_ranges(partitions_named(names))


def numbered(names: Iterable[str]) -> str:
    """Format partitions like Kafka's own tool: ``orders:0,1,2;payments:1``."""
    numbers = by_topic(sorted(set(partitions_named(names))))
    return ";".join(f"{topic}:{','.join(map(str, of_topic))}" for topic, of_topic in sorted(numbers.items()))


class LagLimit(NamedTuple):
    records: int | None = None
    waited_ms: int | None = None


def limit_of(text: str | None) -> LagLimit:
    if text is None:
        return LagLimit()
    if text.isascii() and text.isdigit() and len(text) < 20:
        return LagLimit(records=int(text))
    try:
        return LagLimit(waited_ms=DURATION.convert(text, None, None))
    except click.BadParameter as error:
        raise click.BadParameter(
            f"{text[:40]!r}: expected a number of records (1000) or a duration (30s)", param_hint="--fail-above"
        ) from error


def lag_above(found: GroupFinding, limit: LagLimit) -> CheckNotMet | None:
    """Return an error if the lag of a group exceeds the limit or is unknown; otherwise None."""
    unknown = "is unknown" + (f" (unknown for {found.lag_unknown} of its partitions)" if found.lag_unknown else "")
    if limit.records is not None and (found.lag is None or found.lag_unknown or found.lag > limit.records):
        state = f"is {found.lag}" if found.lag is not None and found.lag > limit.records else unknown
        return CheckNotMet(f"the lag of {found.group!r} {state}; the limit is {limit.records} records")
    if limit.waited_ms is None:
        return None
    if found.lag_ms is not None and found.lag_ms > limit.waited_ms:
        state = f"is {span_text(found.lag_ms)}"
    elif found.lag is None or found.lag_ms is None or not found.lag_ms_complete:
        state = unknown
    else:
        return None
    return CheckNotMet(f"the lag time of {found.group!r} {state}; the limit is {span_text(limit.waited_ms)}")

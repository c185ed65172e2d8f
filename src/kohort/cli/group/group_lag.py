"""``kohort group status|members|partitions|lag``: how one group is now, the sentence first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import click

from kohort.cli.groups.sampling import Looks, look_at_one, look_options
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import DURATION
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import print_prose, print_table
from kohort.cli.terminal.wording import eta_text, lag_time_text, last_rebalance_text, rate_text, span_text
from kohort.results.groups import GroupLagTold, GroupMembersTold, GroupPartitionsTold, GroupStatusTold, TopicLagRow
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.insight.findings.groups import GroupFinding, PartitionFinding

N = TypeVar("N", int, float)
group_argument = click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)

STATUS_HELP = """Say in a sentence how GROUP is: state, members, lag in records and in time, and why it is not well.

One look tells what is behind. Whether it is read takes two or more: --watch-for 20s.

\b
Examples:
  kohort group status my-group
  kohort group status my-group --watch-for 20s
  kohort group status my-group --output json | jq .status.health
"""


@click.command("status", help=STATUS_HELP, short_help="Say in a sentence how a group is.")
@group_argument
@look_options
@cluster_options
@output_of(GroupStatusTold)
def status(group_id: str, looks: Looks, cluster: ClusterAccess, output: str) -> None:
    found, _ = look_at_one(cluster, group_id, looks)
    if output != "table":
        print_result(GroupStatusTold(status=found), output)
        return
    print_prose(found.sentence)
    for name, value in _facts(found):
        if value is not None:
            print_prose(str(value), indent=" " * 18, first=f"  {name:<16}")


def _facts(found: GroupFinding) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("HEALTH", f"{found.health or '- (cannot be told)'}  (confidence: {found.confidence})"),
        ("LAG", found.lag),
        ("LAG-TIME", lag_time_text(found.lag, found.lag_ms, complete=found.lag_ms_complete)),
        ("ETA", eta_text(found.draining, found.eta_ms)),
        ("BLAME", None if found.blame in ("none", "unknown") else found.blame),
        ("LAST-REBALANCE", last_rebalance_text(found)),
        ("REBALANCES-1H", found.rebalances_1h),
        ("ASSIGNOR", found.assignor),
        ("EPOCH" if found.protocol == "consumer" else "GENERATION", found.epoch),
    ]
    if found.stable_lag is not None and found.stable_lag != found.lag:
        facts.insert(2, ("STABLE-LAG", f"{found.stable_lag} for readers of committed records"))
    return facts + [("EVIDENCE", f"{fact.kind}: {fact.value}") for fact in found.evidence]


MEMBERS_HELP = """Show the members of GROUP: what each is doing, what it has, how far behind that is.

STATE is ok, stuck (it commits no progress), not-fetching (in some partitions), not-committing, rewinding, slow, hot
(far more waits for it than for the others) or idle. All but the last two take several looks: --watch-for 20s.

\b
Examples:
  kohort group members my-group --watch-for 20s
  kohort group members my-group --output json | jq '.members[].state'
"""


@click.command("members", help=MEMBERS_HELP, short_help="Show what each member is doing.")
@group_argument
@look_options
@cluster_options
@output_of(GroupMembersTold)
def members(group_id: str, looks: Looks, cluster: ClusterAccess, output: str) -> None:
    found, _ = look_at_one(cluster, group_id, looks)
    if output != "table":
        result = GroupMembersTold(group=found.group, sentence=found.sentence, members=list(found.members))
        print_result(result, output)
        return
    print_prose(found.sentence, err=True)
    columns = ("STATE", "CLIENT-ID", "MEMBER-ID", "INSTANCE-ID", "HOST", "#PARTITIONS", "LAG", "LAG-TIME", "ETA", "WHY")
    rows = [
        (
            one.state,
            one.who.client_id,
            one.who.member_id,
            one.who.instance_id,
            one.who.host,
            len(one.partitions),
            one.lag,
            lag_time_text(one.lag, one.lag_ms, complete=one.lag_ms_complete),
            eta_text(one.draining, one.eta_ms),
            one.reason,
        )
        for one in sorted(found.members, key=lambda one: (one.state == "ok", -(one.lag or 0), one.who.member_id))
    ]
    print_table(columns, rows, none="no members")


PARTITIONS_HELP = """Show the partitions of GROUP: where it is in each, how far behind, and how it goes on.

LEAD is how far what is read next is from the start of the log: what retention deletes next. STABLE-LAG is for readers
of committed records. OUT and IN are records a second, read and written, and take several looks: --watch-for 20s.

\b
Examples:
  kohort group partitions my-group
  kohort group partitions my-group --behind --watch-for 20s
"""


@click.command("partitions", help=PARTITIONS_HELP, short_help="Show where a group is in each partition.")
@group_argument
@click.option("--behind", is_flag=True, help="Only where something waits, or it is not known.")
@look_options
@cluster_options
@output_of(GroupPartitionsTold)
def partitions(group_id: str, behind: bool, looks: Looks, cluster: ClusterAccess, output: str) -> None:
    found, _ = look_at_one(cluster, group_id, looks)
    shown = [one for one in found.partitions if not behind or one.lag is None or one.blame != "none"]
    if output != "table":
        print_result(GroupPartitionsTold(group=found.group, sentence=found.sentence, partitions=shown), output)
        return
    print_prose(found.sentence, err=True)
    print_table(PARTITION_COLUMNS, [partition_cells(one) for one in shown], none="nothing waits" if behind else "none")


PARTITION_COLUMNS = (
    "STATUS",
    "TOPIC",
    "PARTITION",
    "CURRENT-OFFSET",
    "LOG-END-OFFSET",
    "LAG",
    "STABLE-LAG",
    "LAG-TIME",
    "LEAD",
    "OUT",
    "IN",
    "CLIENT-ID",
    "WHY",
)


def partition_cells(one: PartitionFinding) -> tuple[object, ...]:
    """Return a partition in a line."""
    return (
        one.status,
        one.topic,
        one.partition,
        one.committed,
        one.log_end,
        one.lag,
        one.stable_lag,
        lag_time_text(one.lag, one.lag_ms, complete=True),
        one.lead,
        rate_text(one.read_per_s),
        rate_text(one.written_per_s),
        None if one.owner is None else one.owner.client_id,
        one.unknown or one.reason,
    )


LAG_HELP = """Say how far GROUP is behind, by topic, and what causes it; for scripts: --fail-above.

With --fail-above 1000 (records) or 30s (since the next record was appended) the exit code is 7 where the lag is above,
and where it cannot be told.

\b
Examples:
  kohort group lag my-group
  kohort group lag my-group --fail-above 1000
  kohort group lag my-group --fail-above 30s || page-somebody
"""


@click.command("lag", help=LAG_HELP, short_help="Say how far a group is behind, and check it.")
@group_argument
@click.option("--fail-above", metavar="N|DURATION", help="Exit with 7 where the lag is above, as 1000 or 30s.")
@look_options
@cluster_options
@output_of(GroupLagTold)
def lag(group_id: str, fail_above: str | None, looks: Looks, cluster: ClusterAccess, output: str) -> None:
    records, waited_ms = limit_of(fail_above)
    found, _ = look_at_one(cluster, group_id, looks)
    rows = topic_rows(found)
    if output != "table":
        result = GroupLagTold(
            group=found.group,
            sentence=found.sentence,
            lag=found.lag,
            stable_lag=found.stable_lag,
            lag_ms=found.lag_ms,
            lag_ms_complete=found.lag_ms_complete,
            eta_ms=found.eta_ms,
            draining=found.draining,
            blame=found.blame,
            topics=rows,
        )
        print_result(result, output)
    else:
        print_prose(found.sentence, err=True)
        columns = ("TOPIC", "#PARTITIONS", "BEHIND", "LAG", "STABLE-LAG", "LAG-TIME", "LEAD", "OUT", "IN", "ETA")
        print_table(columns, [_topic_cells(row, found) for row in rows], none="nothing was committed")
    check(found, records, waited_ms)


def limit_of(text: str | None) -> tuple[int | None, int | None]:
    """Return the limit in records and that in milliseconds, of which one is said. Raises BadParameter for neither."""
    if text is None:
        return None, None
    if text.isascii() and text.isdigit() and len(text) < 20:
        return int(text), None
    try:
        return None, DURATION.convert(text, None, None)
    except click.BadParameter as error:
        message = f"{text[:40]!r}: expected a number of records, as 1000, or a duration, as 30s"
        raise click.BadParameter(message, param_hint="--fail-above") from error


def check(found: GroupFinding, records: int | None, waited_ms: int | None) -> None:
    """Raise CheckNotMet where the lag is above a limit, or cannot be told."""
    if records is not None and (found.lag is None or found.lag_unknown or found.lag > records):
        above = found.lag is not None and found.lag > records
        told = f"is {found.lag}" if above else "cannot be told" + _silent(found)
        raise CheckNotMet(f"the lag of {found.group!r} {told}; {records} records are allowed")
    if waited_ms is None:
        return
    if found.lag_ms is not None and found.lag_ms > waited_ms:
        told = f"has waited for {span_text(found.lag_ms)}"
    elif found.lag is None or found.lag_ms is None or not found.lag_ms_complete:
        told = "has waited for a time that cannot be told" + _silent(found)
    else:
        return
    raise CheckNotMet(f"what {found.group!r} reads next {told}; {span_text(waited_ms)} are allowed")


def _silent(found: GroupFinding) -> str:
    if not found.lag_unknown:
        return ""
    return f" (nothing is known of {found.lag_unknown} of its partitions: `kohort group partitions` has which)"


def topic_rows(found: GroupFinding) -> list[TopicLagRow]:
    """Return the lag by topic, the largest first; topics that are no longer read are left out."""
    by_topic: dict[str, list[PartitionFinding]] = {}
    for one in found.partitions:
        if one.blame != "not_subscribed":
            by_topic.setdefault(one.topic, []).append(one)
    rows = [
        TopicLagRow(
            topic=topic,
            partitions=len(parts),
            behind=sum(one.blame != "none" for one in parts),
            lag=_sum(one.lag for one in parts),
            stable_lag=_sum(one.stable_lag for one in parts),
            lag_ms=max((one.lag_ms for one in parts if one.lag_ms is not None), default=None),
            lead=min((one.lead for one in parts if one.lead is not None), default=None),
            written_per_s=_sum(one.written_per_s for one in parts),
            read_per_s=_sum(one.read_per_s for one in parts),
            eta_ms=None
            if any(one.eta_ms is None for one in parts)
            else max((one.eta_ms for one in parts if one.eta_ms is not None), default=None),
        )
        for topic, parts in by_topic.items()
    ]
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.topic))


def _sum(values: Iterable[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _topic_cells(row: TopicLagRow, found: GroupFinding) -> tuple[object, ...]:
    return (
        row.topic,
        row.partitions,
        row.behind,
        row.lag,
        row.stable_lag,
        lag_time_text(row.lag, row.lag_ms, complete=found.lag_ms_complete),
        row.lead,
        rate_text(row.read_per_s),
        rate_text(row.written_per_s),
        None if row.eta_ms is None else span_text(row.eta_ms),
    )

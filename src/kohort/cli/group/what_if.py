"""``kohort group what-if``: use the real assignors to predict the effect of a change on a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from kohort.cli.groups.sampling import SamplingOptions, samples_of
from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import ADMIN_MS, DURATION
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import print_prose, print_table
from kohort.errors import UsageError
from kohort.results.groups import GroupWhatIf
from kohort.verbs.groups import is_missing, no_such_group
from kohort.verbs.predicting import MOST_NEW_MEMBERS, check_scenario, most_and_least, predict

if TYPE_CHECKING:
    from kohort.insight.findings.what_if import DrainFinding, WhatIfFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.insight.what_if.predict import Racks
    from kohort.insight.what_if.scenario import Assumptions

ASSUMED: Final = {
    "session.timeout.ms": ("session_timeout_ms",),
    "heartbeat.interval.ms": ("heartbeat_ms", "consumer_heartbeat_ms"),
    "max.poll.interval.ms": ("max_poll_interval_ms",),
}
RATE = click.FloatRange(min=0, min_open=True)

HELP = """Predict the effect of a change on GROUP, without executing it.

The command computes assignments with kohort's assignors. It predicts the owners and pauses of partitions, the number of
rebalances (rounds), and idle members. MEMBER is a member id, an instance id, or a unique client id. --rolling-restart
can be combined with --static, --assignor, --partitions and --to-consumer. If the rates of records are set (--in-rate,
--drain-rate) or sampled (--watch-for 20s), the command also predicts the peak of the lag and the time to catch up.

A cluster does not report the timeouts of its clients: the prediction assumes Kafka's defaults. --assume sets
session.timeout.ms, heartbeat.interval.ms, max.poll.interval.ms or restart. restart is the minimum and the maximum time
of a process restart, such as restart=5s..30s.

\b
Examples:
  kohort group what-if my-group --add 3 --compare
  kohort group what-if my-group --kill c-2:sigkill
  kohort group what-if my-group --partitions my-topic=24
  kohort group what-if my-group --rolling-restart --to-consumer
  kohort group what-if my-group --remove c-2 --in-rate 900 --drain-rate 400
"""


@click.command("what-if", help=HELP, short_help="Predict the effect of a change on a group.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--add", type=click.IntRange(1, MOST_NEW_MEMBERS), metavar="N", help="Number of members to add.")
@click.option("--remove", multiple=True, metavar="MEMBER", help="Member that leaves the group; repeatable.")
@click.option(
    "--kill",
    multiple=True,
    metavar="MEMBER[:HOW]",
    help="Member that fails or closes. HOW is sigkill (the default), poll (stops polling) or close (leaves the group).",
)
@click.option("--assignor", metavar="NAME", help="New assignor of the group.")
@click.option("--partitions", multiple=True, metavar="TOPIC=N", help="New number of partitions of a topic.")
@click.option("--rolling-restart", is_flag=True, help="Predict a rolling restart of all members.")
@click.option("--static", is_flag=True, help="Assume instance ids for all added or restarted members.")
@click.option("--to-consumer", is_flag=True, help="Switch to the consumer protocol (KIP-848).")
@click.option("--in-rate", type=click.FloatRange(min=0), metavar="N", help="Records per second written to the topics.")
@click.option("--drain-rate", type=RATE, metavar="N", help="Records per second that one member processes.")
@click.option("--watch-for", "watch_ms", type=DURATION, help="Sampling time to measure both rates, such as 20s.")
@click.option(
    "--assume",
    multiple=True,
    metavar="KEY=TIME",
    help="Timeout or restart time to assume, such as session.timeout.ms=10s; repeatable.",
)
@click.option("--compare", is_flag=True, help="Compare the predictions of all assignors.")
@cluster_options
@output_of(GroupWhatIf)
def what_if(group_id: str, cluster: ClusterAccess, output: str, compare: bool, **change: Any) -> None:
    try:
        check_scenario(change)
        sampling = SamplingOptions(watch_ms=change["watch_ms"] or 0, append_times=0)
        snapshots, racks = _sample(cluster, group_id, sampling)
        result = predict(snapshots, racks, change, assumptions_of(change["assume"]), compare=compare)
    except UsageError as error:
        raise click.UsageError(str(error)) from error
    found = result.prediction
    if found.drain is None and any(change[name] is not None for name in ("in_rate", "drain_rate", "watch_ms")):
        print_prose("no lag is predicted: no member was busy enough to measure its rate", err=True)
        print_prose("add --drain-rate, and --in-rate or --watch-for", err=True)
    if output != "table":
        print_result(result, output)
        return
    _print(snapshots[-1], found)
    if result.compare:
        columns = ("PROTOCOL", "ASSIGNOR", "ROUNDS", "MOVED", "MOVED-IN-ALL", "PAUSE", "IDLE", "MAX/MIN")
        rows = [
            (c.protocol, c.assignor, c.rounds, c.moved, c.moved_in_all, _range(c.pause_from_s, c.pause_to_s), c.idle,
             f"{c.most_partitions}/{c.least_partitions}")
            for c in result.compare
        ]  # fmt: skip
        click.echo()
        print_table(columns, rows)


def assumptions_of(texts: Sequence[str]) -> Assumptions:
    from kohort.insight.what_if.scenario import Assumptions

    found: dict[str, int] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        least, _, most = value.partition("..")
        if not equals or (name not in ASSUMED and name != "restart"):
            raise click.UsageError(f"--assume {text!r}: expected KEY=TIME, with one of {', '.join(ASSUMED)}, restart")
        try:
            from_ms = DURATION.convert(least, None, None)
            to_ms = DURATION.convert(most, None, None) if most else from_ms
        except click.BadParameter as error:
            raise click.UsageError(f"--assume {text!r}: {error.message}") from error
        if to_ms < from_ms or (most and name != "restart"):
            raise click.UsageError(f"--assume {text!r}: expected {name}={'5s..30s' if name == 'restart' else '10s'}")
        if name == "restart":
            found |= {"restart_from_ms": from_ms, "restart_to_ms": to_ms}
        else:
            found |= dict.fromkeys(ASSUMED[name], from_ms)
    return Assumptions(**found)


def _sample(cluster: ClusterAccess, group_id: str, sampling: SamplingOptions) -> tuple[list[GroupSnapshot], Racks]:
    from kohort.watch.sampling import racks_of

    found: list[GroupSnapshot] = []
    with cluster.admin() as admin:
        for sample in samples_of(admin, [group_id], sampling):
            error = sample.errors.get(group_id)
            if error is not None:
                raise no_such_group(admin, group_id) if is_missing(error) else error
            found += sample.groups
        return found, racks_of(admin, found[-1].partition_counts, timeout_ms=ADMIN_MS)


def _range(least: float, most: float) -> str:
    return f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}"


def _drain_text(drain: DrainFinding) -> str:
    if drain.drained_from_s is None:
        when = "never catches up"
    elif drain.drained_to_s is None:
        when = f"catches up after {drain.drained_from_s:.3g} s in the best case, never in the worst"
    else:
        when = f"catches up after {_range(drain.drained_from_s, drain.drained_to_s)} s"
    peak = " to ".join(dict.fromkeys((f"{drain.peak_lag_from}", f"{drain.peak_lag_to}")))
    last = f", {drain.slowest} last" if drain.slowest and drain.drained_to_s != 0 else ""
    unread = f"; {drain.unread} partitions would have no owner" if drain.unread else ""
    return f"lag: at most {peak} records, {when}{last}{unread}"


def _print(snapshot: GroupSnapshot, found: WhatIfFinding) -> None:
    print_prose(
        f"now: members {found.members_before}, partitions {sum(snapshot.partition_counts.values())}, "
        f"{snapshot.assignor or '-'} ({snapshot.protocol})   simulation, not executed"
    )
    print_prose(f"what if: {found.scenario}")
    most, least = most_and_least(found)
    print_prose(
        f"after: members {found.members_after}, {found.assignor} ({found.protocol})   rounds {found.rounds}   "
        f"moved {len(found.moves)}/{found.partitions}   "
        f"pause {_range(found.pause_from_s, found.pause_to_s)} partition-seconds   idle {len(found.idle)}   "
        f"max/min load {most}/{least}"
    )
    if found.drain is not None:
        print_prose(_drain_text(found.drain))
    for note in found.notes:
        print_prose(note, indent=" " * 8, first="note: ")
    for sentence in found.assumptions:
        print_prose(sentence, indent=" " * 8, first="assumed: ")
    click.echo()
    loads = [
        (m.client_id, m.member_id, m.partitions_before, m.partitions_after, m.lag_before, m.lag_after)
        for m in found.loads
    ]
    print_table(("CLIENT-ID", "MEMBER-ID", "#BEFORE", "#AFTER", "LAG-BEFORE", "LAG-AFTER"), loads)
    if found.moves:
        click.echo()
        moves = [(one.topic, one.partition, one.before, one.after) for one in found.moves]
        print_table(("TOPIC", "PARTITION", "FROM", "TO"), moves)

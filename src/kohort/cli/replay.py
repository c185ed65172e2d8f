"""``kohort group replay``: what recorded rebalances would have moved with other assignors. Nothing is executed."""

from __future__ import annotations

import time

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.durations import DURATION
from kohort.cli.journal import read_journal
from kohort.cli.output import output_of, print_result
from kohort.cli.show import print_prose, print_table, time_text
from kohort.results.what_if import GroupReplayed
from kohort.verbs.refusals import NothingThere

HELP = """Say what GROUP's rebalances would have moved with each assignor, and with the consumer protocol.

The journal tells who came, who went, and what each had. The same comings and goings are given to the very assignors,
each of which begins from what it dealt itself: what the last deploy moved, and what it would have moved with
cooperative-sticky. Nothing is executed. On Apache Kafka it takes a `kohort watch` that saw it.

\b
Examples:
  kohort group replay my-group
  kohort group replay my-group --since 1d
"""


@click.command("replay", help=HELP, short_help="Say what other assignors would have moved.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--since", "since_ms", type=DURATION, default="1h", show_default=True, help="The rebalances since then.")
@cluster_options
@output_of(GroupReplayed)
def replay(group_id: str, since_ms: int, cluster: ClusterAccess, output: str) -> None:
    from kohort.insight.what_if.replaying import recorded_generations
    from kohort.insight.what_if.replaying import replay as replayed

    generations = recorded_generations(read_journal(cluster, group_id))
    from_ms = int(time.time() * 1000) - since_ms
    before = sum(one.at_ms < from_ms for one in generations)
    shown = generations[max(0, before - 1) :]
    if len(shown) < 2:
        raise NothingThere(f"the journal of {cluster.address} has nothing of group {group_id!r} in that time to replay")
    found = replayed(group_id, shown)
    if output != "table":
        print_result(GroupReplayed(group=group_id, replay=found), output)
        return
    print_prose(f"since {time_text(found.from_ms)}: {found.sentence}.   simulation; nothing is executed")
    for note in found.notes:
        print_prose(note, indent=" " * 9, first="assumed: ")
    click.echo()
    rows = [
        (
            one.protocol,
            one.assignor,
            one.rounds,
            one.moved,
            f"{one.pause_from_s:.3g} to {one.pause_to_s:.3g}",
            "as it was" if (one.protocol, one.assignor) == (found.protocol, found.assignor) else "",
        )
        for one in found.replays
    ]
    print_table(("PROTOCOL", "ASSIGNOR", "ROUNDS", "MOVED", "PAUSE", "NOTE"), rows)

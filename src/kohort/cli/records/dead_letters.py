"""``kohort dead-letters``: count, show and replay records that a handler could not handle."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_partitions, complete_topics
from kohort.cli.terminal.options import partition_in
from kohort.cli.terminal.output import output_of, print_result, report_rows
from kohort.cli.terminal.show import print_prose, time_text
from kohort.results.dead_letters import DeadLetterShown, DeadLettersListed, DeadLettersReplayed

MOST: Final = 100_000
LIST_HELP = """Count the dead letters of TOPICs by origin, group and reason.

Without TOPIC: all topics whose names end in -dlt or begin with dlq. The reason is the class of the exception, or the
message of a broker. The command reads the records, joins no group and commits no offsets.

\b
Examples:
  kohort dead-letters list
  kohort dead-letters list payments-dlt --max 1000
"""
SHOW_HELP = """Show the dead letter at OFFSET: origin, reason, stack trace, key, value and headers.

--output json has base64 for bytes that are not UTF-8.

\b
Examples:
  kohort dead-letters show payments-dlt:0 17
"""
REPLAY_HELP = """Send the dead letters of TOPIC back to their origin topic and partition.

The group TOPIC-replay commits how far the dead letters were sent, so the next replay sends only newer ones. With
--reason, --from-offset or --to-offset nothing is committed: the command prints the next offsets. Delivery is at least
once, and all consumers of the origin topic read the records again.

Error headers are removed; the header __dlq.replayed.from names the dead letter. A replayed record gets the present time
and a higher offset than newer records of its key. In a compacted topic it replaces these records.

\b
Examples:
  kohort dead-letters replay payments-dlt --dry-run
  kohort dead-letters replay payments-dlt --reason ValueError
  kohort dead-letters replay failed --origin payments --limit 10
"""


@click.group("dead-letters", short_help="Count, show and replay records that handlers could not handle.")
def dead_letters() -> None:
    """Count, show and replay dead letters: records that handlers could not handle."""


@dead_letters.command("list", help=LIST_HELP, short_help="Count dead letters by origin, group and reason.")
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=1),
    default=MOST,
    help=f"Maximum number of records to read from each partition, the newest ones [{MOST:,}].",
)
@cluster_options
@output_of(DeadLettersListed)
def list_dead_letters(topics: tuple[str, ...], most: int, cluster: ClusterAccess, output: str) -> None:
    from kohort.verbs.dead_letters import count_dead_letters, dead_letter_topics

    with cluster.admin() as admin:
        result = count_dead_letters(admin, cluster.consumer, topics or dead_letter_topics(admin), most)
    columns = ("TOPIC", "ORIGIN", "GROUP", "REASON", "COUNT", "OLDEST", "NEWEST")
    rows = [
        (c.topic, c.origin, c.group, c.reason, c.count, *map(_time, (c.oldest_ms, c.newest_ms)))
        for c in result.dead_letters
    ]
    report_rows(output, result, columns, rows, none="no dead letters")
    if result.unread:
        print_prose(f"{result.unread:,} older offsets were not read: raise --max", err=True)


def _time(ms: int | None) -> str | None:
    return None if ms is None else time_text(ms).removesuffix(" UTC")


@dead_letters.command("show", help=SHOW_HELP, short_help="Show a dead letter with its headers.")
@click.argument("place", metavar="TOPIC:PARTITION", shell_complete=complete_partitions)
@click.argument("offset", type=click.IntRange(min=0))
@cluster_options
@output_of(DeadLetterShown)
def show(place: str, offset: int, cluster: ClusterAccess, output: str) -> None:
    from kohort.verbs.dead_letters import dead_letter_at

    partition = partition_in(place, given_as="TOPIC:PARTITION")
    with cluster.admin() as admin:
        result = dead_letter_at(admin, cluster.consumer, partition, offset)
    if output != "table":
        print_result(result, output)
        return
    names = ("origin", "group", "attempts", "stage", "reason", "message", "key", "value")
    rows = [("time", _time(result.timestamp_ms)), *((name, getattr(result, name)) for name in names)]
    rows += [(f"header {header.name}", header.value) for header in result.headers if not _is_shown(header.name)]
    report_rows(output, result, ("FIELD", "VALUE"), rows)
    for line in (result.stack or "").splitlines():
        print_prose(line)


def _is_shown(header: str) -> bool:
    """Return True for a header that the other fields contain."""
    from kohort.client.handling.failures import PREFIXES

    return header.startswith(PREFIXES)


@dead_letters.command("replay", help=REPLAY_HELP, short_help="Send dead letters back to their origin topic.")
@click.argument("topic", shell_complete=complete_topics)
@click.option("--dry-run", is_flag=True, help="Only count the dead letters for each reason.")
@click.option("--tombstones", is_flag=True, help="Also send tombstones (records without a value).")
@click.option(
    "--origin",
    "origins",
    metavar="TOPIC",
    multiple=True,
    help="Origin topic to replay to [name of TOPIC without -dlt]; repeatable.",
)
@click.option("--reason", "reasons", multiple=True, help="Send only dead letters with this reason; repeatable.")
@click.option("--from-offset", type=click.IntRange(min=0), help="First offset of each partition to send.")
@click.option("--to-offset", type=click.IntRange(min=0), help="Last offset of each partition to send.")
@click.option("--limit", type=click.IntRange(min=1), help="Maximum number of dead letters to send.")
@cluster_options
@output_of(DeadLettersReplayed)
def replay(
    topic: str,
    dry_run: bool,
    tombstones: bool,
    origins: tuple[str, ...],
    reasons: tuple[str, ...],
    from_offset: int | None,
    to_offset: int | None,
    limit: int | None,
    cluster: ClusterAccess,
    output: str,
) -> None:
    from kohort.client.handling.copies import MOVING
    from kohort.verbs.dead_letters import Replay, Selection, default_origin, partitions_of

    if from_offset is not None and to_offset is not None and from_offset > to_offset:
        raise click.UsageError(
            f"--from-offset {from_offset} is above --to-offset {to_offset}: no record is between them"
        )
    selection = Selection(
        origins=origins or (default_origin(topic),),
        reasons=reasons,
        first=from_offset,
        last=to_offset,
        most=limit,
        tombstones=tombstones,
    )
    group = f"{topic}-replay"
    options = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
    }
    with ExitStack() as stack:
        partitions = partitions_of(stack.enter_context(cluster.admin()), topic)
        consumer = stack.enter_context(cluster.consumer(options))
        producer = None if dry_run else stack.enter_context(cluster.producer(MOVING))
        result = Replay(topic, selection, consumer, producer).run(partitions, group)
    rows = [(c.origin, c.reason, c.count) for c in result.replayed]
    report_rows(output, result, ("ORIGIN", "REASON", "COUNT"), rows, none="no dead letters to replay")
    if output == "table":
        explain(result)


def explain(result: DeadLettersReplayed) -> None:
    """Print totals, skipped records, and how the next replay continues, on stderr."""
    count = sum(c.count for c in result.replayed)
    print_prose(f"{count:,} dead letters {'to send back' if result.dry_run else 'sent back'}", err=True)
    if result.others:
        print_prose(f"{result.others:,} of other origins skipped: --origin with --from-offset selects them", err=True)
    if result.tombstones:
        print_prose(
            f"{result.tombstones:,} tombstones skipped: --tombstones with --from-offset deletes their keys",
            err=True,
        )
    if result.dry_run or not count:
        return
    if result.group is None:
        places = ", ".join(f"{result.topic}:{n.partition} at {n.offset}" for n in result.next)
        print_prose(f"not committed: the next replay sends them again; it would continue with {places}", err=True)
    print_prose("replayed records now come after newer records of their keys: check these keys", err=True)

"""``kohort transactions find-hanging``, and the end of one that hangs: what partitions have open and no coordinator
knows of any more."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.cluster import ClusterAccess, cluster_options
from kohort.cli.exits import exit_code_of
from kohort.cli.options import ADMIN_MS, confirm
from kohort.cli.output import output_of, print_result
from kohort.cli.show import harmless, print_prose, print_table
from kohort.model import TopicPartition
from kohort.results.cluster import HangingTransactionsFound

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.verbs.hanging_transactions import OpenTransaction

LONGEST_S: Final = 900
"""How long a transaction may take where a broker's ``transaction.max.timeout.ms`` has its default."""
COLUMNS: Final = {
    "TOPIC": "topic",
    "PARTITION": "partition",
    "PRODUCER-ID": "producer_id",
    "EPOCH": "producer_epoch",
    "COORDINATOR-EPOCH": "coordinator_epoch",
    "START-OFFSET": "start_offset",
    "SILENT": "silent_seconds",
    "TRANSACTIONAL-ID": "transactional_id",
}
FIND_HELP = """Find transactions that a partition has open and that no coordinator will end.

Readers of committed records wait at START-OFFSET for good, and so do groups whose offsets are in such a transaction
(in __consumer_offsets). One hangs if its producer is silent for longer than any transaction may take (SILENT, in
seconds, by the time stamp of its last batch), and no coordinator has the partition in a transaction of that producer.

All topics are looked at, internal ones too. It takes READ on them and DESCRIBE on the transactional ids: whoever may
not describe an id is not told of it, and its transaction looks as if it hung. End one with kohort transactions abort
--partition.

\b
Examples:
  kohort transactions find-hanging
  kohort transactions find-hanging --topic orders --topic __consumer_offsets
  kohort transactions find-hanging --open-for 3600 --output json
"""


@click.command("find-hanging", help=FIND_HELP, short_help="Find transactions that no coordinator will end.")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Only in this topic; may be repeated.")
@click.option(
    "--open-for",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=LONGEST_S,
    show_default=True,
    help="Only of producers that are silent for so long; the brokers' transaction.max.timeout.ms or more.",
)
@cluster_options
@output_of(HangingTransactionsFound)
def find_hanging_transactions(topics: tuple[str, ...], open_for: float, cluster: ClusterAccess, output: str) -> None:
    from kohort.verbs.hanging_transactions import find_hanging

    with cluster.admin() as admin:
        found = find_hanging(admin, topics, silent_ms=open_for * 1000, now_ms=time.time() * 1000)
    for text in dict.fromkeys(str(error) for error in found.errors):  # a broker that is too old says one thing of all
        click.echo(harmless(f"kohort transactions: not seen: {text}"), err=True)
    if output != "table":
        print_result(HangingTransactionsFound(transactions=found.transactions), output)
    else:
        rows = [[getattr(row, key) for key in COLUMNS.values()] for row in found.transactions]
        print_table(tuple(COLUMNS), rows, none="no transaction hangs")
        if not rows:
            print_prose(f"no transaction hangs in {found.partitions} partitions", err=True)
    if found.errors:
        click.get_current_context().exit(exit_code_of(found.errors[-1]))


def abort_hanging(admin: Admin, partition: TopicPartition, start_offset: int, *, yes: bool) -> None:
    """Abort what a partition has open from an offset on, by a marker of its own; ask before, unless ``yes``."""
    from kohort.verbs.hanging_transactions import open_at

    found = open_at(admin, partition, start_offset)
    producer = found.producer
    if not yes:
        confirm(question(admin, found), yes=False)
    numbers = (producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)
    admin.abort_transaction(partition, *numbers, timeout_ms=ADMIN_MS)
    click.echo(
        f"{partition}: what producer id {producer.producer_id} had open from offset {start_offset} on is aborted"
    )


def question(admin: Admin, found: OpenTransaction) -> str:
    """Return what is asked before a transaction is aborted: whose it is, and whether its coordinator knows of it."""
    from kohort.verbs.hanging_transactions import known_to_coordinator

    producer = found.producer
    what = (
        f"the transaction in {found.partition} from offset {producer.transaction_start_offset} on"
        f" (producer id {producer.producer_id}, epoch {producer.producer_epoch})"
    )
    known = known_to_coordinator(admin, found)
    if known is None:
        return f"No coordinator knows of {what}. Abort it?"
    name = harmless(known.transactional_id)
    return (
        f"{what[0].upper()}{what[1:]} does not hang: it is of {name!r} ({known.state}), whose coordinator may still"
        f" commit it; kohort transactions abort {name} ends it whole. Abort it in this partition all the same?"
    )

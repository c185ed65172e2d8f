"""``kohort transactions``: list, describe and abort transactions, and find hanging transactions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click
import msgspec

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options
from kohort.cli.terminal.exits import exit_code_of
from kohort.cli.terminal.options import ADMIN_MS, confirm, partition_in, yes_option
from kohort.cli.terminal.output import output_of, report, report_rows
from kohort.cli.terminal.show import harmless, print_prose
from kohort.model import TopicPartition
from kohort.notes import printable
from kohort.results.cluster import HangingTransactionsFound, TransactionDescribed, TransactionRow, TransactionsListed

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import TransactionDescription
    from kohort.verbs.transactions import OpenTransaction

LONGEST_S: Final = 900
"""Default of ``--open-for`` in seconds: Kafka's default of ``transaction.max.timeout.ms``."""
HANGING_COLUMNS: Final = {
    "TOPIC": "topic",
    "PARTITION": "partition",
    "PRODUCER-ID": "producer_id",
    "EPOCH": "producer_epoch",
    "COORDINATOR-EPOCH": "coordinator_epoch",
    "START-OFFSET": "start_offset",
    "SILENT": "silent_seconds",
    "TRANSACTIONAL-ID": "transactional_id",
}
FIND_HELP = """Find open transactions that no coordinator will end.

A hanging transaction blocks read_committed consumers at START-OFFSET; in __consumer_offsets, it blocks groups whose
offsets it commits. A transaction hangs if its producer has been silent (SILENT, in seconds) for longer than the longest
transaction timeout, and no coordinator has the partition in a transaction of that producer.

The command needs READ on topics and DESCRIBE on transactional ids. Without DESCRIBE, a healthy transaction looks like a
hanging one. kohort transactions abort --partition ends a hanging transaction.

\b
Examples:
  kohort transactions find-hanging
  kohort transactions find-hanging --topic orders --open-for 3600
"""


@click.command("find-hanging", help=FIND_HELP, short_help="Find transactions that no coordinator will end.")
@click.option("--topic", "topics", metavar="TOPIC", multiple=True, help="Topic to search [all topics]; repeatable.")
@click.option(
    "--open-for",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=LONGEST_S,
    help=f"Minimum age of the producer's last batch [{LONGEST_S}]. At least transaction.max.timeout.ms of the brokers.",
)
@cluster_options
@output_of(HangingTransactionsFound)
def find_hanging_transactions(topics: tuple[str, ...], open_for: float, cluster: ClusterAccess, output: str) -> None:
    from kohort.verbs.transactions import find_hanging

    with cluster.admin() as admin:
        found = find_hanging(admin, topics, silent_ms=open_for * 1000, now_ms=time.time() * 1000)
    # print equal errors only once: an old broker returns the same error for every partition
    for text in dict.fromkeys(str(error) for error in found.errors):
        click.echo(harmless(f"kohort transactions: not searched: {text}"), err=True)
    result = HangingTransactionsFound(transactions=found.transactions)
    report(output, result, HANGING_COLUMNS, none="no transaction hangs")
    if output == "table" and not found.transactions:
        print_prose(f"no transaction hangs in {found.partitions} partitions", err=True)
    if found.errors:
        click.get_current_context().exit(exit_code_of(found.errors[-1]))


def abort_hanging(admin: Admin, partition: TopicPartition, start_offset: int, *, yes: bool) -> None:
    """Abort the open transaction that starts at ``start_offset``, in this partition only: write an abort marker."""
    from kohort.verbs.transactions import open_at

    found = open_at(admin, partition, start_offset)
    producer = found.producer
    if not yes:
        confirm(question(admin, found), yes=False)
    numbers = (producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)
    admin.abort_transaction(partition, *numbers, timeout_ms=ADMIN_MS)
    click.echo(f"{partition}: aborted the transaction of producer id {producer.producer_id} from offset {start_offset}")


def question(admin: Admin, found: OpenTransaction) -> str:
    from kohort.verbs.transactions import known_to_coordinator

    producer = found.producer
    transaction = (
        f"transaction in {found.partition} from offset {producer.transaction_start_offset} "
        f"(producer id {producer.producer_id}, epoch {producer.producer_epoch})"
    )
    known = known_to_coordinator(admin, found)
    if known is None:
        return f"No coordinator has the {transaction}. Abort it?"
    name = harmless(known.transactional_id)
    return (
        f"The {transaction} does not hang: the coordinator of {name!r} ({known.state}) may still commit it. kohort "
        f"transactions abort {name} aborts it in all partitions. Abort it in this partition anyway?"
    )


LIST_HELP = """List the transactional ids of the cluster, the longest open transaction first.

SECONDS is the age of the open transaction; read_committed consumers wait for its end.

\b
Examples:
  kohort transactions list --open-for 60
  kohort transactions list --state Ongoing --output json | jq .transactions
"""


@click.group(short_help="List, describe and abort transactions; find hanging ones.")
def transactions() -> None:
    """List, describe and abort transactions; find hanging transactions."""


@transactions.command("list", help=LIST_HELP, short_help="List transactional ids and their open transactions.")
@click.option(
    "--state",
    "states",
    metavar="STATE",
    multiple=True,
    help="Show only transactions in this state, such as Ongoing; repeatable.",
)
@click.option(
    "--open-for", type=click.FloatRange(min=0), metavar="SECONDS", help="Minimum age of the transactions to show."
)
@cluster_options
@output_of(TransactionsListed)
def list_transactions(states: tuple[str, ...], open_for: float | None, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        listed = admin.list_transactions(states=states, timeout_ms=ADMIN_MS)
        results = admin.describe_transactions([t.transactional_id for t in listed], timeout_ms=ADMIN_MS)
    for error in results.errors.values():
        click.echo(printable(f"kohort transactions: {error}"), err=True)
    found = [about(results[name]) for name in results if name not in results.errors]
    if open_for is not None:
        found = [t for t in found if t.seconds is not None and t.seconds >= open_for]
    found.sort(key=lambda t: (-(t.seconds or 0), t.transactional_id))
    columns = ("TRANSACTIONAL-ID", "STATE", "SECONDS", "PARTITIONS", "PRODUCER-ID", "EPOCH", "COORDINATOR")
    rows = [
        (t.transactional_id, t.state, t.seconds, len(t.partitions), t.producer_id, t.producer_epoch, t.coordinator_id)
        for t in found
    ]
    report_rows(output, TransactionsListed(transactions=found), columns, rows, none="no transactions")


def about(found: TransactionDescription) -> TransactionRow:
    seconds = None if found.started_ms is None else max(0.0, round(time.time() - found.started_ms / 1000, 1))
    return TransactionRow(
        transactional_id=found.transactional_id,
        state=found.state,
        seconds=seconds,
        timeout_ms=found.timeout_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_id=found.coordinator_id,
        partitions=[str(tp) for tp in found.partitions],
    )


DESCRIBE_HELP = """Show the age, partitions and timeout of the open transaction of TRANSACTIONAL_ID.

\b
Examples:
  kohort transactions describe importer-1
"""


@transactions.command("describe", help=DESCRIBE_HELP, short_help="Show the open transaction of a transactional id.")
@click.argument("transactional_id")
@cluster_options
@output_of(TransactionDescribed)
def describe_transaction(transactional_id: str, cluster: ClusterAccess, output: str) -> None:
    with cluster.admin() as admin:
        found = about(described(admin, transactional_id))
    fields = msgspec.structs.asdict(found)
    shown = {**fields, "partitions": ", ".join(found.partitions) or None}
    if found.seconds is not None:
        left_s = max(0.0, round(found.timeout_ms / 1000 - found.seconds, 1))
        shown["aborted in"] = f"{left_s:g} s, unless it ends before"
    rows = [(key.replace("_", " "), value) for key, value in shown.items()]
    report_rows(output, TransactionDescribed(**fields), ("FIELD", "VALUE"), rows)


def described(admin: Admin, transactional_id: str) -> TransactionDescription:
    return admin.describe_transactions([transactional_id], timeout_ms=ADMIN_MS)[transactional_id]


PARTITION: Final = "TOPIC-PARTITION"
ABORT_HELP = """Abort the open transaction of TRANSACTIONAL_ID, and fence its producer.

A running producer gets PRODUCER_FENCED and must be restarted. For a hanging transaction use --partition and
--start-offset, as shown by find-hanging: the command writes an abort marker into that partition, without a coordinator.

\b
Examples:
  kohort transactions abort importer-1
  kohort transactions abort --partition orders-2 --start-offset 707
"""


@transactions.command("abort", help=ABORT_HELP, short_help="Abort an open or a hanging transaction.")
@click.argument("transactional_id", required=False)
@click.option("--partition", metavar=PARTITION, help="Partition with a hanging transaction.")
@click.option("--start-offset", type=click.IntRange(min=0), metavar="OFFSET", help="First offset of the transaction.")
@yes_option
@cluster_options
def abort_transaction(
    transactional_id: str | None, partition: str | None, start_offset: int | None, yes: bool, cluster: ClusterAccess
) -> None:
    if (partition is None) != (start_offset is None):
        raise click.UsageError("--partition and --start-offset must be given together")
    if partition is not None and start_offset is not None:
        if transactional_id is not None:
            raise click.UsageError("TRANSACTIONAL_ID and --partition exclude each other")
        sign = ":" if ":" in partition else "-"
        place = partition_in(partition, sign, PARTITION, given_as="--partition")
        with cluster.admin() as admin:
            abort_hanging(admin, place, start_offset, yes=yes)
        return
    if transactional_id is None:
        raise click.UsageError("expected TRANSACTIONAL_ID, or --partition and --start-offset")
    with cluster.admin() as admin:
        # describe the transactional id first: the abort fences the id, and would create an unknown id
        found = described(admin, transactional_id)
        partitions = ", ".join(str(tp) for tp in found.partitions) or "no partition"
        confirm(f"Abort the transaction of {transactional_id!r} ({found.state}, {partitions})?", yes=yes)
        admin.fence_producers([transactional_id], timeout_ms=ADMIN_MS)
    click.echo(printable(f"{transactional_id}: the transaction is aborted and the producer is fenced"))


transactions.add_command(find_hanging_transactions)

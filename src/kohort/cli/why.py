"""``kohort group why``: what the rebalances of a group were about, from the journal that the broker keeps."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from kohort.cli.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.options import ADMIN_MS, output_option
from kohort.cli.show import cell, print_json, print_prose, print_table, time_text
from kohort.cli.why_epochs import epoch_rebalance_json, print_epoch_story
from kohort.cli.why_parts import MOVES_SHOWN, ago, evidence_json, move_json, print_evidence, print_fact
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.consuming.consumer import Consumer
    from kohort.coordinator.journal import JournalEntry
    from kohort.insight.epochs import EpochRebalance
    from kohort.insight.rebalances import Rebalance
    from kohort.insight.takeovers import Takeover
    from kohort.insight.why import Explanation

POLL_MS: Final = 500

HELP = """Say why GROUP rebalanced: what happened, on what evidence, who was waited for, which partitions moved.

The kohort broker writes a journal of what happens to groups, kept for seven days; this reads it. Apache Kafka keeps
none. Of a group whose coordinator assigns (group.protocol=consumer) it tells who has not yet given up what, and how
long each partition had no owner. A static member that was replaced without a rebalance is told, too, where it lies
between those shown.

\b
Examples:
  kohort group why my-group
  kohort group why my-group --last 5
  kohort group why my-group --last 0 --output json | jq '.rebalances[].cause'
"""


@click.command(help=HELP, short_help="Say why a group rebalanced.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--last", type=click.IntRange(min=0), default=1, show_default=True, help="How many; 0 for all.")
@cluster_options
@output_option
def why(group_id: str, last: int, cluster: ClusterAccess, output: str) -> None:
    from kohort.insight.takeovers import takeovers

    entries = read_journal(cluster, group_id)
    found = told_of(entries)
    taken = takeovers(entries)
    if not found and not taken:
        heard = f"{len(entries)} entries but no" if entries else "no"
        raise KohortError(f"the journal of {cluster.address} has {heard} rebalance of group {group_id!r}")
    shown = found[-last:] if last else found
    if last and shown:
        taken = [takeover for takeover in taken if takeover.at_ms >= shown[0].at_ms]
    if output == "json":
        about = [story.as_json() for story in shown]
        others = [takeover_json(takeover) for takeover in taken]
        print_json("group.why", {"group": group_id, "known": len(found), "rebalances": about, "takeovers": others})
        return
    click.echo(f"{len(found)} rebalance{'s' * (len(found) != 1)} of {cell(group_id)} in the journal", err=True)
    stories = [(story.at_ms, story.show) for story in shown]
    stories += [(takeover.at_ms, partial(print_takeover, takeover)) for takeover in taken]
    for i, (_, print_it) in enumerate(sorted(stories, key=itemgetter(0))):
        if i:
            click.echo()
        print_it()


class Story(NamedTuple):
    """A rebalance of either protocol: when it began, and how it is told."""

    at_ms: int
    show: Callable[[], None]
    as_json: Callable[[], dict[str, Any]]


def told_of(entries: list[JournalEntry]) -> list[Story]:
    """Return the rebalances of a group of either protocol, or of one after the other, oldest first."""
    from kohort.insight.epochs import epoch_rebalances
    from kohort.insight.rebalances import rebalances

    stories = [Story(r.opened_at_ms, partial(_show, r), partial(_as_json, r)) for r in rebalances(entries)]
    stories += [
        Story(r.opened_at_ms, partial(_show_epoch, r), partial(_epoch_as_json, r)) for r in epoch_rebalances(entries)
    ]
    return sorted(stories, key=itemgetter(0))


def _show(this: Rebalance) -> None:
    from kohort.insight.why import explain

    print_story(this, explain(this))


def _as_json(this: Rebalance) -> dict[str, Any]:
    from kohort.insight.why import explain

    return rebalance_json(this, explain(this))


def _show_epoch(this: EpochRebalance) -> None:
    from kohort.insight.epoch_why import explain_epoch

    print_epoch_story(this, explain_epoch(this))


def _epoch_as_json(this: EpochRebalance) -> dict[str, Any]:
    from kohort.insight.epoch_why import explain_epoch

    return epoch_rebalance_json(this, explain_epoch(this))


def read_journal(cluster: ClusterAccess, group_id: str) -> list[JournalEntry]:
    """Return the entries of a group, oldest first. Raises KohortError where the broker keeps no journal."""
    from kohort.coordinator.journal import TOPIC

    with cluster.admin() as admin:
        results = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
        error = results.errors.get(TOPIC)
        if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise KohortError(
                f"{cluster.address} has no journal of rebalances: it is no kohort broker, or no group was ever there"
            )
        partitions = [TopicPartition(TOPIC, p.partition) for p in results[TOPIC].partitions]
    with cluster.consumer({"allow.auto.create.topics": False}) as consumer:
        return entries_of(consumer, partitions, group_id)


def entries_of(consumer: Consumer, partitions: list[TopicPartition], group_id: str) -> list[JournalEntry]:
    """Read the journal to the end that it has now; entries that cannot be read are counted on stderr."""
    from kohort.insight.journal_reader import JournalReader

    reader = JournalReader(group_id)
    consumer.assign(partitions)
    consumer.seek_to_beginning(partitions)
    ends = consumer.end_offsets(partitions)
    deadline = time.monotonic() + ADMIN_MS / 1000
    while any(consumer.position(p, timeout_ms=ADMIN_MS) < ends[p] for p in partitions):
        records = consumer.poll(POLL_MS)
        for record in records:
            reader.add(record.key, record.value)
        if records:
            deadline = time.monotonic() + ADMIN_MS / 1000
        elif time.monotonic() > deadline:
            raise KohortError(f"the journal could not be read to its end within {ADMIN_MS // 1000} s")
    if reader.unread:
        click.echo(f"{reader.unread} entries of the journal are of a kind that this version cannot read", err=True)
    return reader.entries


def print_story(this: Rebalance, told: Explanation) -> None:
    """Print a rebalance for people: the sentence first, then what it stands on."""
    from kohort.insight.names import seconds

    after = "?" if this.generation is None else str(this.generation)
    click.echo(
        f"generation {this.from_generation} -> {after}  {time_text(this.opened_at_ms)}  ({ago(this.opened_at_ms)})"
    )
    print_prose(told.sentence)
    print_fact("CAUSE", f"{told.cause}  (confidence: {told.confidence})")
    if this.took_ms is not None:
        phases = " + ".join(f"{name} {seconds(ms)}" for name, ms in this.phases_ms.items())
        print_fact("TOOK", f"{seconds(this.took_ms)} = {phases}")
    print_evidence(told.evidence)
    if told.advice is not None:
        print_fact("ADVICE", told.advice)
    if this.moves:
        names = names_of(this)
        print_fact("MOVED", f"{len(this.moves)} partition{'s' * (len(this.moves) != 1)}")
        rows = [(f"{m.topic}-{m.partition}", *(owner(names, o) for o in (m.before, m.after))) for m in this.moves]
        print_table(("PARTITION", "FROM", "TO"), rows[:MOVES_SHOWN])
        if len(rows) > MOVES_SHOWN:
            click.echo(f"... and {len(rows) - MOVES_SHOWN} more: --output json has them all")


def print_takeover(this: Takeover) -> None:
    """Print of a static member that was replaced without a rebalance, as a rebalance is told."""
    click.echo(f"no rebalance  {time_text(this.at_ms)}  ({ago(this.at_ms)})")
    print_prose(this.sentence)
    print_fact("CAUSE", f"{this.cause}  (confidence: {this.confidence})")
    print_evidence(this.evidence)
    if this.advice is not None:
        print_fact("ADVICE", this.advice)


def names_of(this: Rebalance) -> dict[str, str]:
    """Return what to call each member."""
    from kohort.insight.names import name_of

    return {who.member_id: name_of(who) for who in (*this.members_before, *this.members_after)}


def owner(names: dict[str, str], member_id: str | None) -> str | None:
    """Return who owns a partition; nobody is None."""
    from kohort.insight.names import short_id

    return None if member_id is None else names.get(member_id) or short_id(member_id)


def rebalance_json(this: Rebalance, told: Explanation) -> dict[str, Any]:
    """Return a rebalance for programs."""
    return {
        "protocol": "classic",
        "from_generation": this.from_generation,
        "generation": this.generation,
        "opened_at_ms": this.opened_at_ms,
        "end": this.end,
        "cause": told.cause,
        "confidence": told.confidence,
        "sentence": told.sentence,
        "advice": told.advice,
        "took_ms": this.took_ms,
        "phases_ms": this.phases_ms,
        "evidence": evidence_json(told.evidence),
        "members": [
            {"member_id": w.member_id, "client_id": w.client_id, "host": w.client_host, "instance_id": w.instance_id}
            for w in this.members_after
        ],
        "moves": [move_json(move) for move in this.moves],
    }


def takeover_json(this: Takeover) -> dict[str, Any]:
    """Return a static member that was replaced, for programs."""
    return {
        "at_ms": this.at_ms,
        "instance_id": this.who.instance_id,
        "member_id": this.who.member_id,
        "client_id": this.who.client_id,
        "host": this.who.client_host,
        "old_member_id": this.old_member_id,
        "cause": this.cause,
        "confidence": this.confidence,
        "sentence": this.sentence,
        "advice": this.advice,
        "evidence": evidence_json(this.evidence),
    }

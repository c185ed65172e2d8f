"""How ``kohort group why`` tells of modern groups: epochs, targets against what members have, gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kohort.cli.show import print_prose, print_table, time_text
from kohort.cli.why_parts import MOVES_SHOWN, ago, evidence_json, move_json, print_evidence, print_fact

if TYPE_CHECKING:
    from kohort.insight.epochs import EpochRebalance, MemberRow
    from kohort.insight.holdings import Place
    from kohort.insight.why import Explanation


def print_epoch_story(this: EpochRebalance, told: Explanation) -> None:
    """Print a modern group's rebalance for people: the sentence first, then what it stands on."""
    from kohort.insight.names import seconds

    at_ms = this.opened_at_ms
    click.echo(f"epoch {this.from_epoch} -> {this.epoch}  {time_text(at_ms)}  ({ago(at_ms)})")
    print_prose(told.sentence)
    print_fact("CAUSE", f"{told.cause}  (confidence: {told.confidence})")
    if this.took_ms is not None:
        phases = " + ".join(f"{name} {seconds(ms)}" for name, ms in this.phases_ms.items())
        print_fact("TOOK", f"{seconds(this.took_ms)} = {phases}")
    print_evidence(told.evidence)
    if told.advice is not None:
        print_fact("ADVICE", told.advice)
    if this.members:
        print_fact("MEMBERS", "at the end of it" if this.end not in ("assigning", "reconciling") else "now")
        print_table(("MEMBER", "EPOCH", "HAS", "TARGET", "TO-REVOKE", "SINCE", "STILL-TO-GET"), member_rows(this))
    rows = moved_rows(this)
    if rows:
        print_fact("MOVED", f"{len(rows)} partition{'s' * (len(rows) != 1)}")
        print_table(("PARTITION", "FROM", "TO", "NO-OWNER-FOR"), rows[:MOVES_SHOWN])
        if len(rows) > MOVES_SHOWN:
            click.echo(f"... and {len(rows) - MOVES_SHOWN} more: --output json has them all")


def member_rows(this: EpochRebalance) -> list[tuple[object, ...]]:
    """Return a row per member; ``?`` stands for what the journal does not tell."""
    from kohort.insight.epoch_causes import names_in, owner_text
    from kohort.insight.names import name_of

    names = names_in(this)
    rows: list[tuple[object, ...]] = []
    for row in this.members:
        since = None if row.revoking_since_ms is None else ago(row.revoking_since_ms)
        has = spans(row.has) if row.known else f"{spans(row.has)}?"
        target = "?" if row.target is None else spans(row.target)
        owners = {(one.topic, one.partition): one.owner for one in row.awaited}
        missing = [
            f"{topic}-{partition}"
            + (f" ({owner_text(names, owners[place])})" if (place := (topic, partition)) in owners else "")
            for topic, partition in still_to_get(row)
        ]
        rows.append((name_of(row.who), row.epoch, has, target, spans(row.revoking), since, missing))
    return rows


def still_to_get(row: MemberRow) -> list[Place]:
    """Return what the member is to have and has not."""
    return [] if row.target is None else sorted({*row.target} - {*row.has})


def spans(places: tuple[Place, ...]) -> str:
    """Return partitions in short: ``t-0..3,5 u-1``."""
    topics: dict[str, list[list[int]]] = {}
    for topic, partition in sorted(places):
        runs = topics.setdefault(topic, [])
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    texts = {t: ",".join(str(a) if a == b else f"{a}..{b}" for a, b in runs) for t, runs in topics.items()}
    return " ".join(f"{topic}-{text}" for topic, text in texts.items())


def moved_rows(this: EpochRebalance) -> list[tuple[object, ...]]:
    """Return a row per partition that moved, or had no owner for a while."""
    from kohort.insight.epoch_causes import names_in, owner_text
    from kohort.insight.names import seconds

    names = names_in(this)
    ends: dict[Place, tuple[str | None, str | None]] = {(m.topic, m.partition): (m.before, m.after) for m in this.moves}
    gaps: dict[Place, str] = {}
    for gap in this.gaps:
        place = gap.topic, gap.partition
        ends.setdefault(place, (gap.before, gap.after))
        gaps[place] = f"since {ago(gap.since_ms)}" if gap.took_ms is None else seconds(gap.took_ms)
    return [
        (f"{topic}-{partition}", owner_text(names, before), owner_text(names, after), gaps.get((topic, partition)))
        for (topic, partition), (before, after) in sorted(ends.items())
    ]


def epoch_rebalance_json(this: EpochRebalance, told: Explanation) -> dict[str, Any]:
    """Return a modern group's rebalance for programs."""
    return {
        "protocol": "consumer",
        "from_epoch": this.from_epoch,
        "epoch": this.epoch,
        "opened_at_ms": this.opened_at_ms,
        "end": this.end,
        "cause": told.cause,
        "confidence": told.confidence,
        "sentence": told.sentence,
        "advice": told.advice,
        "took_ms": this.took_ms,
        "phases_ms": this.phases_ms,
        "evidence": evidence_json(told.evidence),
        "target_epoch": None if this.target is None else this.target.epoch,
        "assignor": None if this.target is None else this.target.assignor,
        "members": [member_json(row) for row in this.members],
        "moves": [move_json(move) for move in this.moves],
        "unowned": [
            {
                "topic": gap.topic,
                "partition": gap.partition,
                "from": gap.before,
                "to": gap.after,
                "since_ms": gap.since_ms,
                "ms": gap.took_ms,
            }
            for gap in this.gaps
        ],
        "unowned_partition_ms": this.unowned_ms,
    }


def member_json(row: MemberRow) -> dict[str, Any]:
    """Return a member with its assignments for programs; ``known`` is false where ``has`` may be more."""
    return {
        "member_id": row.who.member_id,
        "client_id": row.who.client_id,
        "host": row.who.client_host,
        "instance_id": row.who.instance_id,
        "epoch": row.epoch,
        "state": row.state,
        "known": row.known,
        "had": [f"{t}-{p}" for t, p in row.had],
        "has": [f"{t}-{p}" for t, p in row.has],
        "target": None if row.target is None else [f"{t}-{p}" for t, p in row.target],
        "to_revoke": [f"{t}-{p}" for t, p in row.revoking],
        "to_revoke_since_ms": row.revoking_since_ms,
        "still_to_get": [f"{t}-{p}" for t, p in still_to_get(row)],
        "awaited": [{"topic": a.topic, "partition": a.partition, "owner": a.owner} for a in row.awaited],
    }

"""Why a modern group moved, in a sentence, with the evidence: never a cause without at least one fact behind it."""

from __future__ import annotations

from kohort.insight.catalogue.table import advice_for
from kohort.insight.causes import Evidence
from kohort.insight.epoch_causes import find_cause_of_raise, names_in, owner_text, partitions_text
from kohort.insight.epochs import EpochRebalance, MemberRow
from kohort.insight.names import count, name_of, seconds
from kohort.insight.why import Explanation


def explain_epoch(this: EpochRebalance) -> Explanation:
    """Return the cause of a modern group's rebalance, how far it came, and whom it waited for."""
    found = [find_cause_of_raise(this, raised) for raised in this.raises]
    first = found[0]
    clauses = [first.clause, *(f"then {other.clause}" for other in found[1:])]
    evidence = [fact for finding in found for fact in finding.evidence]
    evidence += _facts(this)
    advised = [advice_for(finding.cause) for finding in found]
    advice = "; ".join(dict.fromkeys(words for words in advised if words is not None))
    ends = [_tail(this), *_unowned(this)]
    sentence = f"{_head(this)}: {'; '.join([*clauses, *ends])}."
    return Explanation(first.cause, first.confidence, sentence, tuple(evidence), advice or None)


def _head(this: EpochRebalance) -> str:
    members = count(this.raises[-1].members, "member")
    moved = f", {count(len(this.moves), 'partition')} to move" if this.target is not None else ""
    return f"Epoch {this.epoch} ({members}{moved})"


def _tail(this: EpochRebalance) -> str:
    if this.end == "stable":
        return f"the group was stable after {seconds(this.took_ms or 0)}{_waiting(this)}"
    if this.end == "empty":
        return "nobody is left"
    if this.end == "superseded":
        return f"the epoch rose again before everybody was there{_still(this)}"
    if this.end == "interrupted":
        return f"the coordinator went before everybody was there{_still(this)}"
    if this.end == "converted":
        return "the group went on in the classic protocol"
    if this.target is None:
        return "its target is not computed yet"
    there = sum(row.state == "stable" and row.epoch == this.epoch for row in this.members)
    return f"{there} of {count(this.target.members, 'member')} are there{_still(this)}"


def _waiting(this: EpochRebalance) -> str:
    slow = this.held_up
    if slow is None:
        return ""
    what = partitions_text((topic, p) for topic, of in slow.revoked.items() for p in of)
    return f", of which {seconds(slow.revoked_after_ms or 0)} waiting for {name_of(slow.who)} to give up {what}"


def _still(this: EpochRebalance) -> str:
    """Name who has not given up what it was told to; or else who waits, and for what."""
    if this.unrevoked:
        told = [f"{name_of(row.who)} has not given up {partitions_text(row.revoking)}" for row in this.unrevoked[:3]]
        rest = len(this.unrevoked) - len(told)
        return f": {', '.join(told)}" + (f", nor have {count(rest, 'other')} theirs" if rest else "")
    behind = [row for row in this.members if this.target is not None and row.epoch != this.target.epoch]
    if not behind:
        return ""
    return f": {_names(behind)} yet to come nearer with a heartbeat"


def _names(rows: list[MemberRow]) -> str:
    shown = ", ".join(name_of(row.who) for row in rows[:3])
    return shown + (f" and {count(len(rows) - 3, 'other')}" if len(rows) > 3 else "")


def _unowned(this: EpochRebalance) -> list[str]:
    told = []
    longest = this.longest_gap
    if longest is not None and longest.took_ms:
        over = sum(gap.until_ms is not None for gap in this.gaps)
        had = "had no owner for" if over == 1 else f"was longest without an owner, of {over}:"
        summed = f" ({this.unowned_ms / 1000:.1f} partition-seconds)" if over > 1 else ""
        told.append(f"{partitions_text([(longest.topic, longest.partition)])} {had} {seconds(longest.took_ms)}{summed}")
    still = [(gap.topic, gap.partition) for gap in this.gaps if gap.until_ms is None]
    if still and this.end not in ("empty", "converted"):
        told.append(f"{partitions_text(still)} {'has' if len(still) == 1 else 'have'} no owner yet")
    return told


def _facts(this: EpochRebalance) -> list[Evidence]:
    names = names_in(this)
    facts = [Evidence(f"phase_{name}", seconds(ms)) for name, ms in this.phases_ms.items()]
    if this.target is not None:
        by = f", by {this.target.assignor}" if this.target.assignor else ""
        value = f"for epoch {this.target.epoch}{by}"
        facts.append(Evidence("target_computed", value, this.target.at_ms))
    for row in this.unrevoked:
        value = f"{name_of(row.who)} was told to give up {partitions_text(row.revoking)}, and has not"
        facts.append(Evidence("not_revoked", value, row.revoking_since_ms))
    facts += [fact for row in this.members if (fact := _waits(row, names)) is not None]
    if this.target is not None and this.undisturbed:
        facts.append(Evidence("undisturbed", f"{_names(this.undisturbed)} kept what they had"))
    facts += [Evidence("stale_request", f"{name_of(f.who)} sent {f.api}: {f.error}", f.at_ms) for f in this.fenced]
    return facts


def _waits(row: MemberRow, names: dict[str, str]) -> Evidence | None:
    """Return what a member waits for that others have."""
    if not row.awaited or row.state != "unreleased_partitions":
        return None
    owners = ", ".join(sorted({owner_text(names, one.owner) for one in row.awaited}))
    what = partitions_text((one.topic, one.partition) for one in row.awaited)
    return Evidence("waits", f"{name_of(row.who)} waits for {what}, held by {owners} when it last asked")

"""What a prediction should be read with: the scenario in words, and its risks."""

from __future__ import annotations

from kohort.insight.findings.what_if import WhatIfFinding
from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.scenario import Assumptions, Scenario


def words_of(scenario: Scenario) -> str:
    """Return the scenario in words."""
    words = []
    if scenario.newcomers:
        words.append(f"add {len(scenario.newcomers)}")
    words += [f"remove {member_id}" for member_id in scenario.remove]
    words += [f"kill {member_id} ({how})" for member_id, how in scenario.kill]
    if scenario.to_consumer:
        words.append("to the consumer protocol")
    if scenario.assignor is not None:
        words.append(f"assignor {scenario.assignor}")
    words += [f"{topic} with {count} partitions" for topic, count in scenario.partitions.items()]
    if scenario.rolling_restart:
        words.append("rolling restart, all static" if scenario.all_static else "rolling restart")
    return ", ".join(words) or "another rebalance"


def notes_of(snapshot: GroupSnapshot, scenario: Scenario, found: WhatIfFinding, assume: Assumptions) -> tuple[str, ...]:
    """Return the risks: who would idle, what the snapshot lacks, what the change does beside."""
    notes = []
    if found.members_after > found.partitions:
        notes.append(f"no more than {found.partitions} members are of use: there are {found.partitions} partitions")
    if not found.members_after:
        notes.append("nobody would be left to read")
    if snapshot.state != "Stable":
        notes.append(f"the group is {snapshot.state}: who owns what may change before anything is done")
    if scenario.partitions:
        notes.append("records with a key go to other partitions once a topic has more of them")
    static = {m.member_id for m in snapshot.members if m.instance_id is not None}
    if scenario.rolling_restart:
        notes += _of_restart(snapshot, scenario, found, assume, static)
    if any(how == "close" and member_id in static for member_id, how in scenario.kill):
        notes.append("a static member that closes does not leave: its partitions wait for the session timeout")
    if any(m.regex and m.matched is None for m in snapshot.members):
        notes.append("a member subscribes by an expression, and which topics that matches is not known")
    return tuple(notes)


def _of_restart(
    snapshot: GroupSnapshot, scenario: Scenario, found: WhatIfFinding, assume: Assumptions, static: set[str]
) -> list[str]:
    notes = []
    dynamic = len(snapshot.members) - len(static)
    if scenario.all_static and dynamic:
        notes.append(f"only {len(static)} of {len(snapshot.members)} members have a group.instance.id now")
    elif dynamic and found.moves_in_all:
        notes.append(
            "with a group.instance.id for each, back within the session timeout, nothing would move while they "
            "restart: --static"
        )
    if (static or scenario.all_static) and assume.restart_to_ms >= assume.session_timeout_ms:
        notes.append("who is away for longer than the session timeout is put out, and its partitions move")
    return notes

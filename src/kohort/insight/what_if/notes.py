"""What a prediction should be read with: the scenario in words, and its risks."""

from __future__ import annotations

from kohort.insight.snapshot import GroupSnapshot
from kohort.insight.what_if.scenario import Scenario


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
    if scenario.rolling_restart is not None:
        words.append(f"rolling restart, {scenario.rolling_restart}")
    return ", ".join(words) or "another rebalance"


def notes_of(snapshot: GroupSnapshot, scenario: Scenario, members: int, partitions: int) -> tuple[str, ...]:
    """Return the risks: who would idle, what the snapshot lacks, what the change does beside."""
    notes = []
    if members > partitions:
        notes.append(f"no more than {partitions} members are of use: there are {partitions} partitions")
    if not members:
        notes.append("nobody would be left to read")
    if snapshot.state != "Stable":
        notes.append(f"the group is {snapshot.state}: who owns what may change before anything is done")
    if scenario.partitions:
        notes.append("records with a key go to other partitions once a topic has more of them")
    if scenario.rolling_restart == "dynamic":
        notes.append("with a group.instance.id for each, back within the session timeout, none of this would move")
    static = {m.member_id for m in snapshot.members if m.instance_id is not None}
    if scenario.rolling_restart == "static" and len(static) < len(snapshot.members):
        notes.append(f"only {len(static)} of {len(snapshot.members)} members have a group.instance.id now")
    if any(how == "close" and member_id in static for member_id, how in scenario.kill):
        notes.append("a static member that closes does not leave: its partitions wait for the session timeout")
    return tuple(notes)

"""Predict the effect of a change on a group: parse the options of ``kohort group what-if``, and run the prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

from msgspec.structs import replace

from kohort.errors import UsageError
from kohort.results.groups import ComparedAssignor, GroupWhatIf

if TYPE_CHECKING:
    from kohort.insight.findings.what_if import WhatIfFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.insight.what_if.predict import ClusterFacts, Racks
    from kohort.insight.what_if.scenario import Assumptions, Scenario

MOST_PARTITIONS: Final = 100_000
MOST_NEW_MEMBERS: Final = 1_000
MOST_NAMES: Final = 100


def predict(
    snapshots: Sequence[GroupSnapshot],
    racks: Racks,
    options: Mapping[str, Any],
    assume: Assumptions,
    *,
    compare: bool = False,
) -> GroupWhatIf:
    """Predict the effect of a change on a sampled group. ``options`` are those of ``kohort group what-if``.

    Raises UsageError.
    """
    from kohort.insight.lag import lag_of
    from kohort.insight.what_if.draining import flow_of
    from kohort.insight.what_if.predict import ClusterFacts, what_if

    check_scenario(options)
    snapshot = snapshots[-1]
    rates = partial(flow_of, lag_of(snapshots), in_per_s=options["in_rate"], drain_per_s=options["drain_rate"])
    scenario, around = scenario_of(snapshot, options), ClusterFacts(racks, rates)
    return GroupWhatIf(
        group=snapshot.group,
        prediction=what_if(snapshot, scenario, assume, around),
        compare=compared(snapshot, scenario, assume, around) if compare else [],
    )


def check_scenario(options: Mapping[str, Any]) -> None:
    if options["static"] and not (options["add"] or options["rolling_restart"]):
        raise UsageError("--static needs --add or --rolling-restart")
    if options["rolling_restart"] and (options["add"] or options["remove"] or options["kill"]):
        raise UsageError("--rolling-restart excludes --add, --remove and --kill")
    if options["add"] is not None and not 1 <= options["add"] <= MOST_NEW_MEMBERS:
        raise UsageError(f"--add: expected 1 to {MOST_NEW_MEMBERS}")
    if max(len(options[name]) for name in ("remove", "kill", "partitions")) > MOST_NAMES:
        raise UsageError(f"--remove, --kill, --partitions: expected at most {MOST_NAMES} of each")
    if options["in_rate"] is not None and not options["in_rate"] >= 0:
        raise UsageError("--in-rate: expected a number of records per second, 0 or more")
    if options["drain_rate"] is not None and not options["drain_rate"] > 0:
        raise UsageError("--drain-rate: expected a number of records per second above 0")


def scenario_of(snapshot: GroupSnapshot, options: Mapping[str, Any]) -> Scenario:
    from kohort.insight.what_if.scenario import Scenario

    ids = {member.member_id for member in snapshot.members}
    ids |= {m.instance_id for m in snapshot.members if m.instance_id is not None}
    names = (name for n in range(1, 10**9) if (name := f"new-{n}") not in ids)
    newcomers = [next(names) for _ in range(options["add"] or 0)]
    return Scenario(
        newcomers=tuple((name, name if options["static"] else None) for name in newcomers),
        remove=tuple(dict.fromkeys(_member_id(snapshot, name) for name in options["remove"])),
        kill=tuple(_killed(snapshot, text) for text in options["kill"]),
        assignor=options["assignor"],
        partitions=dict(_count(text) for text in options["partitions"]),
        rolling_restart=options["rolling_restart"],
        all_static=options["static"] and options["rolling_restart"],
        to_consumer=options["to_consumer"],
    )


def _killed(snapshot: GroupSnapshot, text: str) -> tuple[str, Any]:
    from kohort.insight.what_if.scenario import KillMode

    name, colon, how = text.rpartition(":")
    if colon and how in get_args(KillMode):
        return _member_id(snapshot, name), how
    return _member_id(snapshot, text), "sigkill"


def _count(text: str) -> tuple[str, int]:
    topic, _, number = text.rpartition("=")
    if not topic or not (number.isascii() and number.isdigit()) or not 1 <= int(number[:9]) <= MOST_PARTITIONS:
        raise UsageError(f"--partitions {text!r}: expected TOPIC=N, with N from 1 to {MOST_PARTITIONS}")
    return topic, int(number[:9])


def _member_id(snapshot: GroupSnapshot, name: str) -> str:
    for ways in ("member_id", "instance_id", "client_id"):
        found = [m.member_id for m in snapshot.members if getattr(m, ways) == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(f"{len(found)} members have the client id {name!r}: give a member id")
    raise UsageError(f"no member of group {snapshot.group!r} has the id {name!r}: see kohort group describe --members")


def compared(
    snapshot: GroupSnapshot, scenario: Scenario, assume: Assumptions, around: ClusterFacts
) -> list[ComparedAssignor]:
    from kohort.assignors.builtin import ASSIGNORS
    from kohort.assignors.server.builtin import SERVER_ASSIGNORS
    from kohort.insight.what_if.predict import what_if as predict

    ways = [(name, False) for name in ASSIGNORS if snapshot.protocol == "classic"]
    ways += [(name, True) for name in SERVER_ASSIGNORS]
    scenarios = [replace(scenario, assignor=name, to_consumer=modern) for name, modern in ways]
    return [_row(predict(snapshot, each, assume, around)) for each in scenarios]


def _row(found: WhatIfFinding) -> ComparedAssignor:
    most, least = most_and_least(found)
    return ComparedAssignor(
        protocol=found.protocol,
        assignor=found.assignor,
        rounds=found.rounds,
        moved=len(found.moves),
        moved_in_all=found.moves_in_all,
        pause_from_s=found.pause_from_s,
        pause_to_s=found.pause_to_s,
        idle=len(found.idle),
        most_partitions=most,
        least_partitions=least,
    )


def most_and_least(found: WhatIfFinding) -> tuple[int, int]:
    sizes = [one.partitions_after for one in found.loads if one.partitions_after is not None]
    return max(sizes, default=0), min(sizes, default=0)

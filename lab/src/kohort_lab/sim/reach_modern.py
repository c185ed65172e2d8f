"""What runs of the world ``modern`` have reached of the coordinator of modern groups, and of groups that are converted.

What can be reached is known without running: from the tables of the code, and those below. What was reached is seen in
the group after every event, on the wire, in the journal, and in ``__consumer_offsets``.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Iterator
from itertools import permutations
from typing import Any, Final

from kohort.coordinator import journal
from kohort.coordinator.consumer.group import ConsumerGroupState, ModernGroup
from kohort.coordinator.consumer.on_timer import TIMERS_OF_CONSUMER_GROUPS
from kohort.coordinator.consumer.reconcile import ReconciliationState
from kohort.coordinator.outcome import TimerKind
from kohort.coordinator.records import (
    CurrentWritten,
    EpochWritten,
    MemberWritten,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
    parse_record,
    partition_of,
)
from kohort.errors import error_code
from kohort.log.partition import PartitionLog
from kohort.wire.apis import APIS
from kohort_lab.sim.checks.durability import OFFSETS_TOPIC, records_on
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.reach import codes_in, journal_of
from kohort_lab.sim.worlds.modern import ModernGroups, plan_of_modern
from kohort_lab.sim.worlds.three_nodes import GROUP

ANSWERS: Final = {
    "ConsumerGroupHeartbeat": "UNKNOWN_MEMBER_ID FENCED_MEMBER_EPOCH UNRELEASED_INSTANCE_ID FENCED_INSTANCE_ID "
    "GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS "
    "COORDINATOR_NOT_AVAILABLE",
    "JoinGroup": "MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID INCONSISTENT_GROUP_PROTOCOL "
    "GROUP_MAX_SIZE_REACHED COORDINATOR_NOT_AVAILABLE",
    "SyncGroup": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID "
    "INCONSISTENT_GROUP_PROTOCOL",
    "Heartbeat": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID",
    "LeaveGroup": "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID COORDINATOR_NOT_AVAILABLE",
    "OffsetCommit": "UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH ILLEGAL_GENERATION COORDINATOR_NOT_AVAILABLE",
    "OffsetFetch": "UNKNOWN_MEMBER_ID STALE_MEMBER_EPOCH",
}
"""The errors that clients of a running modern group can meet, by API; those of malformed requests are left to other
tests, and those that no group is looked at for are in ``reach.py``."""
KINDS: Final = (
    journal.EpochRaised,
    journal.TargetComputed,
    journal.MemberReconciled,
    journal.StaticAway,
    journal.StaticReplaced,
    journal.RequestFenced,
    journal.GroupLoaded,
    journal.GroupUnloaded,
    journal.GroupDeleted,
)
"""The entries that are written of modern groups; conversions are told apart by where they lead."""
OBSERVED: Final = frozenset({"member_gone", "unexplained"})
"""Causes that only somebody who watches from the outside writes."""
RECORDS: Final = (MemberWritten, EpochWritten, TargetWritten, TargetEpochWritten, CurrentWritten, RegexResolved)
IMPOSSIBLE: Final = frozenset({(ConsumerGroupState.EMPTY, ConsumerGroupState.RECONCILING)})
"""The first member of an empty group is given everything at once, as nobody has anything."""
STATES: Final = tuple(
    pair
    for pair in permutations([state for state in ConsumerGroupState if state is not ConsumerGroupState.DEAD], 2)
    if pair not in IMPOSSIBLE
)
"""A group that is dead is one that is not there."""


def reachable_modern() -> list[str]:
    """Return everything there is to reach for modern groups, in order."""
    return [
        *(f"group {before.value} to {after.value}" for before, after in STATES),
        *(f"member {one.name} to {other.name}" for one, other in permutations(ReconciliationState, 2)),
        *(f"member away in {state.name}" for state in ReconciliationState),
        *(f"member {before} to {after}" for before, after in permutations(("classic", "consumer"))),
        *(f"group converted to {kind}" for kind in ("consumer", "classic")),
        "round opened: downgraded",
        *(f"epoch raised: {event}" for event in typing.get_args(journal.EpochEvent) if event not in OBSERVED),
        *(f"timer {kind}" for kind in sorted(TIMERS_OF_CONSUMER_GROUPS)),
        *(f"journal {kind.__name__}" for kind in KINDS),
        *(f"record {kind.__name__}{gone}" for kind in RECORDS for gone in ("", " without a value")),
        *(f"answer {api} {code}" for api, codes in ANSWERS.items() for code in codes.split()),
    ]


class ModernReach(Watcher):
    """Looks at the group after every event, and hears every answer; None: it is not coordinated, or not modern."""

    def __init__(self, group: Callable[[], ModernGroup | None], timers: Callable[[], Collection[TimerKind]]) -> None:
        self.reached: set[str] = set()
        self._group = group
        self._timers = timers
        self._last: ModernGroup | None = None
        self._state = ConsumerGroupState.EMPTY
        self._members: dict[str, tuple[ReconciliationState, bool]] = {}

    def look(self) -> None:
        """Note what became of the group and its members since the last time, if it is the same group still."""
        group = self._group()
        if group is None:
            self._last = None
            return
        state = group.state
        members = {name: (member.current.state, member.is_classic) for name, member in group.members.items()}
        if group is self._last:
            self._note(state, members)
        self._last, self._state, self._members = group, state, members
        self.reached.update(
            f"member away in {member.current.state.name}" for member in group.members.values() if member.epoch < 0
        )
        self.reached.update(f"timer {kind}" for kind in self._timers())

    def _note(self, state: ConsumerGroupState, members: dict[str, tuple[ReconciliationState, bool]]) -> None:
        if state is not self._state:
            self.reached.add(f"group {self._state.value} to {state.value}")
        for member_id, (now, is_classic) in members.items():
            before, was_classic = self._members.get(member_id, (now, is_classic))
            if now is not before:
                self.reached.add(f"member {before.name} to {now.name}")
            if is_classic is not was_classic:
                kinds = ("classic", "consumer") if was_classic else ("consumer", "classic")
                self.reached.add(f"member {kinds[0]} to {kinds[1]}")

    def answered(self, exchange: Exchange) -> None:
        if exchange.answer is None or (self._group() is None and exchange.api.name != "ConsumerGroupHeartbeat"):
            return
        for code in codes_in(exchange.answer):
            self.reached.add(f"answer {exchange.api.name} {error_code(code).name}")


def told_of_modern(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what the journal's entries of one group say of its time as a modern one."""
    is_modern = False
    for entry in entries:
        kind = entry["kind"]
        if kind == "group_converted":
            is_modern = entry["to"] == "consumer"
            yield f"group converted to {entry['to']}"
            continue
        is_modern = (is_modern or kind == "epoch_raised") and not kind.startswith("round_")
        if is_modern:
            yield "journal " + "".join(word.capitalize() for word in kind.split("_"))
        if kind == "epoch_raised":
            yield f"epoch raised: {entry['cause']['event']}"
        elif kind == "round_opened" and entry["trigger"]["event"] == "downgraded":
            yield "round opened: downgraded"


def recorded(log: PartitionLog, group_id: str) -> Iterator[str]:
    """Yield the kinds of records that a log of ``__consumer_offsets`` has of a group."""
    for record in records_on(log):
        said = parse_record(record.key or b"", record.value)
        if isinstance(said, RECORDS) and said.group_id == group_id:
            yield f"record {type(said).__name__}{' without a value' if said.value is None else ''}"


class _Watched(ModernGroups):
    """A run whose coordinator is looked at after every event."""

    def __init__(self, seed: int) -> None:
        super().__init__(plan_of_modern(seed))
        self.seen = ModernReach(self.modern_group, self._timers)
        self.stage.checks.add(self.seen)
        self.tap.decode_also(*(api.key for api in APIS.values() if api.name in ANSWERS))

    def _timers(self) -> list[TimerKind]:
        broker = self.coordinator()
        return [] if broker is None else [key.kind for key in broker.state.coordinator.timers_of(GROUP)]

    def check(self) -> None:
        super().check()
        self.seen.look()


def reached_in_modern(seed: int) -> set[str]:
    """Return what one seed reaches. Raises what its run raises."""
    run = _Watched(seed)
    run.go()
    reached = set(run.seen.reached)
    broker = run.coordinator()
    assert broker is not None, "a run ends with its group coordinated"
    reached.update(told_of_modern(journal_of(broker).get(GROUP, [])))
    log = broker.state.topics.log(OFFSETS_TOPIC, partition_of(GROUP, run.plan.offsets_partitions))
    assert log is not None, "and its log is there"
    reached.update(recorded(log, GROUP))
    return reached & set(reachable_modern())

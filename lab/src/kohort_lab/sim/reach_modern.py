"""Coverage of consumer groups and conversions by runs of the world ``modern``.

The reachable set comes from tables in the code and below. The reached set comes from the group after every event, the
wire, the journal and ``__consumer_offsets``.
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
"""Error codes by API that clients of a running consumer group can get.

Malformed requests are tested elsewhere; errors without a group are in ``reach.py``.
"""
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
"""Journal kinds of consumer groups; conversions are distinguished by their target."""
OBSERVED: Final = frozenset({"member_departed", "unexplained"})
"""Causes that only external observers write."""
RECORDS: Final = (MemberWritten, EpochWritten, TargetWritten, TargetEpochWritten, CurrentWritten, RegexResolved)
IMPOSSIBLE: Final = frozenset({(ConsumerGroupState.EMPTY, ConsumerGroupState.RECONCILING)})
"""Impossible transitions: the first member of an empty group gets all partitions at once."""
STATES: Final = tuple(
    pair
    for pair in permutations([state for state in ConsumerGroupState if state is not ConsumerGroupState.DEAD], 2)
    if pair not in IMPOSSIBLE
)
"""States without DEAD, which is the absence of a group."""


def reachable_modern() -> list[str]:
    """Return everything reachable for consumer groups, in order."""
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
        *(f"record {kind.__name__}{suffix}" for kind in RECORDS for suffix in ("", " without a value")),
        *(f"answer {api} {code}" for api, codes in ANSWERS.items() for code in codes.split()),
    ]


class ModernReach(Watcher):
    """Observer of all responses, and of the state of the group after every event."""

    def __init__(self, group: Callable[[], ModernGroup | None], timers: Callable[[], Collection[TimerKind]]) -> None:
        self.reached: set[str] = set()
        self._group = group
        self._timers = timers
        self._last: ModernGroup | None = None
        self._state = ConsumerGroupState.EMPTY
        self._members: dict[str, tuple[ReconciliationState, bool]] = {}

    def look(self) -> None:
        """Record changes of the group and its members, if it is still the same group."""
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


def modern_entry_kinds(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the kinds and causes of a group's journal entries as a consumer group."""
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
    """Yield the kinds of a group's records in a ``__consumer_offsets`` log."""
    for record in records_on(log):
        parsed = parse_record(record.key or b"", record.value)
        if isinstance(parsed, RECORDS) and parsed.group_id == group_id:
            yield f"record {type(parsed).__name__}{' without a value' if parsed.value is None else ''}"


class _Watched(ModernGroups):
    """Run with a coordinator that is observed after every event."""

    def __init__(self, seed: int) -> None:
        super().__init__(plan_of_modern(seed))
        self.reach = ModernReach(self.modern_group, self._timers)
        self.context.checks.add(self.reach)
        self.tap.decode_also(*(api.key for api in APIS.values() if api.name in ANSWERS))

    def _timers(self) -> list[TimerKind]:
        broker = self.coordinator()
        return [] if broker is None else [key.kind for key in broker.state.coordinator.timers_of(GROUP)]

    def check(self) -> None:
        super().check()
        self.reach.look()


def reached_in_modern(seed: int) -> set[str]:
    """Run one seed and return what it reaches. Raises the run's error."""
    run = _Watched(seed)
    run.go()
    reached = set(run.reach.reached)
    broker = run.coordinator()
    assert broker is not None, "a run ends with its group coordinated"
    reached.update(modern_entry_kinds(journal_of(broker).get(GROUP, [])))
    log = broker.state.topics.log(OFFSETS_TOPIC, partition_of(GROUP, run.plan.offsets_partitions))
    assert log is not None, "and its log is there"
    reached.update(recorded(log, GROUP))
    return reached & set(reachable_modern())

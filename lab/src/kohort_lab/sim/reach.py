"""Coverage of a classic coordinator by runs: state transitions, decisions, error codes, and the missing ones.

The reachable set comes from the state table, the kinds of journal entries with their reasons, and the error codes
below. The reached set comes from the broker's journal and from the wire.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Iterator
from typing import Any, Final

from kohort.broker.broker import Broker
from kohort.coordinator import journal
from kohort.coordinator.classic.states import PREVIOUS, GroupState
from kohort.errors import error_code
from kohort.wire.schema import Message
from kohort_lab.sim.checks.durability import records_on
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.worlds.one_broker import OneBroker

ANSWERS: Final = {
    "JoinGroup": "MEMBER_ID_REQUIRED UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID INCONSISTENT_GROUP_PROTOCOL "
    "GROUP_MAX_SIZE_REACHED INVALID_SESSION_TIMEOUT NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS",
    "SyncGroup": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID NOT_COORDINATOR "
    "INCONSISTENT_GROUP_PROTOCOL",
    "Heartbeat": "REBALANCE_IN_PROGRESS UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID NOT_COORDINATOR",
    "LeaveGroup": "UNKNOWN_MEMBER_ID FENCED_INSTANCE_ID NOT_COORDINATOR",
    "OffsetCommit": "UNKNOWN_MEMBER_ID ILLEGAL_GENERATION FENCED_INSTANCE_ID REBALANCE_IN_PROGRESS "
    "UNKNOWN_TOPIC_OR_PARTITION OFFSET_METADATA_TOO_LARGE NOT_COORDINATOR COORDINATOR_NOT_AVAILABLE",
    "OffsetFetch": "NOT_COORDINATOR COORDINATOR_LOAD_IN_PROGRESS",
    "DeleteGroups": "NON_EMPTY_GROUP GROUP_ID_NOT_FOUND NOT_COORDINATOR",
    "OffsetDelete": "GROUP_SUBSCRIBED_TO_TOPIC GROUP_ID_NOT_FOUND",
    "Fetch": "OFFSET_OUT_OF_RANGE UNKNOWN_TOPIC_ID FENCED_LEADER_EPOCH FETCH_SESSION_ID_NOT_FOUND",
    "Produce": "UNKNOWN_TOPIC_OR_PARTITION OUT_OF_ORDER_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH KAFKA_STORAGE_ERROR",
    "CreatePartitions": "INVALID_PARTITIONS KAFKA_STORAGE_ERROR",
}
"""Error codes by API that clients of a running group can get; malformed requests are tested elsewhere."""


MODERN: Final = frozenset(
    {"EpochRaised", "TargetComputed", "MemberReconciled", "StaticAway", "GroupConverted", "downgraded"}
)
"""Journal kinds and a rebalance cause of consumer groups; see ``reach_modern.py``."""
WATCHED: Final = frozenset({"GenerationSeen", "unknown"})
"""Journal kind and removal cause that only external observers write."""


def reachable() -> list[str]:
    """Return everything reachable for classic groups, in order."""
    pairs = [(p, s) for s, before in PREVIOUS.items() for p in GroupState if p in before]
    return [
        *(f"state {p.value} to {s.value}" for p, s in pairs if s is not GroupState.DEAD or p is GroupState.EMPTY),
        *(f"journal {kind.__name__}" for kind in journal.KINDS if kind.__name__ not in MODERN | WATCHED),
        *(f"round opened: {event}" for event in typing.get_args(journal.TriggerEvent) if event not in MODERN),
        *(f"member removed: {why}" for why in typing.get_args(journal.Removal) if why not in WATCHED),
        *(f"answer {api} {code}" for api, codes in ANSWERS.items() for code in codes.split()),
    ]


class Answers(Watcher):
    """Recorder of error codes by API."""

    def __init__(self) -> None:
        self.reached: set[str] = set()

    def answered(self, exchange: Exchange) -> None:
        if exchange.answer is not None:
            for code in codes_in(exchange.answer):
                if code:
                    self.reached.add(f"answer {exchange.api.name} {error_code(code).name}")


def codes_in(message: Message) -> Iterator[int]:
    """Return the error codes of a response, at any depth."""
    for spec in message.FIELDS:
        value = getattr(message, spec.name)
        if spec.name == "error_code":
            yield value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Message):
                yield from codes_in(inner)


def states_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Return the state transitions in one group's journal entries."""
    state: GroupState | None = GroupState.EMPTY
    for entry in entries:
        after = _state_after(entry, state)
        if state is not None and after is not None and after is not state and entry["kind"] != "group_loaded":
            yield f"state {state.value} to {after.value}"
        state = GroupState.EMPTY if after is GroupState.DEAD else after


def _state_after(entry: dict[str, Any], before: GroupState | None) -> GroupState | None:
    """Return the group state after an entry; None if unknown."""
    match entry["kind"]:
        case "round_opened":
            return GroupState.PREPARING_REBALANCE
        case "round_closed":
            return GroupState.COMPLETING_REBALANCE if entry.get("members") else GroupState.EMPTY
        case "assignment_written":
            return GroupState.STABLE
        case "group_deleted":
            return GroupState.DEAD
        case "group_loaded":
            return GroupState.STABLE if entry.get("members") else GroupState.EMPTY
        case "round_dropped":
            return None
        case _:
            return before


def entry_kinds(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the kinds and causes of journal entries."""
    for entry in entries:
        yield "journal " + "".join(word.capitalize() for word in entry["kind"].split("_"))
        if entry["kind"] == "round_opened":
            yield f"round opened: {entry['trigger']['event']}"
        elif entry["kind"] == "member_removed":
            yield f"member removed: {entry['why']}"


def journal_of(broker: Broker) -> dict[str, list[dict[str, Any]]]:
    """Return the broker's journal entries by group."""
    log = broker.state.topics.log(journal.TOPIC, 0)
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records_on(log) if log is not None else ():
        entry = json.loads(record.value or b"{}")
        groups.setdefault(entry["group"], []).append(entry)
    return groups


def reached_by(seed: int) -> set[str]:
    """Run one seed and return what it reaches. Raises the run's error."""
    answers = Answers()
    run = OneBroker(plan_of(seed), also=[answers])
    run.go()
    reached = set(answers.reached)
    assert run.broker.broker is not None, "a run ends with its broker up"
    for entries in journal_of(run.broker.broker).values():
        reached.update(states_of(entries))
        reached.update(entry_kinds(entries))
    return reached & set(reachable())

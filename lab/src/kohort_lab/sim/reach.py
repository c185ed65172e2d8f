"""What runs have reached of what a coordinator can do: transitions, decisions, error answers. And what they have not.

What can be reached is known without running: the table of states, the kinds of journal entries with their reasons, and
the answers below. What was reached is seen from outside: in the journal that the broker writes, and on the wire.
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
"""The errors that clients of a running group can meet, by API; those of malformed requests are left to other tests."""


MODERN: Final = frozenset(
    {"EpochRaised", "TargetComputed", "MemberReconciled", "StaticAway", "GroupConverted", "downgraded"}
)
"""Kinds of entries, and a cause of rounds, of groups that the coordinator assigns: ``reach_modern.py`` has them."""
WATCHED: Final = frozenset({"GenerationSeen", "unknown"})
"""A kind of entries, and a removal, that only somebody who watches from the outside writes."""


def reachable() -> list[str]:
    """Return everything there is to reach for classic groups, in order."""
    pairs = [(p, s) for s, before in PREVIOUS.items() for p in GroupState if p in before]
    return [
        *(f"state {p.value} to {s.value}" for p, s in pairs if s is not GroupState.DEAD or p is GroupState.EMPTY),
        *(f"journal {kind.__name__}" for kind in journal.KINDS if kind.__name__ not in MODERN | WATCHED),
        *(f"round opened: {event}" for event in typing.get_args(journal.TriggerEvent) if event not in MODERN),
        *(f"member removed: {why}" for why in typing.get_args(journal.Removal) if why not in WATCHED),
        *(f"answer {api} {code}" for api, codes in ANSWERS.items() for code in codes.split()),
    ]


class Answers(Watcher):
    """Every error code that was answered, by API."""

    def __init__(self) -> None:
        self.reached: set[str] = set()

    def answered(self, exchange: Exchange) -> None:
        if exchange.answer is not None:
            for code in codes_in(exchange.answer):
                if code:
                    self.reached.add(f"answer {exchange.api.name} {error_code(code).name}")


def codes_in(message: Message) -> Iterator[int]:
    """Return the error codes of an answer, at whatever depth."""
    for spec in message.FIELDS:
        value = getattr(message, spec.name)
        if spec.name == "error_code":
            yield value
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Message):
                yield from codes_in(inner)


def states_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Return the transitions that journal entries of one group tell of."""
    state: GroupState | None = GroupState.EMPTY
    for entry in entries:
        after = _state_after(entry, state)
        if state is not None and after is not None and after is not state and entry["kind"] != "group_loaded":
            yield f"state {state.value} to {after.value}"
        state = GroupState.EMPTY if after is GroupState.DEAD else after


def _state_after(entry: dict[str, Any], before: GroupState | None) -> GroupState | None:
    """Return the state of the group after an entry; None where that cannot be told."""
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


def told_by(entries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what each entry says of itself."""
    for entry in entries:
        yield "journal " + "".join(word.capitalize() for word in entry["kind"].split("_"))
        if entry["kind"] == "round_opened":
            yield f"round opened: {entry['trigger']['event']}"
        elif entry["kind"] == "member_removed":
            yield f"member removed: {entry['why']}"


def journal_of(broker: Broker) -> dict[str, list[dict[str, Any]]]:
    """Return what the broker wrote into its journal, by group."""
    log = broker.state.topics.log(journal.TOPIC, 0)
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records_on(log) if log is not None else ():
        entry = json.loads(record.value or b"{}")
        groups.setdefault(entry["group"], []).append(entry)
    return groups


def reached_by(seed: int) -> set[str]:
    """Return what one seed reaches. Raises what its run raises."""
    answers = Answers()
    run = OneBroker(plan_of(seed), also=[answers])
    run.go()
    reached = set(answers.reached)
    assert run.broker.broker is not None, "a run ends with its broker up"
    for entries in journal_of(run.broker.broker).values():
        reached.update(states_of(entries))
        reached.update(told_by(entries))
    return reached & set(reachable())

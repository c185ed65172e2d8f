"""Any sequence of group requests, played to our broker and then to another, for the differential harness.

Ours goes first, as a machine whose clock stands still: after each step it is known who is answered and who waits. The
other broker then has to answer the same members after the same steps, with the same answers, and nobody else. No time
passes, so what is parked stays parked; sessions and rebalances last longer than a sequence takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kohort.errors import ErrorCode
from kohort.wire.apis import APIS
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import JoinGroupRequestProtocol, JoinGroupResponse, MemberIdentity
from kohort.wire.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from kohort.wire.schema import Message
from support.consumer_protocol import subscription
from support.differential.groups import Actor
from support.differential.harness import CLOSED, NO_ANSWER, Entry, Names, fitted
from support.machines.broker_stage import BrokerStage
from support.raw.broker_under_test import BrokerUnderTest
from support.raw.raw_client import RawClient

Step = tuple[str, int, int]
"""Request kind, actor (0 to 4), variant (0 to 3)."""
TOPIC = "t-of-everyone"
PLAIN = [JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC))]
OTHER = [
    JoinGroupRequestProtocol(name="range", metadata=subscription(TOPIC, "u")),
    JoinGroupRequestProtocol(name="sticky", metadata=b""),
]
SIGHTS = ("fetch", "describe", "list", "delete", "delete_offsets")
SILENCE_S = 20.0  # a JVM on a busy machine can stall for seconds


class Client:
    """A connection to the kohort broker, with a client id of its own."""

    def __init__(self, stage: BrokerStage, client_id: str) -> None:
        self._peer = stage.connect()
        self._client_id = client_id

    def send(self, message: Message, version: int) -> None:
        self._peer.send(message, version, client_id=self._client_id)

    def take(self) -> Any:
        """Return the next response, CLOSED, or None if none came yet."""
        answer = self._peer.take()
        return CLOSED if answer is None and self._peer.closed else answer


class StepRun:
    """One run of a sequence of steps against one broker: as much of a ``ScriptRun`` as an ``Actor`` needs."""

    def __init__(self, mark: str, connect: Callable[[str], Client | RawClient]) -> None:
        self.names = Names(mark)
        self.transcript: list[Entry] = []
        self.variant = 0
        self._connect = connect
        self.wires: dict[str, Any] = {}
        self.waiting: dict[str, tuple[str, int]] = {}

    def version(self, request: type[Message]) -> int:
        """Return the version of a request at this level: the highest, two in the middle, the lowest."""
        api = APIS[request.API_KEY]
        low, high = api.low, min(api.high, 9)  # version 10 uses topic ids; the scripts cover those
        return (high, (low + high + 1) // 2, min(low + 3, high), low)[self.variant]

    def can_say(self, request: type[Message], field: str) -> bool:
        (spec,) = [f for f in request.FIELDS if f.name == field]
        return self.version(request) in spec.versions

    def send(self, actor: str, message: Message) -> None:
        if actor not in self.wires:
            self.wires[actor] = self._connect(actor)
        version = self.version(type(message))
        self.waiting[actor] = (type(message).__name__, version)
        self.wires[actor].send(fitted(message, version), version)

    def note(self, actor: str, answer: Any) -> None:
        request, version = self.waiting.pop(actor)
        noted = answer if isinstance(answer, str) else self.names.plain(answer)
        if noted == CLOSED:
            del self.wires[actor]
        self.transcript.append(Entry(actor, request, version, noted))


class GroupOfFive:
    """Three dynamic members and two static ones."""

    def __init__(self, run: StepRun, group: str) -> None:
        self.run = run
        self.group = group
        instances = (None, None, None, "a", "b")
        self.members = [Actor(run, f"m{i}", group, instance_id=x) for i, x in enumerate(instances)]  # type: ignore[arg-type]  # as much of a run as an actor needs

    def start(self, step: Step) -> str:
        """Send the step's request; return its actor."""
        what, who, self.run.variant = step
        if what in SIGHTS:
            self.run.send("outsider", self._of_outsider(what))
            return "outsider"
        getattr(self, f"_{what}")(self.members[who], self.run.variant)
        return self.members[who].name

    def learn(self, name: str, answer: Any) -> None:
        if not isinstance(answer, JoinGroupResponse):
            return
        (actor,) = [a for a in self.members if a.name == name]
        if answer.error_code in (0, ErrorCode.MEMBER_ID_REQUIRED):
            actor.member_id = answer.member_id
        elif answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            actor.member_id = ""
        if answer.error_code == 0:
            actor.generation, actor.leader = answer.generation_id, answer.leader

    def _join(self, actor: Actor, variant: int) -> None:
        actor.start_join(protocols=OTHER if variant == 1 else PLAIN)

    def _restart(self, actor: Actor, variant: int) -> None:
        if actor.instance_id is not None:
            actor.member_id = ""
        self._join(actor, variant)

    def _sync(self, actor: Actor, variant: int) -> None:
        leads = actor.leader == actor.member_id != ""
        plan = {a.member_id: a.name.encode() for a in self.members if a.member_id} if leads else None
        actor.start_sync(plan, generation_id=actor.generation - (variant == 3), protocol_name="range")

    def _heartbeat(self, actor: Actor, variant: int) -> None:
        fields = ({}, {"generation_id": actor.generation - 1}, {"member_id": "stranger"}, {})[variant]
        actor.start_heartbeat(**fields)

    def _leave(self, actor: Actor, variant: int) -> None:
        entry = MemberIdentity(member_id="", group_instance_id=actor.instance_id)
        actor.start_leave(*([entry] if variant == 1 and actor.instance_id else []))

    def _commit(self, actor: Actor, variant: int) -> None:
        outside = {"member_id": "", "generation_id_or_member_epoch": -1, "group_instance_id": None}
        actor.start_commit(TOPIC, {variant % 2: variant}, **(outside if variant == 2 else {}))

    def _of_outsider(self, what: str) -> Message:
        if what == "fetch":
            if self.run.version(OffsetFetchRequest) >= 8:
                return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=None)])
            return OffsetFetchRequest(group_id=self.group, topics=[] if self.run.variant == 3 else None)
        if what == "describe":
            return DescribeGroupsRequest(groups=[self.group])
        if what == "list":
            return ListGroupsRequest()
        if what == "delete":
            return DeleteGroupsRequest(groups_names=[self.group])
        partitions = [OffsetDeleteRequestPartition(partition_index=p) for p in (0, 1)]
        return OffsetDeleteRequest(
            group_id=self.group, topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
        )


Schedule = list[list[str] | None]
"""Actors answered after each step, in order; None where the step is left out."""


def run_on_ours(steps: Sequence[Step], mark: str) -> tuple[list[Entry], Schedule]:
    stage = BrokerStage(group_max_size=5)
    run = StepRun(mark, lambda name: Client(stage, f"client-{name}"))
    sequence = GroupOfFive(run, f"g-{mark}")
    admin = stage.connect()
    admin.create(TOPIC, 2)
    admin.ask(FindCoordinatorRequest(coordinator_keys=[sequence.group]), 4)
    schedule: Schedule = []
    for step in steps:
        if _is_skipped(stage, sequence, step):
            schedule.append(None)
            continue
        sequence.start(step)
        stage.advance(0)
        answered = []
        for name in sorted(run.waiting):
            answer = run.wires[name].take()
            if answer is not None:
                answered.append(name)
                sequence.learn(name, answer)
                run.note(name, answer)
        schedule.append(answered)
    return run.transcript, schedule


def _is_skipped(stage: BrokerStage, sequence: GroupOfFive, step: Step) -> bool:
    """Return True if a step is left out: its actor waits, or the outcome is random in Kafka.

    Kafka picks a random leader after the leader leaves, and deletes a group of offsets alone only at its next sweep.
    """
    what, who, _ = step
    actor = sequence.members[who]
    coordinator = stage.broker.state.coordinator
    shard = coordinator._shards.get(coordinator.partition_of(sequence.group))
    group = shard.groups.by_id.get(sequence.group) if shard is not None else None
    if what == "delete_offsets":
        return group is not None and group.persisted is None
    if what in SIGHTS:
        return False
    return actor.name in sequence.run.waiting or (
        what == "leave" and group is not None and len(group.round.members) > 2
    )


def run_on_theirs(steps: Sequence[Step], schedule: Schedule, broker: BrokerUnderTest) -> list[Entry]:
    """Return another broker's responses to the same steps, and any unexpected response."""
    run = StepRun(broker.mark, lambda name: broker.connect(f"client-{name}"))
    sequence = GroupOfFive(run, broker.group())
    for step, answered in zip(steps, schedule, strict=True):
        if answered is None:
            continue
        asker = sequence.start(step)
        for name in answered:
            answer = _take(run.wires[name], SILENCE_S)
            sequence.learn(name, answer)
            run.note(name, answer)
        if asker not in answered or step[0] == "leave":  # the last leave ends a round by an immediate timer
            broker.await_earlier_requests(sequence.group)
    for name in sorted(run.waiting):
        answer = _take(run.wires[name], 0.02)
        if answer != NO_ANSWER:
            run.note(name, answer)
    return run.transcript


def _take(wire: RawClient, seconds: float) -> Any:
    wire.socket.settimeout(seconds)
    try:
        return wire.take()
    except TimeoutError:
        return NO_ANSWER
    except (EOFError, ConnectionError):
        return CLOSED

"""Two brokers side by side, ours as a machine and another at an address: each is asked the same, one step at a time.

What a broker makes up by chance and what then decides, ids of topics and of members, is told to ours as the other has
it: the order of hash tables depends on ids. Time all but stands still for ours, so a script has to end before any timer
of the other.
"""

from __future__ import annotations

import random
import re
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any

from kohort.model import uuid_from_text
from kohort.wire.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DescribeGroupsRequest
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from kohort.wire.messages.producer_ids import InitProducerIdRequest
from kohort.wire.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kohort.wire.schema import Message
from support.differential.harness import CLOSED, NO_ANSWER, SILENCE_S, fitted, unequal
from support.differential.modern.allowed import is_allowed_of_modern
from support.differential.modern.words import Words
from support.differential.steps import Client, _take
from support.machines.broker_stage import BrokerStage
from support.raw.broker_under_test import BrokerUnderTest
from support.waiting import eventually

CLUSTER_WIDE = ""
INTERVAL = "group.consumer.assignment.interval.ms"
SET, DELETE, BROKER = 0, 1, 4
RESOLVED_S = 3.0
LATE_S = 8.0
HEX_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Parted(AssertionError):
    """The two brokers answered differently."""


class FedChance(random.Random):
    """Random source that also returns ids copied from the other broker."""

    def __init__(self) -> None:
        super().__init__(7)
        self.ids: deque[int] = deque()

    def getrandbits(self, k: int) -> int:
        return self.ids.popleft() if k == 128 and self.ids else super().getrandbits(k)


class FedStage(BrokerStage):
    """A kohort broker that uses the ids of the other broker."""

    def start(self) -> None:
        self.chance = self.rng = FedChance()
        super().start()

    def push_id(self, value: bytes) -> None:
        self.chance.ids.append(int.from_bytes(value, "big"))


def assign_without_delay(bootstrap: str, *, set_it: bool) -> None:
    """Set or remove the assignment delay of zero on all brokers of a cluster."""
    config = AlterableConfig(name=INTERVAL, config_operation=SET if set_it else DELETE, value="0" if set_it else None)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=CLUSTER_WIDE, configs=[config])
    broker = BrokerUnderTest(bootstrap)
    try:
        (result,) = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert result.error_code == 0, result
        eventually(lambda: (broker.config(INTERVAL) == 0) == set_it, f"{INTERVAL} stays")
    finally:
        broker.close()


class Both:
    """Both brokers. Responses are compared as they come; ``Parted`` reports the first difference."""

    def __init__(self, bootstrap: str) -> None:
        self.theirs = BrokerUnderTest(bootstrap)
        self.ours = FedStage(
            group_max_size=5,
            group_min_session_timeout_ms=500,
            group_consumer_min_session_timeout_ms=500,
            group_consumer_min_heartbeat_interval_ms=100,
            group_consumer_assignment_interval_ms=0,
        )
        self.mark = self.theirs.mark
        self.words = Words(self.mark)
        self._begun = time.monotonic()
        self.transcript: list[str] = []
        """Requests so far, one line each."""
        self._wires: dict[str, tuple[Client, Any]] = {}
        self.waiting: dict[str, tuple[Message, int]] = {}
        self.hears: dict[str, Callable[[Any], None]] = {}
        """Callbacks for responses, also to parked requests."""
        self._client_id = ""
        self._producers = ((-1, -1), (-1, -1))
        self._early: dict[str, Any] = {}
        self._admin = self.ours.connect()

    def close(self) -> None:
        self.theirs.close()

    @property
    def is_late(self) -> bool:
        """Return True near ten seconds, when Kafka resolves subscription patterns again."""
        return time.monotonic() - self._begun > LATE_S

    def group(self, name: str) -> str:
        group = self.theirs.group(name)
        self._admin.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4)
        return group

    # Topics.

    def create(self, name: str, partitions: int) -> str:
        topic = f"{name}-{self.mark}"
        self.theirs.wire.create(topic, partitions)
        self.theirs.await_topic(topic, partitions)
        topic_id = self.theirs.topic_id(topic)
        self.ours.push_id(topic_id)
        self._admin.create(topic, partitions)
        assert self._admin.topic_id(topic) == topic_id
        self.words.topics[topic_id] = name
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=partitions, assignments=None)], timeout_ms=5000
        )
        answer = self.theirs.ask(request, 3).results[0]
        assert answer.error_code == 0, answer
        self.theirs.await_topic(topic, partitions)
        self._admin.ask(request, 3)

    def delete(self, topic: str) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=5000)
        assert self.theirs.ask(request, 6).responses[0].error_code == 0
        eventually(lambda: self.theirs._described(topic).error_code == 3, f"{topic} stays")
        self._admin.ask(request, 6)

    # Requests.

    def ask(self, actor: str, message: Message, version: int) -> dict[str, Any]:
        """Send a request of ``actor`` to both brokers; return the matching responses by actor."""
        self.transcript.append(f"{actor}: v{version} {self.words.plain(message)}")
        message = fitted(message, version)
        self.waiting[actor] = (message, version)
        ours, theirs = self._wires.setdefault(actor, self._connect(actor))
        if isinstance(message, JoinGroupRequest) and not message.member_id:
            there = set(self._members_of_theirs(message.group_id))
            theirs.send(message, version)
            self._push_id(self._assigned_id(actor, message, theirs, there))
        else:
            theirs.send(self._own(message, 1), version)
        ours.send(self._own(message, 0), version)
        self.ours.advance(1)  # a search for topics does one step per millisecond
        self.ours.chance.ids.clear()
        answered = {
            name: answer for name in sorted(self.waiting) if (answer := self._wires[name][0].take()) is not None
        }
        for name, answer in answered.items():
            self._compare(name, answer, self._theirs_to(name))
        if actor not in answered:
            self.theirs.await_earlier_requests(self.mark)
        for name, answer in answered.items():
            if name in self.hears:
                self.hears[name](answer)
        return answered

    def ours_alone(self, message: Message, version: int) -> Any:
        """Return the kohort broker's response to a request that the other broker does not get."""
        return self._admin.ask(message, version)

    def members_of_classic(self, group: str) -> int:
        """Return the number of members of a classic group, else 0."""
        found = None if (groups := self._groups_beside(group)) is None else groups.by_id.get(group)
        return 0 if found is None else len(found.round.members)

    def has_members(self, group: str) -> bool:
        found = None if (groups := self._groups_beside(group)) is None else groups.consumer.get(group)
        return bool(self.members_of_classic(group) or (found is not None and found.members))

    def _groups_beside(self, group: str) -> Any:
        coordinator = self.ours.broker.state.coordinator
        shard = coordinator._shards.get(coordinator.partition_of(group))
        return None if shard is None else shard.groups

    def speak_alike(self) -> None:
        """Use one client id for all processes: only Kafka keeps the client id of a static member's first process."""
        self._client_id = "c"

    def await_same_epoch(self, group: str) -> None:
        """Wait until the other broker has the same group epoch: it resolves patterns asynchronously."""
        look = ConsumerGroupDescribeRequest(group_ids=[group])
        epoch = self._admin.ask(look, 1).groups[0].group_epoch
        deadline = time.monotonic() + RESOLVED_S
        while self.theirs.ask(look, 1).groups[0].group_epoch != epoch and time.monotonic() < deadline:
            pass

    def await_partition_count(self, group: str, topic: str, partitions: int) -> None:
        """Wait until Kafka's coordinator of ``group`` knows ``partitions`` partitions of a topic.

        Temporary groups of one member each show it by their assignments.
        """
        coordinator = self.ours.broker.state.coordinator
        partition = coordinator.partition_of(group)

        def assigned_count() -> int:
            names = (f"probe-{uuid.uuid4()}" for _ in range(1000))
            probe = next(name for name in names if coordinator.partition_of(name) == partition)
            joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic], "topic_partitions": []}
            join = ConsumerGroupHeartbeatRequest(group_id=probe, member_id="probe", member_epoch=0, **joins)
            answer = self.theirs.ask(join, 1)
            assert answer.error_code == 0, answer
            self.theirs.ask(ConsumerGroupHeartbeatRequest(group_id=probe, member_id="probe", member_epoch=-1), 1)
            return sum(len(of.partitions) for of in answer.assignment.topic_partitions)

        eventually(lambda: assigned_count() == partitions, f"the coordinator has not heard of {topic}")

    def check_still_parked(self) -> None:
        """Raise Parted if the other broker answers a request that is parked here."""
        for name in sorted(self.waiting):
            answer = _take(self._wires[name][1], 0.05)
            if answer != NO_ANSWER:
                raise Parted(f"{name} is parked in kohort, but Kafka answers {answer}")

    def _members_of_theirs(self, group: str) -> list[str]:
        return [m.member_id for m in self.theirs.ask(DescribeGroupsRequest(groups=[group]), 5).groups[0].members]

    def _assigned_id(self, actor: str, message: JoinGroupRequest, theirs: Any, there: set[str]) -> str:
        """Return the id that Kafka gives a member: from its response, or from a description of the group."""
        deadline = time.monotonic() + SILENCE_S
        while time.monotonic() < deadline:
            answer = _take(theirs, 0.05)
            if answer != NO_ANSWER:
                self._early[actor] = answer
                return getattr(answer, "member_id", "")
            for member_id in self._members_of_theirs(message.group_id):
                if member_id not in there:
                    return member_id
        raise Parted(f"Kafka gives {actor} no member id")

    def _theirs_to(self, name: str) -> Any:
        if name in self._early:
            return self._early.pop(name)
        return _take(self._wires[name][1], SILENCE_S)

    def _own(self, message: Message, whose: int) -> Any:
        """Return a request with the producer id and epoch of broker ``whose``."""
        if not hasattr(message, "producer_id") or isinstance(message, InitProducerIdRequest):
            return message
        fields = {field.name: getattr(message, field.name) for field in message.FIELDS}
        fields["producer_id"], fields["producer_epoch"] = self._producers[whose]
        return type(message)(**fields)

    def _push_id(self, member_id: str) -> None:
        if found := HEX_ID.search(member_id):
            self.ours.push_id(bytes.fromhex(found[0].replace("-", "")))
        elif len(member_id) == 22:
            self.ours.push_id(uuid_from_text(member_id))

    def _connect(self, actor: str) -> tuple[Client, Any]:
        client_id = self._client_id or f"c-{actor}"
        return Client(self.ours, client_id), self.theirs.connect(client_id)

    def _compare(self, actor: str, ours: Any, theirs: Any) -> None:
        message, version = self.waiting.pop(actor)
        request = type(message).__name__
        if CLOSED in (ours, theirs):
            del self._wires[actor]
        self._note_producers(ours, theirs)
        one, other = self.words.plain(ours), self.words.plain(theirs)
        found = [
            f"{path}: ours {a!r}, theirs {b!r}"
            for path, a, b in unequal(one, other, "")
            if not is_allowed_of_modern(request, path, a, b)
        ]
        if found:
            whole = f"\nours   {one}\ntheirs {other}\n"
            raise Parted(f"{request} v{version} of {actor}: " + "; ".join(found) + whole)

    def _note_producers(self, ours: Any, theirs: Any) -> None:
        """Keep the producer id and epoch of both responses."""
        if all(getattr(answer, "producer_id", -1) >= 0 and not answer.error_code for answer in (ours, theirs)):
            one, other = ((answer.producer_id, answer.producer_epoch) for answer in (ours, theirs))
            self._producers = one, other

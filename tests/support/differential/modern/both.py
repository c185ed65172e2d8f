"""Two brokers side by side, ours as a machine and another at an address: each is asked the same, one step at a time.

What a broker makes up by chance and what then decides, ids of topics and of members, is told to ours as the other has
it: the order of hash tables depends on ids. Time stands still for ours, so a script has to end before any timer of the
other.
"""

from __future__ import annotations

import random
import re
import time
from collections import deque
from typing import Any

from kohort.model import uuid_from_text
from kohort.wire.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_classic import JoinGroupRequest
from kohort.wire.messages.group_consumer import ConsumerGroupDescribeRequest
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
HEX_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Parted(AssertionError):
    """The two brokers answered differently."""


class FedChance(random.Random):
    """Chance, but for ids that were told."""

    def __init__(self) -> None:
        super().__init__(7)
        self.told: deque[int] = deque()

    def getrandbits(self, k: int) -> int:
        return self.told.popleft() if k == 128 and self.told else super().getrandbits(k)


class FedStage(BrokerStage):
    """Our broker, that makes the ids that it is told."""

    def start(self) -> None:
        self.chance = self.rng = FedChance()
        super().start()

    def tell(self, value: bytes) -> None:
        self.chance.told.append(int.from_bytes(value, "big"))


def assign_without_delay(bootstrap: str, *, set_it: bool) -> None:
    """Let targets be computed at once by all brokers of a cluster, or as before."""
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
    """Ours and theirs. Answers are compared as they come; ``Parted`` tells of the first that differ."""

    def __init__(self, bootstrap: str) -> None:
        self.theirs = BrokerUnderTest(bootstrap)
        self.ours = FedStage(
            group_max_size=5,
            group_min_session_timeout_ms=500,
            group_consumer_assignment_interval_ms=0,
        )
        self.mark = self.theirs.mark
        self.words = Words(self.mark)
        self.told: list[str] = []
        """What was asked, one line each."""
        self._wires: dict[str, tuple[Client, Any]] = {}
        self.waiting: dict[str, tuple[Message, int]] = {}
        self._admin = self.ours.connect()

    def close(self) -> None:
        self.theirs.close()

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
        self.ours.tell(topic_id)
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
        """Let ``actor`` ask both. Returns who is answered now, and what, as far as the two agree."""
        self.told.append(f"{actor}: v{version} {self.words.plain(message)}")
        message = fitted(message, version)
        self.waiting[actor] = (message, version)
        ours, theirs = self._wires.setdefault(actor, self._connect(actor))
        if isinstance(message, JoinGroupRequest) and not message.member_id:
            return self._ask_for_id(actor, message, version)
        ours.send(message, version)
        theirs.send(message, version)
        self.ours.advance(0)
        answered = {
            name: answer for name in sorted(self.waiting) if (answer := self._wires[name][0].take()) is not None
        }
        for name, answer in answered.items():
            self._compare(name, answer, _take(self._wires[name][1], SILENCE_S))
        return answered

    def await_same_epoch(self, group: str) -> None:
        """Until theirs has the epoch of ours, or a deadline: expressions are resolved beside the heartbeats."""
        look = ConsumerGroupDescribeRequest(group_ids=[group])
        epoch = self._admin.ask(look, 1).groups[0].group_epoch
        deadline = time.monotonic() + RESOLVED_S
        while self.theirs.ask(look, 1).groups[0].group_epoch != epoch and time.monotonic() < deadline:
            pass

    def nobody_else(self) -> None:
        """Judge that whom ours lets wait is not answered by the other."""
        for name in sorted(self.waiting):
            answer = _take(self._wires[name][1], 0.05)
            if answer != NO_ANSWER:
                raise Parted(f"{name} waits for ours, and is told by theirs {answer}")

    def _ask_for_id(self, actor: str, message: Message, version: int) -> dict[str, Any]:
        """Who is given an id is given theirs by ours."""
        ours, theirs = self._wires[actor]
        theirs.send(message, version)
        answer = _take(theirs, SILENCE_S)
        self._tell_id(getattr(answer, "member_id", ""))
        ours.send(message, version)
        self.ours.advance(0)
        mine = ours.take()
        self.ours.chance.told.clear()
        self._compare(actor, NO_ANSWER if mine is None else mine, answer)
        return {actor: mine}

    def _tell_id(self, member_id: str) -> None:
        if found := HEX_ID.search(member_id):
            self.ours.tell(bytes.fromhex(found[0].replace("-", "")))
        elif len(member_id) == 22:
            self.ours.tell(uuid_from_text(member_id))

    def _connect(self, actor: str) -> tuple[Client, Any]:
        return Client(self.ours, f"c-{actor}"), self.theirs.connect(f"c-{actor}")

    def _compare(self, actor: str, ours: Any, theirs: Any) -> None:
        message, version = self.waiting.pop(actor)
        asked = type(message).__name__
        if CLOSED in (ours, theirs):
            del self._wires[actor]
        one, other = self.words.plain(ours), self.words.plain(theirs)
        found = [
            f"{path}: ours {a!r}, theirs {b!r}"
            for path, a, b in unequal(one, other, "")
            if not is_allowed_of_modern(asked, path, a, b)
        ]
        if found:
            raise Parted(f"{asked} v{version} of {actor}: " + "; ".join(found))

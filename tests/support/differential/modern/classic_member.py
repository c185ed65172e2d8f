"""A classic member on two brokers: in a classic group, or in a consumer group with members of both protocols."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kohort.errors import ProtocolError
from kohort.model import TopicPartition
from kohort.wire.consumer_protocol import (
    Assignment,
    Subscription,
    build_assignment,
    build_subscription,
    parse_assignment,
)
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from support.differential.modern.both import Both

REBALANCE, UNKNOWN, ID_REQUIRED = 27, 25, 79
LOST = {22, 82, UNKNOWN}
FIRST_STATIC = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3}


class ClassicMember:
    """A classic member with the values of its last responses."""

    def __init__(self, both: Both, chance: random.Random, name: str, group: str, sizes: dict[str, int]) -> None:
        self.both = both
        self.chance = chance
        self.name = name
        self.group = group
        self.sizes = sizes
        """Partitions by topic, of all topics."""
        self.member_id = ""
        self.instance_id = f"i{chance.randrange(3)}" if chance.random() < 0.35 else None
        self.generation = -1
        self.leader = ""
        self.with_it: list[str] = []
        """Members in the leader's JoinGroup response."""
        self.has: list[TopicPartition] = []
        self.names: list[str] = []
        self.phase = "out"
        self.cooperates = chance.random() < 0.6
        self.protocols: tuple[str, ...] = chance.choice((("range",), ("range", "roundrobin"), ("range", "sticky")))
        self.version = chance.choice((9, 9, 9, 8, 7, 6, 5, 4, 3))
        both.hears[name] = self.learn

    @property
    def epoch(self) -> int:
        return self.generation

    def act(self) -> None:
        """Send the protocol's next request, or another one."""
        if self.name in self.both.waiting:
            return
        if self.chance.random() < 0.72 or not self.member_id:
            fitting = {"out": self.join, "joined": self.sync, "stable": self.heartbeat, "told": self.rejoin}
            fitting[self.phase]()
            return
        self.chance.choice(
            (
                self.rejoin,
                self.resubscribe,
                self.resubscribe,
                self.sync,
                self.heartbeat,
                self.stale,
                self.leave,
                self.leave,
                self.restart,
                self.restart,
                self.nonsense,
                self.come_without_instance,
            )
        )()

    def _ask(self, message: Any, version: int) -> None:
        self.both.ask(self.name, message, version)

    def learn(self, answer: Any) -> None:
        """Update the member from a response, also to an old request."""
        code = getattr(answer, "error_code", 0)
        if isinstance(answer, JoinGroupResponse | SyncGroupResponse | HeartbeatResponse):
            if code in LOST:
                self._forget(keeps_id=code == 22)
            elif code == REBALANCE:
                self.phase = "told"
        if isinstance(answer, JoinGroupResponse) and code in (0, ID_REQUIRED):
            self.member_id = answer.member_id
            if not code:
                self.generation, self.leader, self.phase = answer.generation_id, answer.leader, "joined"
                self.with_it = [member.member_id for member in answer.members]
        elif isinstance(answer, SyncGroupResponse) and not code:
            self.phase = "stable"
            try:
                self.has = parse_assignment(bytes(answer.assignment)).partitions
            except ProtocolError:
                self.has = []

    def _forget(self, *, keeps_id: bool = False) -> None:
        self.has, self.phase = [], "out"
        if not keeps_id:
            self.member_id = ""

    # JoinGroup.

    def _subscribe(self) -> None:
        topics = [*self.sizes]
        self.names = self.chance.sample(topics, self.chance.randint(1, len(topics)))

    def _blob(self) -> bytes:
        owned = self.has if self.cooperates else []
        rack = self.chance.choice((None, None, None, "r1"))
        subscription = Subscription(self.names, owned_partitions=owned, generation_id=self.generation, rack_id=rack)
        return build_subscription(subscription, self.chance.choice((3, 3, 3, 1, 0)))

    def join(self, **fields: Any) -> None:
        """Join, or join again under the current member id."""
        if not self.names or self.chance.random() < 0.1:
            self._subscribe()
        if not self.both.has_members(self.group):
            self._forget()  # an unknown member id makes Kafka delete an empty consumer group
        blob = self._blob()
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id if self.version >= FIRST_STATIC[JoinGroupRequest] else None,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=blob) for name in self.protocols],
        }
        self._ask(JoinGroupRequest(**(all_fields | fields)), self.version)

    def rejoin(self) -> None:
        self.join()

    def resubscribe(self) -> None:
        self._subscribe()
        self.join()

    def restart(self) -> None:
        """Restart the process: a static member keeps its place, a dynamic one leaves a second member behind."""
        self._forget()
        self.join()

    def come_without_instance(self) -> None:
        self.join(group_instance_id=None)

    # SyncGroup, Heartbeat, LeaveGroup.

    def sync(self, **fields: Any) -> None:
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.chance.choice(("consumer", "consumer", None)),
            "protocol_name": self.chance.choice((self.protocols[0], self.protocols[0], None)),
            "assignments": self._plan() if self.leader == self.member_id else [],
        }
        self._ask(SyncGroupRequest(**(all_fields | fields)), self.chance.choice((5, 5, 4, 3)))

    def _plan(self) -> list[SyncGroupRequestAssignment]:
        """Assign each partition to a member, sometimes with unreadable bytes."""
        shares: dict[str, list[TopicPartition]] = {member_id: [] for member_id in sorted(self.with_it)}
        for topic in sorted(self.sizes):
            for partition in range(self.sizes[topic]):
                shares[self.chance.choice(sorted(shares))].append(TopicPartition(topic, partition))
        data = b"mine" if self.chance.random() < 0.05 else None
        blobs = {m: build_assignment(Assignment(share, data)) for m, share in shares.items()}
        if self.chance.random() < 0.05:
            blobs[min(blobs)] = self.chance.choice((b"", b"x"))
        return [SyncGroupRequestAssignment(member_id=m, assignment=blob) for m, blob in blobs.items()]

    def heartbeat(self, **fields: Any) -> None:
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        self._ask(HeartbeatRequest(**(all_fields | fields)), self.chance.choice((4, 4, 3, 1)))

    def stale(self) -> None:
        generation = self.generation + self.chance.choice((-1, 1, 5))
        self.chance.choice((self.heartbeat, self.sync))(generation_id=generation)

    def leave(self) -> None:
        """Leave alone or with others. Kafka picks a random new leader if the leader of a classic group leaves."""
        if self.both.members_of_classic(self.group) > 2:
            return
        me = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason="done")
        anybody = MemberIdentity(member_id="", group_instance_id=f"i{self.chance.randrange(3)}")
        stranger = MemberIdentity(member_id="nobody")
        entries = self.chance.choice(([me], [me], [me, anybody], [anybody], [stranger], [me, stranger], [me, me]))
        version = self.chance.choice((5, 4, 3, 3, 1)) if len(entries) == 1 else 5
        self._ask(LeaveGroupRequest(group_id=self.group, member_id=self.member_id, members=entries), version)
        if version < 3 or me in entries:
            self._forget()

    def nonsense(self) -> None:
        odd: Sequence[Callable[[], object]] = (
            lambda: self.join(protocol_type="connect"),
            lambda: self.join(protocols=[JoinGroupRequestProtocol(name="unheard of", metadata=self._blob())]),
            lambda: self.join(protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\x00")]),
            lambda: self.join(session_timeout_ms=1),
            lambda: self.both.has_members(self.group) and self.join(member_id="nobody"),
            lambda: self.sync(protocol_type="connect"),
            lambda: self.sync(protocol_name="unheard of"),
            lambda: self.sync(member_id="nobody"),
            lambda: self.sync(group_instance_id="nobody"),
            lambda: self.heartbeat(member_id="nobody"),
            lambda: self.heartbeat(group_instance_id=f"i{self.chance.randrange(3)}"),
        )
        self.chance.choice(odd)()

"""Forged ConsumerGroupHeartbeats: unknown epochs and member ids, leaves for other members, replayed heartbeats.

A coordinator cannot reject a forgery that equals a valid request, such as the current epoch with other owned
partitions. Such forgeries are left out.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kohort.client.admin.coordinators import CoordinatorCall, ask_coordinators
from kohort.client.admin.operations import Operation
from kohort.client.requests.metadata import Metadata
from kohort.model import TopicPartition
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort_lab.sim.actors.admins import AdminActor, Make
from kohort_lab.sim.actors.forged_requests import ClaimedMember, commit_as
from kohort_lab.sim.checks.watcher import Exchange, WatchedConsumer, Watcher

KEPT: Final = 24
"""Number of heartbeats stored per member."""
OUT_OF_REACH: Final = 1_000
"""Distance to an epoch that no member reaches while a request is in flight."""


class ClaimedHeartbeat(NamedTuple):
    """Claimed identity of a forged heartbeat."""

    member_id: str
    epoch: int
    instance_id: str | None = None


def modern_heartbeat_as(metadata: Metadata, group_id: str, who: ClaimedHeartbeat) -> Operation[int]:
    """Send a heartbeat, or a leave, with a claimed identity; return the epoch of the response."""
    message = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=who.member_id, member_epoch=who.epoch, instance_id=who.instance_id
    )
    return heartbeat_again(metadata, message)


def heartbeat_again(metadata: Metadata, message: ConsumerGroupHeartbeatRequest) -> Operation[int]:
    """Send a copy of a heartbeat; return the epoch of the response."""

    def read(answer: ConsumerGroupHeartbeatResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return answer.error_code, answer.error_message, answer.member_epoch

    by_group = yield from ask_coordinators(metadata, [message.group_id], CoordinatorCall(lambda _group: message, read))
    epoch: int = by_group[message.group_id]
    return epoch


class HeartbeatRecorder(Watcher):
    """Recorder of the last distinct heartbeats by member id, without leaves.

    ``strangers``: name of the client that forges heartbeats.
    """

    def __init__(self, strangers: str) -> None:
        self.forged: set[str] = set()
        """Member ids whose owned partitions a forged heartbeat reported; their ownership is unknown."""
        self._strangers = strangers
        self._by_member: dict[str, deque[ConsumerGroupHeartbeatRequest]] = {}

    def requested(self, exchange: Exchange) -> None:
        request = exchange.request
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return
        if exchange.client == self._strangers:
            if request.topic_partitions is not None:
                self.forged.add(request.member_id)
            return
        sent = self._by_member.setdefault(request.member_id, deque(maxlen=KEPT))
        if request.member_epoch >= JOINING_EPOCH and not (sent and sent[-1] == request):
            sent.append(request)

    def of(self, member_id: str) -> list[ConsumerGroupHeartbeatRequest]:
        """Return a member's heartbeats, oldest first."""
        return list(self._by_member.get(member_id, ()))


class ForgedHeartbeats:
    """Forger of heartbeats, through the administrator's client."""

    def __init__(
        self,
        admin: AdminActor,
        group_id: str,
        victims: Sequence[WatchedConsumer],
        overheard: HeartbeatRecorder,
        topic: str,
    ) -> None:
        self._admin = admin
        self._group_id = group_id
        self._victims = victims
        self._overheard = overheard
        self._partition = TopicPartition(topic, 0)

    def claim(self, rng: random.Random) -> None:
        """Forge a request of a member with an unknown epoch, or of an unknown member."""
        group, partition = self._group_id, self._partition
        victim = rng.choice(self._victims)
        epoch = victim.generation_id + rng.choice([1, 7]) if victim.generation_id > 0 else 3
        claim, never = ClaimedHeartbeat(victim.member_id or "nobody", epoch, victim.instance_id), epoch + OUT_OF_REACH
        unknown_member = ClaimedHeartbeat("nobody", rng.choice([1, -1]))
        choices: list[tuple[str, Make]] = [
            (f"claims epoch {epoch} of {victim.name}", lambda m: modern_heartbeat_as(m, group, claim)),
            ("claims to be nobody", lambda m: modern_heartbeat_as(m, group, unknown_member)),
            ("commits from outside", lambda m: commit_as(m, group, ClaimedMember(), partition, 0)),
            ("commits as nobody", lambda m: commit_as(m, group, ClaimedMember("nobody", None, 1), partition, 0)),
            (
                "commits too late",
                lambda m: commit_as(m, group, ClaimedMember(claim.member_id, None, never), partition, 0),
            ),
        ]
        self._admin.do(*rng.choice(choices))

    def evict(self, rng: random.Random) -> None:
        """Forge a member's leave."""
        victim = rng.choice(self._victims)
        if victim.member_id:
            claim = ClaimedHeartbeat(victim.member_id, LEAVING_EPOCH, victim.instance_id)
            self._admin.do(f"takes out {victim.name}", lambda m: modern_heartbeat_as(m, self._group_id, claim))

    def repeat(self, rng: random.Random) -> None:
        """Replay a heartbeat of a member: any, a join, one with owned partitions, or one of an earlier epoch."""
        victim = rng.choice(self._victims)
        sent = self._overheard.of(victim.member_id)
        joins = [message for message in sent if message.member_epoch == JOINING_EPOCH]
        lists = [message for message in sent if message.member_epoch != JOINING_EPOCH and message.topic_partitions]
        earlier = [message for message in sent if JOINING_EPOCH < message.member_epoch < victim.generation_id]
        again = rng.choice([sent, joins, lists, earlier])
        if again:
            message = rng.choice(again)
            self._admin.do(
                f"says again what {victim.name} said at {message.member_epoch}", lambda m: heartbeat_again(m, message)
            )

"""Traffic of members: requests to their coordinator, and notifications from it.

It counts the effects of a change, alike for every generation. Regular traffic is left out: keep-alive heartbeats and
pings, fetches, metadata, and commits, which are the same in all generations.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from kohort.errors import ErrorCode
from kohort.wire.messages.group_consumer import (
    JOINING_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kohort.wire.schema import Message
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.tap import frame_starts
from kohort_lab.sim.tree.messages import (
    Changed,
    Numbered,
    OpenSession,
    ReadEach,
    TreeAnswer,
    Write,
    parse_to_client,
    parse_to_server,
)

COORDINATION: Final = frozenset({"FindCoordinator", "JoinGroup", "SyncGroup", "LeaveGroup", "OffsetFetch"})
HEARTBEAT_NOTICES: Final = frozenset(
    {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
)
CONSUMER_GROUP_HEARTBEAT: Final = 68
FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
SIZE_BYTES: Final = 4


class Traffic(Watcher):
    """Counter of requests and notifications in a broker-coordinated group."""

    hears_all = True

    def __init__(self) -> None:
        self.members: set[str] = set()
        """Client names of the counted members."""
        self.requests = 0
        self.notifications = 0

    def requested(self, exchange: Exchange) -> None:
        if exchange.client in self.members and (exchange.api.name in COORDINATION or _says_something(exchange.request)):
            self.requests += 1

    def answered(self, exchange: Exchange) -> None:
        if exchange.client not in self.members:
            return
        if exchange.api.name == "Heartbeat" and exchange.error in HEARTBEAT_NOTICES:
            self.notifications += 1
        elif isinstance(exchange.answer, ConsumerGroupHeartbeatResponse):
            is_joining = getattr(exchange.request, "member_epoch", 0) <= JOINING_EPOCH
            is_notified = exchange.answer.assignment is not None or exchange.error in FENCED
            self.notifications += is_notified and not is_joining


def _says_something(request: Message | None) -> bool:
    """Return True if a heartbeat joins, leaves or reports owned partitions."""
    if not isinstance(request, ConsumerGroupHeartbeatRequest):
        return False
    return request.member_epoch <= JOINING_EPOCH or request.topic_partitions is not None


class TreeTraffic:
    """Observer of tree server connections; counts into ``traffic``."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._links: dict[int, str] = {}
        self._each: dict[int, set[int]] = {}

    def client_sent(self, link_id: int, client: str, data: bytes) -> None:
        """Count the requests in a client's data."""
        if client not in self._traffic.members:
            return
        self._links[link_id] = client
        for frame in _frames(data):
            message = parse_to_server(frame)
            if isinstance(message, Numbered) and not isinstance(message.request, Write):
                self._traffic.requests += 1
                if isinstance(message.request, ReadEach):
                    self._each.setdefault(link_id, set()).add(message.number)
            elif isinstance(message, OpenSession):
                self._traffic.requests += 1

    def server_sent(self, link_id: int, data: bytes) -> None:
        """Count the messages in the server's data; a list of children counts one request per child."""
        if link_id not in self._links:
            return
        for frame in _frames(data):
            message = parse_to_client(frame)
            if isinstance(message, Changed):
                self._traffic.notifications += 1
            elif isinstance(message, TreeAnswer) and message.number in self._each.get(link_id, ()):
                self._each[link_id].discard(message.number)
                self._traffic.requests += len(message.children)

    def link_closed(self, link_id: int) -> None:
        self._links.pop(link_id, None)
        self._each.pop(link_id, None)


def _frames(data: bytes) -> list[bytes]:
    starts = [*frame_starts(data), len(data)]
    return [data[at + SIZE_BYTES : end] for at, end in pairwise(starts)]

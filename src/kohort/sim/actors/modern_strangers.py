"""ConsumerGroupHeartbeats that no member of the group would send: with an epoch that nobody was told, under an id that
nobody has, and to take another out.

What cannot be told from the member itself, such as its own epoch with other partitions, is left out: no coordinator
could refuse it.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.client.admin.coordinators import GroupCall, for_each_group
from kohort.client.admin.operations import Operation
from kohort.client.requests.metadata import Metadata
from kohort.wire.messages.group_consumer import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse


class FalseHeartbeat(NamedTuple):
    """Whose heartbeat it pretends to be."""

    member_id: str
    epoch: int
    instance_id: str | None = None


def modern_heartbeat_as(metadata: Metadata, group_id: str, who: FalseHeartbeat) -> Operation[int]:
    """Send a heartbeat as somebody, or a leave where the epoch says so; returns the epoch of the answer."""

    def read(answer: ConsumerGroupHeartbeatResponse, _group: str, _node_id: int) -> tuple[int, str | None, int]:
        return answer.error_code, answer.error_message, answer.member_epoch

    def ask(group: str) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=who.member_id, member_epoch=who.epoch, instance_id=who.instance_id
        )

    by_group = yield from for_each_group(metadata, [group_id], GroupCall(ask, read))
    epoch: int = by_group[group_id]
    return epoch

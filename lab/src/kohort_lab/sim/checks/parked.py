"""Purgatory check: a waiting request is registered, connected and not yet satisfiable."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.broker.apis.fetch import OpenFetch
from kohort.broker.broker import Broker
from kohort.broker.state import BrokerState
from kohort.coordinator.outcome import GroupRequest
from kohort.coordinator.runtime import Coordinator
from kohort.log.topics import Topic
from kohort.wire.apis import APIS
from kohort_lab.sim.checks.broken import CheckFailed


def check_parked(broker: Broker) -> None:
    """Check between events that each waiting request has an open connection, unmet conditions and a timer."""
    waiting = set(broker.state.connections.in_flight())
    remembered = {request.reply_to for request in waiting_requests(broker.state.coordinator)} | set(broker.long_work)
    for parked in broker.state.purgatory:
        connection = parked.reply_to.connection
        remembered.add(parked.reply_to)
        if parked.reply_to not in waiting:
            raise CheckFailed(f"a fetch waits for connection {connection}, which is closed")
        reading = parked.context
        assert isinstance(reading, OpenFetch)
        there, min_bytes = bytes_there(broker.state, reading), reading.request.message.min_bytes
        if there >= min_bytes:
            raise CheckFailed(
                f"a fetch of connection {connection} waits for {min_bytes} bytes, but {there} are available"
            )
    if forgotten := sorted(waiting - remembered):
        api = APIS[forgotten[0].api_key].name
        raise CheckFailed(f"{api} on connection {forgotten[0].connection} waits without any pending response")


def waiting_requests(coordinator: Coordinator) -> Iterator[GroupRequest]:
    """Yield the JoinGroups and SyncGroups that wait for their response."""
    for _, groups in coordinator.all_groups():
        for group in groups.by_id.values():
            for member in group.round.members.values():
                yield from (request for request in (member.join, member.sync) if request is not None)


def bytes_there(state: BrokerState, reading: OpenFetch) -> int:
    """Return the bytes that a waiting fetch could return now, without unauthorized topics."""
    there = 0
    for partition in reading.plan.wanted:
        if partition.topic in reading.denied:
            continue
        topic: Topic | None
        topic = (
            state.topics.by_id(partition.topic)
            if isinstance(partition.topic, bytes)
            else state.topics.get(partition.topic)
        )
        log = topic.partitions[partition.partition] if topic is not None else None
        if log is not None and partition.fetch_offset < log.high_watermark:
            there += min(log.bytes_available(partition.fetch_offset), partition.max_bytes)
    return there

"""A request that waits is remembered, its connection is open, and what it waits for is not there yet."""

from __future__ import annotations

from kohort.broker.apis.fetch import OpenFetch
from kohort.broker.broker import Broker
from kohort.broker.state import BrokerState
from kohort.log.topics import Topic
from kohort.wire.apis import APIS
from kohort_lab.sim.checks.broken import CheckFailed


def check_parked(broker: Broker) -> None:
    """Between events nobody waits who could be answered, or whose connection is gone; nobody is forgotten."""
    waiting = set(broker.in_flight())
    remembered = {asked.reply_to for asked in broker.state.coordinator.parked()} | set(broker.long_work)
    for parked in broker.state.purgatory:
        connection = parked.reply_to.connection
        remembered.add(parked.reply_to)
        if parked.reply_to not in waiting:
            raise CheckFailed(f"a fetch waits for connection {connection}, which is gone")
        reading = parked.context
        assert isinstance(reading, OpenFetch)
        there, wanted = bytes_there(broker.state, reading), reading.request.message.min_bytes
        if there >= wanted:
            raise CheckFailed(f"a fetch of connection {connection} waits for {wanted} bytes, and {there} are there")
    if forgotten := sorted(waiting - remembered):
        api = APIS[forgotten[0].api_key].name
        raise CheckFailed(f"{api} on connection {forgotten[0].connection} waits, and nothing is left that answers it")


def bytes_there(state: BrokerState, reading: OpenFetch) -> int:
    """Count the bytes that the fetch could be given now; what its client may not read is none of them."""
    there = 0
    for wanted in reading.plan.wanted:
        if wanted.topic in reading.denied:
            continue
        topic: Topic | None
        topic = state.topics.by_id(wanted.topic) if isinstance(wanted.topic, bytes) else state.topics.get(wanted.topic)
        log = topic.partitions[wanted.partition] if topic is not None else None
        if log is not None and wanted.fetch_offset < log.high_watermark:
            there += min(log.bytes_available(wanted.fetch_offset), wanted.max_bytes)
    return there

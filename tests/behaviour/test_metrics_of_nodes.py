from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kohort.aio.serving.cluster_server import ClusterServer, start_brokers
from kohort.aio.system import wall_ms
from kohort.config.broker import BrokerConfig
from kohort.config.options import parse_config
from kohort.coordinator.journal import GroupUnloaded, JournalEntry
from kohort.metrics.local_brokers import LocalBrokers


async def three_nodes() -> Any:
    config = parse_config(BrokerConfig, {"port": 0, "offsets.topic.num.partitions": 4})
    return await start_brokers(config, 3, None)


def write_journal(server: ClusterServer, node: int, *groups: str) -> None:
    entries = [GroupUnloaded(at_ms=wall_ms(), group=group, generation=1) for group in groups]
    server.servers[node].broker.state.counters.journal_written(entries)


def named(entries: Iterable[JournalEntry]) -> list[str]:
    return [entry.group for entry in entries]


def test_cancelled_snapshot_loses_no_journal_entries():
    async def write_and_cancel() -> None:
        server = await three_nodes()
        state = LocalBrokers(server, wall_ms)
        try:
            write_journal(server, 1, "a")
            look = asyncio.ensure_future(state.snapshot())
            await asyncio.sleep(0)
            look.cancel()
            write_journal(server, 2, "b")
            await state.snapshot()
            assert named(state.take_entries()) == ["a", "b"]
            assert list(state.take_entries()) == [], "each once"
        finally:
            state.end()
            await server.stop()

    asyncio.run(write_and_cancel())


def test_journal_entries_of_stopped_and_started_nodes_are_collected():
    async def write_and_snapshot() -> None:
        server = await three_nodes()
        state = LocalBrokers(server, wall_ms)
        try:
            write_journal(server, 2, "before")
            server.stop_node(2)
            await state.snapshot()
            assert named(state.take_entries()) == ["before"]

            await server.start_node(2)
            write_journal(server, 2, "after")
            server.stop_node(2)
            await server.start_node(2)
            write_journal(server, 2, "again")
            await state.snapshot()
            assert named(state.take_entries()) == ["after", "again"]
        finally:
            state.end()
            await server.stop()

        assert not any(live.broker.state.counters.keeps_entries for live in server.servers.values())

    asyncio.run(write_and_snapshot())

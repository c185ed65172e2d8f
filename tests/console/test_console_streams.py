import asyncio
import http.client
import socket
from typing import Any

import pytest

import kohort
from kohort.console.stream import MOST_QUEUED, MOST_QUEUED_BYTES, MOST_STREAMS, Hub
from support.console_client import console, live
from support.waiting import eventually


class Tab:
    def __init__(self, client, query="", **headers):
        self.wire = http.client.HTTPConnection(client.address, timeout=30)
        self.wire.request("GET", f"/api/v1/stream{query}", headers=headers)
        self.answer = self.wire.getresponse()

    def event(self, name):
        about = {}
        while True:
            line = self.answer.readline().decode()
            assert line, f"the stream ended before {name}"
            if line == "\n" and about.get("event") == name:
                return about
            if line == "\n":
                about = {}
            key, _, value = line.rstrip("\n").partition(": ")
            about[key] = value

    def close(self):
        self.answer.close()
        self.wire.close()


@pytest.fixture
def tab(orders, broker, client):
    tab = Tab(client, "?group=billing")
    yield tab
    tab.close()


def test_stream_sends_changes(tab, broker):
    assert tab.answer.status == 200
    assert tab.answer.getheader("content-type").startswith("text/event-stream")
    assert '"group":"billing"' in tab.event("group")["data"]
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("billing", {kohort.TopicPartition("orders", 0): 5})
    while '"lag":5' not in tab.event("groups")["data"]:
        pass
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(100)
        assert '"kind":"round_opened"' in tab.event("entries")["data"]


def test_reconnected_stream_sends_missed_events(orders, broker, client):
    tab = Tab(client)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets("billing", {kohort.TopicPartition("orders", 0): 5})
        last = tab.event("groups")["id"]
        tab.close()
        admin.alter_group_offsets("billing", {kohort.TopicPartition("orders", 0): 2})
        eventually(lambda: client.get("/groups/billing").json["status"]["lag"] == 8)
    back = Tab(client, **{"Last-Event-ID": last})
    assert int(back.event("groups")["id"]) > int(last)
    back.close()
    other = Tab(client, **{"Last-Event-ID": "999999"})
    other.event("resync")
    other.close()


def test_console_with_open_streams_stops_at_once(orders, broker, folder):
    with console(live(broker), folder) as client:
        tabs = [Tab(client) for _ in range(20)]
        client.get("/groups")
    for tab in tabs:
        tab.event("bye")
        assert tab.answer.read() == b""


def test_fifty_unread_streams_use_bounded_memory(orders, broker, folder, caplog):
    with console(live(broker, interval_s=3600), folder) as client:
        wires = []
        for _ in range(50):
            wire = socket.create_connection(client.address.split(":"))
            wire.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: {client.address}\r\n\r\n".encode())
            assert wire.recv(12) == b"HTTP/1.1 200"
            wires.append(wire)
        hub, loop = client.app.hub, client.app._loop
        done = asyncio.run_coroutine_threadsafe(flood(hub), loop).result(60)
        assert done <= 50 * (MOST_QUEUED_BYTES + 100_000)
        assert client.get("/groups").status == 200
    assert caplog.records == []  # aborted connections must not log a traceback
    for wire in wires:
        wire.close()


async def flood(hub):
    most = 0
    for _ in range(2_000):
        hub.publish("groups", b'"' + b"x" * 50_000 + b'"')
        most = max(most, sum(queue.size for queue in hub._streams))
        await asyncio.sleep(0)
    return most


async def taken(stream, many):
    return [await anext(stream) for _ in range(many)]


def test_overflow_of_stream_sends_one_resync_event():
    async def story():
        hub = Hub()
        stream: Any = hub.stream(hub.open("mine"), None)
        await anext(stream)
        for n in range(MOST_QUEUED + 5):
            hub.publish("entries", b"%d" % n, "mine")
            hub.publish("entries", b"no", "another's")
        assert b"event: resync" in await anext(stream)
        hub.publish("entries", b"42", "mine")
        assert b"data: 42" in await anext(stream)
        hub.end()
        assert b"event: bye" in await anext(stream)
        await stream.aclose()
        assert not hub.has_stream_of("mine")

    asyncio.run(story())


def test_stream_counts_towards_limit_before_its_first_event():
    hub = Hub()
    places = [hub.open(None) for _ in range(MOST_STREAMS)]
    assert None not in places
    assert hub.open("billing") is None
    assert not hub.has_stream_of("billing")
    hub.close(places[0])
    hub.close(places[0])
    again = hub.open("billing")
    assert again is not None
    assert hub.open(None) is None
    assert hub.has_stream_of("billing")
    hub.close(again)
    assert not hub.has_stream_of("billing")


def test_parallel_streams_stay_within_limit(orders, broker, folder):
    with console(live(broker, interval_s=3600), folder) as client:
        client.get("/groups")
        wires = [socket.create_connection(client.address.split(":")) for _ in range(MOST_STREAMS + 20)]
        for wire in wires:
            wire.sendall(f"GET /api/v1/stream HTTP/1.1\r\nHost: {client.address}\r\n\r\n".encode())
        heads = [wire.recv(12) for wire in wires]
        assert sorted(heads) == [b"HTTP/1.1 200"] * MOST_STREAMS + [b"HTTP/1.1 503"] * 20
        for wire in wires:
            wire.close()
        eventually(lambda: client.app.hub.open(None) is not None)

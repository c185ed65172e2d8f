import asyncio
import socket
from dataclasses import replace

import pytest

import kohort
from kohort.aio.serving.listening import bind
from kohort.aio.serving.server import Server, storage_in
from kohort.broker.io import Tick
from kohort.clock import ManualClock
from kohort.config import BrokerConfig, parse_config
from kohort.errors import ConfigError, DataDirInUse, UsageError
from support.machines.broker_stage import produce_request
from support.raw.raw_client import RawClient


def test_embedded_broker_serves_on_a_free_port():
    with kohort.Broker() as one, kohort.Broker() as other:
        assert one.port != other.port
        with RawClient(one.bootstrap) as client:
            client.create("a")
            assert client.produce("a", b"v").base_offset == 0
        assert len(one.cluster_id) == 22


def test_embedded_broker_reads_data_folder_of_stopped_broker(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap) as client:
        client.create("a")
        client.produce("a", b"kept")

    with kohort.Broker(data_dir=tmp_path) as broker, RawClient(broker.bootstrap) as client:
        assert client.read_all("a") == [b"kept"]


def test_embedded_broker_runs_on_the_callers_event_loop():
    async def story() -> int:
        async with kohort.Broker() as broker:
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
            head = await reader.readexactly(8)
            writer.close()
            await writer.wait_closed()
            return int.from_bytes(head[4:], "big")

    assert asyncio.run(story()) == 7


def test_embedded_broker_accepts_option_names_with_dots_and_with_underscores():
    options = {"num.partitions": 3}
    with kohort.Broker(options, auto_create_topics_enable=True) as broker, RawClient(broker.bootstrap) as client:
        assert len(client.metadata("made").partitions) == 3


def test_error_for_unknown_broker_option_names_the_most_similar_option():
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        kohort.Broker({"num.partition": 3})
    with pytest.raises(ConfigError, match="expected an integer"):
        kohort.Broker(num_partitions="many")


def test_bootstrap_address_of_stopped_broker_raises_usage_error():
    with pytest.raises(UsageError, match="not running"):
        _ = kohort.Broker().bootstrap


def test_second_broker_on_a_data_folder_is_refused_and_first_broker_continues(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as broker:
        with pytest.raises(DataDirInUse):
            kohort.Broker(data_dir=tmp_path).start()
        with RawClient(broker.bootstrap) as client:
            client.create("a")


def test_port_in_use_is_reported_before_the_data_folder_is_opened(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use by another program"):
            kohort.Broker(data_dir=tmp_path / "data", listen=f"127.0.0.1:{port}").start()

    assert not (tmp_path / "data").exists()


def test_listener_at_address_of_another_host_is_refused():
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1"):
        bind(parse_config(BrokerConfig, {"host.name": "192.0.2.1", "port": 0, "allow_anyone": True}))


@pytest.mark.parametrize("host", ["h\0st", "é" * 100])
def test_malformed_listener_address_is_refused(host):
    with pytest.raises(ConfigError, match="invalid host name"):
        bind(parse_config(BrokerConfig, {"host.name": host, "port": 0}))


def test_wildcard_listener_requires_advertised_listeners():
    with pytest.raises(ConfigError, match=r"advertised\.listeners"):
        bind(parse_config(BrokerConfig, {"host.name": "0.0.0.0", "port": 0, "allow_anyone": True}))


def test_failed_broker_start_releases_the_data_folder(tmp_path):
    (tmp_path / "kohort-topics.json").write_text("{")

    with pytest.raises(kohort.StorageError, match=r"kohort-topics\.json"):
        kohort.Broker(data_dir=tmp_path).start()

    (tmp_path / "kohort-topics.json").unlink()
    with kohort.Broker(data_dir=tmp_path):
        pass


def test_internal_error_of_broker_closes_only_the_connection_of_the_request(monkeypatch, caplog):
    from kohort.broker import dispatch
    from kohort.wire.messages.cluster import DescribeClusterRequest

    def fail(*_args):
        raise ZeroDivisionError("a bug")

    api = dispatch.HANDLED[DescribeClusterRequest]
    monkeypatch.setitem(dispatch.HANDLED, DescribeClusterRequest, replace(api, handle=fail))
    with kohort.Broker() as broker, RawClient(broker.bootstrap) as unlucky, RawClient(broker.bootstrap) as other:
        unlucky.send(DescribeClusterRequest(), 0)
        assert unlucky.is_closed_by_peer()
        other.create("a")

    assert "internal error of the broker, on Received" in caplog.text


def test_many_bad_connections_cause_two_log_lines_and_no_forged_line(caplog):
    forged = "x\n2026-11-22 19:00:00,000 INFO admin logged in\x1b[2J"
    with kohort.Broker(auto_create_topics_enable=False) as broker:
        for i in range(20):
            with RawClient(broker.bootstrap) as client:
                client.send_bytes(client.request_bytes(produce_request(f"{forged}{i}", b"", acks=0), 9, answered=False))
                assert client.is_closed_by_peer()

    lines = [record.getMessage() for record in caplog.records if "acks=0" in record.getMessage()]
    assert len(lines) == 2
    assert all(line.startswith("closed a connection: 127.0.0.1: ") and line.isprintable() for line in lines)
    assert lines[0].count("x\\n2026-11-22 19:00:00,000 INFO admin logged in\\x1b[2J0") == 1
    assert lines[1].endswith("(the last of 19 similar messages within a minute)")


def test_broker_server_can_be_stopped_twice():
    async def story() -> None:
        server = await Server.start(parse_config(BrokerConfig, {"port": 0}), storage_in(None))
        await server.stop()
        await server.stop()

    asyncio.run(story())


def test_broker_gets_wall_clock_change_before_the_next_event():
    async def story() -> tuple[int, int]:
        clock = ManualClock()
        server = await Server.start(parse_config(BrokerConfig, {}), storage_in(None), clock=clock)
        wall = server.broker.state.cluster.wall
        clock.set_wall(50)
        server.pass_event(Tick())
        slewed_ms = wall.ahead_ms
        clock.set_wall(7_200_000)
        server.pass_event(Tick())
        await server.stop()
        return slewed_ms, wall.ahead_ms

    assert asyncio.run(story()) == (0, 7_200_000)

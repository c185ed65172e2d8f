import asyncio

import pytest

import kohort
from kohort import NewTopic
from kohort.aio.serving.cluster_server import node_configs
from kohort.config import BrokerConfig, parse_config
from kohort.errors import ApiError, ConfigError, UsageError
from support.processes.served_broker import Served


def test_node_ids_and_ports_count_up():
    settings = {"node.id": 5, "port": 9092, "advertised.listeners": "PLAINTEXT://[::1]:7000"}

    nodes = node_configs(parse_config(BrokerConfig, settings), 3)

    assert [(n.node_id, n.listen_port) for n in nodes] == [(5, 9092), (6, 9093), (7, 9094)]
    assert [n.advertised_listeners for n in nodes] == [[f"PLAINTEXT://[::1]:{port}"] for port in (7000, 7001, 7002)]
    assert [n.listen_port for n in node_configs(parse_config(BrokerConfig, {"port": 0}), 2)] == [0, 0]
    with pytest.raises(ConfigError, match="port 65536 exceeds 65535"):
        node_configs(parse_config(BrokerConfig, {"port": 65535}), 2)


def test_three_nodes_keep_records_and_leaders(tmp_path):
    with Served("--nodes", "3", data=tmp_path) as served:
        assert len(served.bootstrap.split(",")) == 3
        with kohort.Admin(bootstrap_servers=served.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 3, 3)])
            before = admin.describe_topics(["orders"])["orders"]
        with kohort.Producer(bootstrap_servers=served.bootstrap) as producer:
            for partition in range(3):
                producer.send("orders", b"v", partition=partition).result(30_000)
        served.kill()

    with Served("--nodes", "3", data=tmp_path) as served:
        with kohort.Admin(bootstrap_servers=served.bootstrap) as admin:
            after = admin.describe_topics(["orders"])["orders"]
            ends = admin.list_offsets({kohort.TopicPartition("orders", p): "latest" for p in range(3)})
        assert [p.leader_id for p in after.partitions] == [p.leader_id for p in before.partitions]
        assert [at.offset for at in ends.values()] == [1, 1, 1]


def test_single_node_cannot_be_stopped():
    with kohort.Broker() as broker:
        assert list(broker.nodes) == [1]
        with pytest.raises(UsageError, match=r"Broker\(nodes=3\)"):
            broker.stop_node(1)
    with pytest.raises(ConfigError, match="nodes=0"):
        kohort.Broker(nodes=0)
    with pytest.raises(ConfigError, match=r"unknown option 'brokers': nodes= is the number of brokers"):
        kohort.Broker(brokers=3)  # type: ignore[call-arg]  # wrong on purpose


def test_nodes_stop_and_start_on_the_callers_loop():
    async def story():
        async with kohort.Broker(nodes=2) as broker:
            broker.stop_node(2)
            assert list(broker.nodes) == [1]
            with pytest.raises(ApiError, match="the last running node"):
                broker.stop_node(1)
            broker.start_node(2)
            async with asyncio.timeout(30):
                while 2 not in broker.nodes:  # noqa: ASYNC110 - nothing tells the caller
                    await asyncio.sleep(0)

    asyncio.run(story())

import re

import pytest

import kohort
from kohort.aio.serving.cluster_server import node_configs
from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import listeners_of
from kohort.errors import ConfigError, UsageError
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest, QuorumPartition, QuorumTopic
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.metadata import MetadataRequest
from support.raw.raw_client import RawClient

TWO = {
    "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:PLAINTEXT,OTHER:PLAINTEXT",
}


def advertised_addresses(address: str) -> set[str]:
    with RawClient(address) as client:
        metadata = client.ask(MetadataRequest(topics=[]), 12)
        described = client.ask(DescribeClusterRequest(), 0)
        coordinators = client.ask(FindCoordinatorRequest(coordinator_keys=["g", "h", "i"]), 4).coordinators
        topics = [QuorumTopic(topic_name="__cluster_metadata", partitions=[QuorumPartition(partition_index=0)])]
        quorum = client.ask(DescribeQuorumRequest(topics=topics), 2).nodes[0].listeners
        found = (*metadata.brokers, *described.brokers, *coordinators, *quorum)
        return {f"{node.host}:{node.port}" for node in found}


def test_clients_get_the_advertised_address_of_their_listener():
    with kohort.Broker(TWO) as broker:
        inner, outer = broker.bootstrap_of("INNER"), broker.bootstrap_of("outer")

        assert inner != outer
        assert broker.bootstrap == inner
        assert advertised_addresses(inner) == {inner}
        assert advertised_addresses(outer) == {outer}
        with pytest.raises(
            UsageError, match="listener 'OTHER' is not advertised; the advertised ones are INNER, OUTER"
        ):
            broker.bootstrap_of("OTHER")


def test_clients_of_several_nodes_get_addresses_of_their_listener():
    with kohort.Broker(TWO, nodes=3) as broker:
        for name in ("INNER", "OUTER"):
            addresses = broker.bootstrap_of(name).split(",")
            assert len(set(addresses)) == 3
            assert advertised_addresses(addresses[1]) == set(addresses)
        broker.stop_node(1)
        assert advertised_addresses(addresses[1]) == set(addresses[1:])
        broker.start_node(1)
        assert advertised_addresses(addresses[0]) == set(addresses)


def test_client_produces_and_consumes_through_any_listener():
    with kohort.Broker(TWO, nodes=2, auto_create_topics_enable=True) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap_of("OUTER")) as producer:
            for number in range(4):
                producer.send("t", b"%d" % number, partition=0).result(30_000)
        for address in broker.bootstrap_of("INNER").split(","):
            with RawClient(address) as client:
                partition = client.metadata("t").partitions[0]
                led_here = partition.leader_id == [*broker.nodes.values()].index(address) + 1
                assert (client.fetch("t").error_code == 0) is led_here


def test_used_port_of_one_listener_leaves_no_listener_bound():
    with kohort.Broker() as other:
        listeners = ["INNER://127.0.0.1:0", f"OUTER://127.0.0.1:{other.port}"]
        with pytest.raises(ConfigError, match=f"port {other.port} on 127.0.0.1 is in use by another program"):
            kohort.Broker(TWO | {"listeners": listeners}).start()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": "NEW://127.0.0.1:0"}, "listener.security.protocol.map has no protocol for NEW"),
        ({"advertised.listeners": ["OTHER://h:1"]}, "advertised.listeners: unknown listener OTHER"),
        ({"listener.name.otter.ssl.client.auth": "none"}, "unknown listener OTTER; the listeners are INNER, OUTER"),
    ],
)
def test_invalid_listeners_are_reported_before_the_start(settings, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        kohort.Broker(TWO | settings)


def test_listeners_of_several_nodes_need_distinct_ports():
    config = parse_config(BrokerConfig, TWO | {"listeners": "INNER://127.0.0.1:9092,OUTER://127.0.0.1:9094"})

    assert [[one.port for one in listeners_of(node)] for node in node_configs(config, 2)] == [
        [9092, 9094],
        [9093, 9095],
    ]
    words = "3 brokers: OUTER://127.0.0.1:9094 and INNER://127.0.0.1:9092 both need port 9094; choose ports"
    with pytest.raises(ConfigError, match=words):
        node_configs(config, 3)


def test_listeners_with_and_without_login():
    settings = {
        "listeners": "INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
        "listener.security.protocol.map": "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT",
        "listener.name.outer.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret";'
        ),
    }
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
    with kohort.Broker(settings, nodes=2, auto_create_topics_enable=True) as broker:
        outer = {"bootstrap.servers": broker.bootstrap_of("OUTER"), **login}
        with kohort.Producer({**outer, "sasl.password": "a-secret"}) as producer:
            producer.send("t", b"v", partition=0).result(30_000)
        with (
            kohort.Admin({**outer, "sasl.password": "a guess"}) as stranger,
            pytest.raises(kohort.AuthenticationFailed, match="Invalid username or password"),
        ):
            stranger.list_topics()
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert [topic.name for topic in admin.list_topics()] == ["t"]

"""KIP-1242: a client names the cluster and node that it expects, and starts again if another one answers."""

import kohort
from kohort import Admin, Producer
from kohort.testing import StagedBroker


def cluster_id(bootstrap):
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_cluster().cluster_id


def test_client_follows_an_address_to_its_new_cluster():
    with kohort.Broker() as broker, Producer(bootstrap_servers=broker.bootstrap, client_id="writer") as producer:
        address = broker.bootstrap
        assert producer.send("t", b"to the first").result(30_000).offset == 0
        first = cluster_id(address)
        broker.stop()
        with StagedBroker(listen=address) as another:
            assert cluster_id(address) != first
            assert producer.send("t", b"to the second").result(30_000).offset == 0
            producer.close()
            hellos = [request.message for request in another.requests("ApiVersions", client_id="writer")]

    targets = [(hello.cluster_id, hello.node_id) for hello in hellos]
    assert targets[:2] == [(first, 1), (None, -1)], "it meant the first cluster, and then began anew"


def test_client_detects_a_wrong_node_of_the_same_process():
    with kohort.Broker(nodes=3) as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"t": 3})
        sent = [producer.send("t", b"v", partition=partition) for partition in range(3)]
        assert [delivery.result(30_000).offset for delivery in sent] == [0, 0, 0]

"""KIP-1242: a client says which node of which cluster it means to reach, and begins anew where another answers."""

import kohort
from kohort import Admin, Producer
from kohort.testing import StagedBroker


def cluster_id(bootstrap):
    with Admin(bootstrap_servers=bootstrap) as admin:
        return admin.describe_cluster().cluster_id


def test_a_client_finds_the_cluster_that_has_the_address_now():
    with kohort.Broker() as broker, Producer(bootstrap_servers=broker.bootstrap, client_id="writer") as producer:
        address = broker.bootstrap
        assert producer.send("t", b"to the first").result(30_000).offset == 0
        first = cluster_id(address)
        broker.stop()
        with StagedBroker(listen=address) as another:
            assert cluster_id(address) != first
            assert producer.send("t", b"to the second").result(30_000).offset == 0
            producer.close()
            hellos = [seen.message for seen in another.requests("ApiVersions", client_id="writer")]

    meant = [(hello.cluster_id, hello.node_id) for hello in hellos]
    assert meant[:2] == [(first, 1), (None, -1)], "it meant the first cluster, and then began anew"


def test_nodes_of_one_process_are_told_apart():
    with kohort.Broker(nodes=3) as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"t": 3})
        sent = [producer.send("t", b"v", partition=partition) for partition in range(3)]
        assert [delivery.result(30_000).offset for delivery in sent] == [0, 0, 0]

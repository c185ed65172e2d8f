import asyncio
import multiprocessing

import pytest

import kohort
from kohort.errors import UsageError
from kohort.testing.staged import StagedBroker

WAIT_S = 60
FORK = multiprocessing.get_context("fork")


def in_child(use, broker):
    results = FORK.Queue()
    child = FORK.Process(target=lambda: results.put(use(broker)))
    child.start()
    found = results.get(timeout=WAIT_S)
    child.join(WAIT_S)
    assert child.exitcode == 0
    return found


def end_block_and_stop(broker):
    broker.__exit__(None, None, None)
    broker.stop()
    asyncio.run(broker.__aexit__(None, None, None))
    return "ended"


def refusals(broker):
    uses = {
        "start": broker.start,
        "leader_of": lambda: broker.leader_of("a", 0),
        "stop_node": lambda: broker.stop_node(1),
        "start_node": lambda: broker.start_node(1),
        "nodes": lambda: broker.nodes,
        "failed_handshakes": lambda: broker.failed_handshakes,
        "async with": lambda: asyncio.run(broker.__aenter__()),
    }
    found = {}
    for name, use in uses.items():
        try:
            found[name] = f"no error: {use()!r}"
        except UsageError as error:
            found[name] = str(error)
    return found


@pytest.mark.parametrize("kind", [kohort.Broker, StagedBroker])
def test_forked_child_leaves_the_broker_to_its_parent(kind):
    with kind() as broker:
        assert in_child(end_block_and_stop, broker) == "ended"

        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert list(admin.create_topics({"a": 1})) == ["a"]


def test_calls_in_a_forked_child_raise_usage_error_with_the_parents_pid():
    with kohort.Broker(nodes=2) as broker:
        found = in_child(refusals, broker)

    assert {name for name, message in found.items() if "the parent before fork()" not in message} == set()


def produce(broker):
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        return producer.send("a", b"child").result(WAIT_S * 1000).offset, broker.port, broker.cluster_id


def test_client_in_a_forked_child_connects_to_the_parents_broker():
    with kohort.Broker() as broker:
        assert in_child(produce, broker) == (0, broker.port, broker.cluster_id)


def test_broker_created_in_a_forked_child_runs_there():
    def other(_broker):
        with kohort.Broker() as mine:
            return mine.port

    with kohort.Broker() as broker:
        assert in_child(other, broker) != broker.port

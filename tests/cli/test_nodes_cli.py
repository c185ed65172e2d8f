import json

import pytest
from click.testing import CliRunner

import kohort
from kohort import NewTopic
from kohort.cli.main import main


@pytest.fixture
def cluster():
    with kohort.Broker(nodes=3) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 3, 3)])
        yield broker


@pytest.fixture
def nodes(cluster):
    def call(*args, code=0):
        result = CliRunner(env={"KOHORT_BOOTSTRAP": cluster.bootstrap}).invoke(main, ["nodes", *args])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return call


def listed(nodes):
    return json.loads(nodes("list", "--output", "json").stdout)["nodes"]


def test_nodes_list_shows_partitions_that_each_node_leads(nodes, cluster):
    found = listed(nodes)

    assert [(n["node"], n["state"], n["address"]) for n in found] == [
        (node_id, "up", address) for node_id, address in cluster.nodes.items()
    ]
    assert sum(n["leads"] for n in found) == 3
    assert all(n["late_ms"] >= 0 and n["loads"] >= 0 and n["unknown"] is None for n in found)
    lines = nodes("list").stdout.splitlines()
    assert " ".join(lines[0].split()) == "node address state leads group partitions load max ms late ms"
    assert len(lines) == 4


def test_node_is_stopped_and_started(nodes, cluster):
    assert nodes("stop", "2").stdout == "stopped node 2\n"

    assert sorted(cluster.nodes) == [1, 3]
    assert {(n["node"], n["state"]) for n in listed(nodes)} == {(1, "up"), (3, "up"), (2, "stopped")}
    assert "already stopped" in nodes("stop", "2", code=5).stderr
    assert "unknown node 9" in nodes("stop", "9", code=1).stderr
    assert nodes("start", "2").stdout == "started node 2\n"
    assert "is not stopped" in nodes("start", "1", code=5).stderr


def test_command_nodes_move_changes_leaders_and_coordinators(nodes, cluster):
    with kohort.Consumer(bootstrap_servers=cluster.bootstrap, group_id="crew") as consumer:
        consumer.subscribe(["orders"])
        consumer.poll(100)
        for node in (1, 2, 3):
            assert nodes("move", str(node), "--partition", "orders:1").stdout == f"node {node} leads orders-1\n"
            assert cluster.leader_of("orders", 1) == node
            nodes("move", str(node), "--group", "crew")
            assert cluster.coordinator_of("crew") == node


def test_nodes_move_reports_missing_partition_or_node(nodes):
    assert "expected --partition TOPIC:NUMBER or --group GROUP" in nodes("move", "1", code=2).stderr
    assert "expected TOPIC:NUMBER" in nodes("move", "1", "--partition", "orders", code=2).stderr
    assert "partition orders:9 does not exist" in nodes("move", "1", "--partition", "orders:9", code=3).stderr
    assert "unknown node 9" in nodes("move", "9", "--partition", "orders:1", code=1).stderr


def test_single_broker_cannot_be_stopped():
    with kohort.Broker() as broker:
        result = CliRunner(env={"KOHORT_BOOTSTRAP": broker.bootstrap}).invoke(main, ["nodes", "stop", "1"])

    assert result.exit_code == 2
    assert "kohort serve --nodes N" in result.stderr

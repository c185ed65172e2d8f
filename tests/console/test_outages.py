import http.client

import jsonschema
import pytest

import kohort
from kohort.console.live import LiveSettings, LiveSource
from kohort.console.reachability import ClusterUnreachable
from kohort.errors import KohortError
from kohort.results.console import ConsoleGroups
from kohort.results.result import schema_of
from kohort.testing import StagedBroker
from kohort.watch.opening import WatchClients
from kohort.watch.sampling import ListedGroups
from support.console_client import console, live
from support.waiting import eventually

PRESENT = (
    "/groups/billing",
    "/groups/billing/describe",
    "/groups/billing/clients",
    "/groups/billing/peek?topic=orders&partition=0",
    "/doctor",
    "/doctor?group=billing",
    "/nodes",
    "/topics",
    "/topics/orders",
    "/topics/orders/records?partition=1",
)
PAST = ("timeline", "rebalances", "events", "fenced", "causes", "lag-history")


@pytest.fixture
def outage(orders, broker, client):
    assert client.get("/groups").json["unreachable"] is None
    for kind in PAST:
        assert client.get(f"/groups/billing/{kind}").status == 200
    broker.stop()
    eventually(lambda: client.get("/cluster").json["unreachable"])
    return client


def test_groups_of_unreachable_cluster_have_unknown_health_and_counts(outage):
    content = outage.get("/groups").json
    jsonschema.validate(content, schema_of(ConsoleGroups))
    assert content["unreachable"]["since_ms"] > 0
    (row,) = content["groups"]
    assert (row["group"], row["state"]) == ("billing", "Unknown")
    assert [row[name] for name in ("health", "lag", "members", "partitions", "rebalances_1h", "last_rebalance")] == [
        None
    ] * 6
    assert row["reason"].startswith("the cluster has not answered since ")


def test_answers_about_present_state_fail_during_outage(outage):
    for path in PRESENT:
        response = outage.get(path)
        assert (response.status, response.json["schema"]) == (503, "kohort/v1/console.error"), path
        assert "has not answered since" in response.json["error"]
    assert outage.post("/groups/billing/what-if", {"add": 1}).status == 503
    assert outage.post("/groups/billing/offsets:plan", {"to": "earliest"}).status == 503


def test_journal_is_shown_during_outage_up_to_last_answer_of_cluster(outage):
    since_ms = outage.get("/cluster").json["unreachable"]["since_ms"]
    for kind in PAST:
        assert outage.get(f"/groups/billing/{kind}").status == 200, kind
    timeline = outage.get("/groups/billing/timeline").json["timeline"]
    assert timeline["until_ms"] <= max(since_ms, timeline["lanes"][-1]["assignments"][-1]["until_ms"] or 0) + 1_000


def test_stream_reports_start_and_end_of_outage(orders, broker, folder):
    with console(live(broker), folder) as client:
        port = broker.bootstrap.rpartition(":")[2]
        client.get("/groups")
        wire = http.client.HTTPConnection(client.address, timeout=60)
        wire.request("GET", "/api/v1/stream?group=billing")
        answer = wire.getresponse()
        assert '"unreachable":null' in event(answer, "reach")
        broker.stop()
        assert '"since_ms"' in event(answer, "reach")
        with kohort.Broker(listen=f"127.0.0.1:{port}"):
            assert '"unreachable":null' in event(answer, "reach")
            event(answer, "resync")
            assert client.get("/groups").json["unreachable"] is None
            assert client.get("/doctor").status == 200
        answer.close()
        wire.close()


def event(answer, name):
    while line := answer.readline().decode():
        if line == f"event: {name}\n":
            return answer.readline().decode()
    raise AssertionError(f"the stream ended before the event {name}")


def test_failed_samples_make_present_state_unknown(caplog):
    def broken(*_):
        raise ZeroDivisionError

    source = LiveSource(WatchClients(broken, broken), "kafka:9092", LiveSettings(interval_s=0.05, watch=False))
    source.begin()
    try:
        with pytest.raises(ClusterUnreachable, match="an error in kohort"):
            source.groups(None)
        with pytest.raises(ClusterUnreachable):
            source.snapshots("billing")
    finally:
        source.end()
    assert "ZeroDivisionError" in caplog.text


def test_undescribed_group_is_unknown_not_deleted(folder):
    with StagedBroker() as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"orders": 1})
            for group in ("billing", "audit"):
                admin.alter_group_offsets(group, {kohort.TopicPartition("orders", 0): 0})
        with console(live(broker), folder) as client:
            eventually(lambda: len(client.get("/groups").json["groups"]) == 2)
            broker.fail("DescribeGroups", kohort.ErrorCode.GROUP_AUTHORIZATION_FAILED, times=None)
            rows = eventually(lambda: unknown_rows(client))
            assert {row["group"] for row in rows} == {"audit", "billing"}
            assert all("describing the group failed" in row["reason"] for row in rows)
            report = client.get("/doctor").json
            assert [(one["rule"], one["severity"]) for one in report["findings"]] == [("lag-unknown", "warning")] * 2
            assert (report["examined"], report["unknown"]) == (0, 2)
            answer = client.get("/groups/billing")
            assert (answer.status, "is unknown" in answer.json["error"]) == (503, True)
            assert len(client.get("/cluster").json["unseen"]) == 2


def unknown_rows(client):
    return [row for row in client.get("/groups").json["groups"] if row["members"] is None]


def test_groups_of_silent_coordinator_are_unknown_not_deleted(broker, orders, folder):
    source = live(broker)
    with console(source, folder) as client:
        node = client.get("/groups").json["groups"][0]["coordinator_id"]
    silent = source.groups_of_silent_brokers(ListedGroups([], {node: KohortError("connection refused")}), ["payments"])
    assert silent == {"billing": f"its coordinator, broker {node}, does not answer: connection refused"}
    assert source.groups_of_silent_brokers(ListedGroups([], {node + 1: KohortError("")}), []) == {}

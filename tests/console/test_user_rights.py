import http.client
import json
from urllib.parse import urlencode

import pytest

import kohort
from kohort import AclBinding, AclBindingFilter
from kohort.cli.serve.console import ConsoleFlags, console_settings
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.console.user_source import RIGHTS_S
from kohort.console.views import ROUTES
from support.console_client import console, live
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS
from support.waiting import eventually

OF_GROUP = tuple(
    route.path.removeprefix("groups/{}")
    for route in ROUTES
    if route.path.startswith("groups/{}") and route.method == "GET" and not route.path.endswith("/peek")
)
"""Path of each API answer about a group, except ``peek``: that needs a partition in its query."""
OF_CLUSTER = ("/cluster", "/groups", "/doctor", "/causes", "/causes/software", "/nodes", "/topics", "/pipelines")


class Clock:
    """Clock of the console. The test advances it."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


class Site:
    """Console in which alice is logged in, and an admin client of the cluster."""

    def __init__(self, client, admin, clock):
        self.client, self.admin, self.clock = client, admin, clock

    def allow(self, kind, name, operation="describe"):
        self.admin.create_acls([AclBinding(kind, name, "User:alice", operation)])
        self.clock.now_s += RIGHTS_S

    def status(self, path):
        return self.client.get(path).status


@pytest.fixture
def site(folder):
    options = {**ASKS_FOR_RIGHTS, "group.initial.rebalance.delay.ms": "0"}
    with kohort.Broker(options) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        fill(broker, admin)
        access = ClusterAccess({"bootstrap.servers": broker.bootstrap_of("SASL"), **AS_ALICE})
        _, settings = console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", access)
        clock = Clock()
        with console(live(broker), folder, settings, clock) as client:
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{client.address}"}
            body = urlencode({"name": "alice", "password": "a-secret"}).encode()
            answer = client.ask("POST", "/login", body, form)
            client.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
            yield Site(client, admin, clock)


def fill(broker, admin):
    admin.create_topics({"seen": 1, "hidden": 1})
    with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for topic in ("seen", "hidden"):
            for _ in range(5):
                producer.send(topic, b"x")
        producer.flush(10_000)
    for group in ("open", "secret"):
        options = {"group_id": group, "client_id": f"{group}-client", "auto_offset_reset": "earliest"}
        with kohort.Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.subscribe(["seen", "hidden"])
            read = 0
            while read < 10:
                read += len(consumer.poll(100))
            consumer.commit()


def test_user_without_rights_sees_no_groups_or_topics(site):
    for path in OF_CLUSTER:
        response = site.client.get(path)
        assert response.status == 200, path
        for name in ("open", "secret", "seen", "hidden"):
            assert f'"{name}' not in response.body.decode(), (path, response.body)
    for group in ("open", "secret", "nothing"):
        assert_absent(site, group)
    assert site.client.post("/groups/secret/what-if", {"add": 1}).status == 404
    assert site.status("/groups/secret/peek?topic=hidden&partition=0") == 403


def assert_absent(site, group):
    for path in OF_GROUP:
        response = site.client.get(f"/groups/{group}{path}")
        if path == "/causes":
            assert (response.json["offenders"], response.json["stable_share"]) == ([], {})
            assert {str(one["by_cause"]) for one in response.json["buckets"]} == {"{}"}
        elif path == "/causes/software":
            assert (response.json["software"], response.json["unknown"]) == ([], {})
        else:
            assert response.status in (403, 404), (path, response.body)


def test_user_sees_only_groups_with_describe_right(site):
    for kind, name in (("group", "open"), ("topic", "seen"), ("topic", "hidden")):
        site.allow(kind, name)
    assert [row["group"] for row in site.client.get("/groups").json["groups"]] == ["open"]
    for path in OF_CLUSTER:
        assert "secret" not in site.client.get(path).body.decode(), path
    assert [site.status(f"/groups/open{path}") for path in OF_GROUP] == [200] * len(OF_GROUP)
    assert_absent(site, "secret")
    at = site.client.get("/cluster").json["now_ms"]
    assert [row["group"] for row in site.client.get(f"/groups?at={at}").json["groups"]] == ["open"]
    assert "secret" not in site.client.get("/groups/secrets").json["error"].replace("'secrets'", "")


def test_group_answer_hides_topics_without_right(site):
    site.allow("group", "open")
    site.allow("topic", "seen")
    eventually(lambda: site.client.get("/groups/open/lag-history").json["times_ms"])
    status = site.client.get("/groups/open").json["status"]
    assert [(one["topic"], one["committed"], one["lag"]) for one in status["partitions"]] == [("seen", 5, 0)]
    (row,) = site.client.get("/groups").json["groups"]
    assert (row["topics"], row["lag"]) == (["seen"], 0)
    history = site.client.get("/groups/open/lag-history").json
    assert set(history["topics"]) == {"seen"}
    assert set(history["lag"]) == {None}
    assert [topic["name"] for topic in site.client.get("/topics").json["topics"]] == ["seen"]


def test_describe_right_on_topic_shows_offsets_but_no_options_sizes_or_records(site):
    site.allow("topic", "seen")
    content = site.client.get("/topics/seen").json
    assert [(one["log_start_offset"], one["log_end_offset"], one["size_bytes"]) for one in content["partitions"]] == [
        (0, 5, None)
    ]
    assert (content["options"], content["topic"]["cleanup_policy"], content["topic"]["groups"]) == (None, None, [])
    assert content["topic"]["unknown"] == {
        "size": "the user lacks DESCRIBE on the cluster",
        "rate": "a rate needs two samples, some seconds apart",
        "options": "the user lacks DESCRIBE_CONFIGS on the topic",
    }
    (row,) = site.client.get("/topics").json["topics"]
    assert (row["name"], row["offsets"], row["size_bytes"]) == ("seen", 5, None)
    (node,) = site.client.get("/nodes").json["nodes"]
    assert (node["log_bytes"], node["logs_unknown"]) == (None, "the user lacks DESCRIBE on the cluster")
    refused = site.client.get("/topics/seen/records")
    assert (refused.status, refused.json["advice"]) == (403, "request an ACL for your user")
    for path in ("", "/records", "/records?partition=0&text=x"):
        assert site.status(f"/topics/hidden{path}") in (403, 404)


def test_topic_views_show_what_each_further_right_allows(site):
    for kind, name, operation in (
        ("topic", "seen", "describe"), ("topic", "seen", "read"), ("topic", "seen", "describe_configs"),
        ("group", "open", "describe"), ("cluster", "kafka-cluster", "describe"),
    ):  # fmt: skip
        site.allow(kind, name, operation)
    content = site.client.get("/topics/seen").json
    assert [one["group"] for one in content["topic"]["groups"]] == ["open"]
    assert content["topic"]["size_bytes"] > 0
    assert content["topic"]["cleanup_policy"] == "delete"
    assert len(site.client.get("/topics/seen/records?text=x").json["records"]) == 5
    assert "hidden" not in site.client.get("/topics").body.decode()
    assert site.client.get("/nodes").json["nodes"][0]["log_bytes"] > 0


def test_revoked_right_ends_after_cache_time(site):
    site.allow("group", "open")
    site.allow("topic", "seen")
    assert site.status("/groups/open") == 200
    site.admin.delete_acls([AclBindingFilter("group", "open", "User:alice")])
    site.clock.now_s += RIGHTS_S
    assert site.status("/groups/open") == 404


def test_stream_of_user_with_limited_rights_sends_no_values(site):
    site.allow("group", "open")
    wire = http.client.HTTPConnection(site.client.address, timeout=30)
    wire.request("GET", "/api/v1/stream?group=secret", headers=site.client.headers)
    answer = wire.getresponse()
    with_values = []
    site.admin.alter_group_offsets("secret", {kohort.TopicPartition("seen", 0): 3})
    while (line := answer.readline().decode().strip()) != "event: resync":
        with_values += [line] if line.startswith("event: group") or "secret" in line else []
    assert json.loads(answer.readline().decode().removeprefix("data: ")) == {}
    assert with_values == []
    answer.close()
    wire.close()

from urllib.parse import urlencode

import pytest

import kohort
from kohort.cli.serve.console import ConsoleFlags, console_settings
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.errors import ConfigError
from support.console_client import console, live

SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}


@pytest.fixture
def secured():
    users = "\n".join(f"SCRAM-SHA-256=[name={name},password={name}-secret]" for name in ("viewer", "alice"))
    options = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "kohort.add.scram": users,
    }
    with kohort.Broker(options) as broker:
        yield broker


def access(broker, name="viewer"):
    settings = {"bootstrap.servers": broker.bootstrap, **SASL}
    return ClusterAccess({**settings, "sasl.username": name, "sasl.password": f"{name}-secret"})


def test_cluster_checks_name_and_password_of_login(secured):
    _, options = console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", access(secured))
    assert options.login is not None
    assert options.login("alice", "wrong") is None
    assert options.login("nobody", "alice-secret") is None
    assert options.login("", "") is None
    who = options.login("alice", "alice-secret")
    assert who is not None
    assert (who.user, who.clients is not None) == ("alice", True)
    with who.clients.admin() as admin:
        assert admin.describe_cluster().nodes


def test_login_cluster_option_is_rejected_for_cluster_without_sasl(broker):
    cluster = ClusterAccess({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(ConfigError, match="SASL"):
        console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", cluster)


def test_login_cluster_option_is_rejected_for_mechanism_without_password(secured):
    oauth = "sasl.oauthbearer"
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        f"{oauth}.token.endpoint.url": "http://127.0.0.1:1/token",
        f"{oauth}.client.credentials.client.id": "a",
        f"{oauth}.client.credentials.client.secret": "b",
    }
    cluster = ClusterAccess({"bootstrap.servers": secured.bootstrap, **SASL, **token})
    with pytest.raises(ConfigError, match="PLAIN or SCRAM"):
        console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", cluster)


def test_requests_have_rights_of_logged_in_user(orders, broker, folder, secured):
    _, options = console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", access(secured))
    with console(live(broker), folder, options) as client:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{client.address}"}
        body = urlencode({"name": "alice", "password": "alice-secret"}).encode()
        client.headers["Cookie"] = client.ask("POST", "/login", body, form).headers["set-cookie"].partition(";")[0]
        assert client.get("/cluster").json["user"] == "alice"
        assert client.get("/groups/billing").status == 200  # without ACLs alice may describe every group
        # the broker checks the rights of alice, not of the console
        assert client.get("/groups/billing/describe").status == 404

import socket

import pytest
from click.testing import CliRunner

import kohort
from kohort.cli.main import main
from kohort.wire.messages.api_versions import ApiVersionsRequest
from support.processes.served_broker import Served
from support.raw.raw_client import RawClient

TWO = (
    "--set",
    "listeners=INNER://127.0.0.1:0,OUTER://127.0.0.1:0",
    "--set",
    "listener.security.protocol.map=INNER:PLAINTEXT,OUTER:PLAINTEXT",
)


def refused(*args: str) -> str:
    done = CliRunner().invoke(main, ["serve", *args])
    assert done.exit_code == 2, done.output
    return done.output


def test_serve_prints_all_listeners_and_writes_first_port(tmp_path):
    with Served(*TWO, "--nodes", "2", "--port-file", str(tmp_path / "port")) as served:
        listeners = served.ready["listeners"]
        ports = [address.rpartition(":")[2] for addresses in listeners.values() for address in addresses.split(",")]

        assert list(listeners) == ["INNER", "OUTER"]
        assert len(set(ports)) == 4
        assert served.bootstrap == listeners["INNER"]
        assert (tmp_path / "port").read_text() == f"{ports[0]}\n"
        with kohort.Admin(bootstrap_servers=listeners["OUTER"]) as admin:
            addresses_of_nodes = [f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes]
        assert addresses_of_nodes == listeners["OUTER"].split(",")


@pytest.mark.parametrize("where", [":9092", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "PLAINTEXT://0.0.0.0:9092"])
def test_public_listener_without_login_is_rejected(where):
    error = refused("--listen", where)

    assert "is reachable from other computers without TLS and logins" in error
    assert "SASL_SSL://" in error
    assert "--allow-anyone" in error
    assert len(error.splitlines()) == 1


def test_public_listener_with_unsigned_tokens_is_rejected():
    error = refused("--listen", "SASL_PLAINTEXT://0.0.0.0:0", "--set", "sasl.enabled.mechanisms=OAUTHBEARER")

    assert "accepts unsigned tokens" in error
    assert "sasl.oauthbearer.jwks.endpoint.url" in error


def test_serve_offers_api_versions_of_older_kafka():
    with Served("--set", "kohort.as.version=2.8") as served:
        assert served.ready["as_version"] == "2.8"
        with RawClient(served.bootstrap) as raw:
            produce = next(api for api in raw.ask(ApiVersionsRequest(), 0).api_keys if api.api_key == 0)
        assert (produce.min_version, produce.max_version) == (0, 9)


def test_serve_rejects_unknown_kafka_release():
    error = refused("--listen", "127.0.0.1:0", "--set", "kohort.as.version=4.4.0")

    assert error == (
        "kohort serve: kohort.as.version='4.4.0': expected one of 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 3.0, 3.1, "
        "3.2, 3.3, 3.4, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2, 4.3, 4.4\n"
    )


@pytest.mark.parametrize("options", [("--allow-anyone",), ("--set", "kohort.allow.anyone=true")])
def test_allow_anyone_permits_public_listener(options):
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused("--listen", f":{port}", "--set", "advertised.listeners=myhost:9092", *options)

    assert f"port {port} on 0.0.0.0 is in use" in error


def test_embedded_broker_rejects_public_listener_without_login():
    with pytest.raises(kohort.ConfigError, match=r"kohort\.allow\.anyone=true"):
        kohort.Broker(listen="0.0.0.0:0", advertised_listeners="h:1").start()
    with kohort.Broker(listen="0.0.0.0:0", advertised_listeners="h:1", allow_anyone=True) as broker:
        assert broker.bootstrap == "h:1"


def test_user_added_with_add_scram_logs_in():
    listen = ("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0")
    with Served(*listen, "--add-scram", "SCRAM-SHA-256=[name=alice,password=a-secret]") as served:
        login = {
            "bootstrap.servers": served.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": "a-secret",
        }
        assert list(served.ready["listeners"]) == ["SASL_PLAINTEXT"]
        with kohort.Admin(login) as admin:
            assert admin.list_topics() == []
    assert "a-secret" not in served.log


def test_invalid_add_scram_is_reported_without_password():
    error = refused("--listen", "SASL_PLAINTEXT://127.0.0.1:0", "--add-scram", "SCRAM-SHA-1=[name=a,password=planted]")

    assert error.startswith("kohort serve: ")
    assert "planted" not in error

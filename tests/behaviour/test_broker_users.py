import pytest

import kohort
from kohort.errors import ConfigError
from kohort.secret import Secret

pytestmark = pytest.mark.ours
USERS = {"alice": "a-secret", "bob, the other": Secret('with "quotes", =[brackets]\nand lines')}


def login(broker: kohort.Broker, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_only_configured_users_can_log_in(mechanism):
    with kohort.Broker(users=USERS) as broker:
        for name, password in USERS.items():
            with kohort.Admin(login(broker, name, Secret(password).reveal(), mechanism)) as admin:
                assert admin.list_topics() == []
        with (
            kohort.Admin(login(broker, "alice", "a guess", mechanism)) as stranger,
            pytest.raises(kohort.AuthenticationFailed, match="alice"),
        ):
            stranger.list_topics()


def test_changed_password_is_not_reset_by_the_users_option(tmp_path):
    with kohort.Broker(users={"alice": "old"}, data_dir=tmp_path):
        pass
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"old" in file.read_bytes().split(b'"')]

    with (
        kohort.Broker(users={"alice": "new", "carol": "hers"}, data_dir=tmp_path) as broker,
        kohort.Admin(login(broker, "alice", "old")) as alice,
        kohort.Admin(login(broker, "carol", "hers")) as carol,
    ):
        assert alice.list_topics() == carol.list_topics() == []


def test_users_log_in_at_the_configured_listeners():
    listeners = ["INNER://127.0.0.1:0", "OUTER://127.0.0.1:0"]
    protocols = "INNER:PLAINTEXT,OUTER:SASL_PLAINTEXT"
    with kohort.Broker(users=USERS, listeners=listeners, listener_security_protocol_map=protocols) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            assert admin.list_topics() == []
        with kohort.Admin(
            login(broker, "alice", "a-secret") | {"bootstrap.servers": broker.bootstrap_of("OUTER")}
        ) as a:
            assert a.list_topics() == []


def test_listener_has_the_given_address():
    with kohort.Broker(users=USERS, listen="127.0.0.2:0") as broker:
        assert broker.bootstrap.startswith("127.0.0.2:")
        assert broker.bootstrap == broker.bootstrap_of("SASL_PLAINTEXT")


@pytest.mark.parametrize("users", [{}, {"": "p"}, {'a"b': "p"}, {"a\nb": "p"}, {"alice": ""}])
def test_invalid_users_raise_config_error(users):
    with pytest.raises(ConfigError, match="users"):
        kohort.Broker(users=users)

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization

import kohort
from kohort.cli.main import main
from kohort.config.properties import fill_in
from kohort_lab.sim.actors.security_admin import password_of
from kohort_lab.sim.actors.security_admin import salted as salted_in_sim
from support.processes.served_broker import Served
from support.security.certificates import Certificates
from support.security.planted import IN_TOKEN, PLAIN, SCRAM, STORE, WRONG, salted, shown, shown_in_files, spellings
from support.security.tokens import unsecured

pytestmark = pytest.mark.ours
MODULES = "org.apache.kafka.common.security"
USERS_JAAS = f'{MODULES}.plain.PlainLoginModule required user_alice="{PLAIN}";'
PLAIN_JAAS = f'{MODULES}.plain.PlainLoginModule required username="alice" password="{{}}";'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    made = Certificates(tmp_path_factory.mktemp("certificates"))
    key = serialization.load_pem_private_key(made.server.key.read_bytes(), None)
    locked = made.server.key.with_name("locked.pem")
    locked.write_bytes(
        made.server.certificate.read_bytes()
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(STORE.encode()),
        )
    )
    return made, locked


@pytest.fixture(scope="module")
def options(certificates):
    _, locked = certificates
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SASLS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASLS:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasls.plain.sasl.jaas.config": USERS_JAAS,
        "listener.name.sasls.ssl.keystore.location": str(locked),
        "listener.name.sasls.ssl.keystore.type": "PEM",
        "listener.name.sasls.ssl.key.password": STORE,
        "kohort.add.scram": f"SCRAM-SHA-256=[name=bob,password={SCRAM}]",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice;User:bob",
    }


def ways(certificates, token):
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(certificates.authority.certificate)}
    plain = {**tls, "sasl.mechanism": "PLAIN"}
    scram = {**tls, "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob"}
    tokens = {**tls, "sasl.mechanism": "OAUTHBEARER"}
    good = [
        {**plain, "sasl.jaas.config": PLAIN_JAAS.format(PLAIN)},
        {**scram, "sasl.password": SCRAM},
        {**tokens, "sasl.oauth.token.provider": lambda: token},
    ]
    bad = [
        {**plain, "sasl.jaas.config": PLAIN_JAAS.format(WRONG)},
        {**plain, "sasl.username": "alice", "sasl.password": WRONG},
        {**scram, "sasl.password": WRONG},
        {**tokens, "sasl.oauth.token.provider": lambda: token[:-8]},
        {**plain, "sasl.username": "alice", "sasl.password": PLAIN, "ssl.keystore.location": "/nowhere.p12",
         "ssl.keystore.password": STORE},
    ]  # fmt: skip
    return good, bad


def use(config):
    texts = []
    try:
        with kohort.Producer({**config, "max.block.ms": 20_000}) as producer:
            texts += [repr(producer), repr(producer.config), str(producer.config)]
            producer.send("orders", b"1", partition=0).result()
        consumer_config = {**config, "group.id": "g", "auto.offset.reset": "earliest"}
        with kohort.Consumer(consumer_config) as consumer:
            texts += [repr(consumer), repr(consumer.config)]
            consumer.subscribe(["orders"])
            assert consumer.poll(10_000)
        with kohort.Admin(config) as admin:
            texts += [repr(admin), repr(admin.config)]
            resource = kohort.ConfigResource("broker", "1")
            texts.append(repr(admin.describe_configs([resource])[resource]))
            admin.alter_user_scram_credentials([kohort.UserScramCredentialUpsertion("carol", SCRAM)])
            texts.append(repr(admin.describe_user_scram_credentials()))
    except kohort.KohortError as error:
        texts += ["".join(traceback.format_exception(error)), repr(error)]
        return texts, error
    return texts, None


def test_logs_reprs_and_errors_of_both_sides_show_no_secret(options, certificates, caplog):
    token = unsecured("carol", jti=IN_TOKEN)
    good, bad = ways(certificates[0], token)
    all_texts = []
    with caplog.at_level(logging.DEBUG), kohort.Broker(options) as broker:
        all_texts.append(repr(broker))
        secured = broker.bootstrap_of("SASLS")
        with kohort.Admin(bootstrap_servers=broker.bootstrap_of("PLAINTEXT")) as admin:
            admin.create_topics({"orders": 1})
            everyone = [kohort.AclBinding(kind, "*", "User:*", "all") for kind in ("topic", "group")]
            admin.create_acls([*everyone, kohort.AclBinding("cluster", "kafka-cluster", "User:*", "all")])
        for way in good:
            texts, error = use({**way, "bootstrap.servers": secured})
            assert error is None, texts[-1]
            all_texts += texts
        for way in bad:
            texts, error = use({**way, "bootstrap.servers": secured})
            assert error is not None
            all_texts += texts
    assert len(caplog.text) > 1000
    assert shown(caplog.text, token.encode()) == []
    assert shown("\n".join(all_texts), token.encode()) == []


def test_rejected_options_do_not_show_their_values():
    refused: list[dict[str, Any]] = [
        {"sasl.password": PLAIN},
        {"sasl.username": "a", "sasl.password": PLAIN, "sasl_password": WRONG},
        {"sasl.username": "a", "sasl.password": PLAIN, "sasl.plain.password": WRONG},
        {"sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required username="a" password="{PLAIN}"',
         "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"},
        {"sasl.jaas.config": PLAIN, "sasl.mechanism": "PLAIN", "security.protocol": "SASL_PLAINTEXT"},
        {"ssl.keystore.password": PLAIN.encode(), "ssl.keystore.location": "x"},
        {"ssl.key.pem": STORE, "security.protocol": "SSL"},
    ]  # fmt: skip
    for options in refused:
        with (
            pytest.raises(kohort.KohortError) as error,
            kohort.Admin({"bootstrap.servers": "127.0.0.1:1", **options}) as a,
        ):
            a.describe_cluster(timeout_ms=2000)
        assert shown("".join(traceback.format_exception(error.value))) == [], options
    for name in ("plain.sasl.jaas.config", "sasl.jaas.config", "ssl.keystore.password"):
        for value in (PLAIN, f'{MODULES}.plain.PlainLoginModule required user_a="{PLAIN}"'):
            broken = {"listeners": "SASL_SSL://127.0.0.1:0", f"listener.name.sasl_ssl.{name}": value}
            with pytest.raises(kohort.KohortError) as error, kohort.Broker(broken):
                pass
            assert shown("".join(traceback.format_exception(error.value))) == [], broken
    with pytest.raises(kohort.ConfigError) as error:
        fill_in(f"{PLAIN}${{NOT_SET}}", {})
    assert shown(str(error.value)) == []


def test_log_of_a_served_broker_has_no_secret(options, certificates, tmp_path):
    token = unsecured("carol", jti=IN_TOKEN)
    good, bad = ways(certificates[0], token)
    properties = tmp_path / "server.properties"
    plain_options = {name: value for name, value in options.items() if name != "listeners"}
    properties.write_text("".join(f"{name}={value}\n" for name, value in plain_options.items()))
    served = Served(
        *("--config", str(properties)),
        *("--set", options["listeners"].join(("listeners=", ""))),
    )
    try:
        secured = served.ready["listeners"]["SASLS"]
        with kohort.Admin(bootstrap_servers=served.ready["listeners"]["PLAINTEXT"]) as admin:
            admin.create_topics({"orders": 1})
            kinds = {"topic": "*", "group": "*", "cluster": "kafka-cluster"}
            admin.create_acls([kohort.AclBinding(kind, name, "User:*", "all") for kind, name in kinds.items()])
        for way in (*good, *bad):
            use({**way, "bootstrap.servers": secured})
    finally:
        served.stop()

    assert shown(served.log, token.encode()) == []


def test_broker_stores_no_plain_password(tmp_path):
    with kohort.Broker(data_dir=tmp_path) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_user_scram_credentials([kohort.UserScramCredentialUpsertion("bob", SCRAM)])
    (kept,) = tmp_path.rglob("kohort-security.json")
    assert shown_in_files(tmp_path) == {}
    text = kept.read_text()
    (user,) = json.loads(text)["users"]
    salts = [value for value in user.values() if isinstance(value, str)]
    for salt in salts:
        for raw in spellings_of_salt(salt):
            derived = salted(SCRAM, raw, 4096)
            assert not any(spelling in text.encode() for spelling in spellings(derived))


def spellings_of_salt(text):
    import base64
    import binascii

    for decode in (base64.b64decode, bytes.fromhex):
        try:
            yield decode(text)
        except (binascii.Error, ValueError):
            continue


def test_commands_and_their_tracebacks_show_no_secret(options, certificates, tmp_path):
    good, bad = ways(certificates[0], unsecured("carol", jti=IN_TOKEN))
    with kohort.Broker(options) as broker:
        outputs = []
        for number, way in enumerate((good[0], good[1], *bad[:3])):
            file = tmp_path / f"{number}.properties"
            named = {name: value for name, value in way.items() if isinstance(value, str)}
            file.write_text("".join(f"{name}={value}\n" for name, value in named.items()))
            address = ["--bootstrap", broker.bootstrap_of("SASLS"), "--config", str(file)]
            outputs += [run("--debug", *command, *address) for command in (["topics", "list"], ["users", "list"])]
        secret = tmp_path / "scram"
        secret.write_text(SCRAM)
        address = ["--bootstrap", broker.bootstrap_of("PLAINTEXT")]
        outputs.append(run("users", "add", "dave", "--password-file", str(secret), *address))
        outputs.append(run("users", "list", "--output", "json", "--bootstrap", broker.bootstrap_of("PLAINTEXT")))
        broken = tmp_path / "broken.properties"
        broken.write_text(f"sasl.username=alice\n{PLAIN}\n")
        outputs.append(run("topics", "list", "--config", str(broken)))
        outputs.append(run("topics", "list", "--set", f"sasl.password={PLAIN}"))
    assert any("dave" in text for text in outputs)
    assert shown("\n".join(outputs)) == []


@pytest.mark.slow
def test_simulator_history_shows_no_password(tmp_path):
    users = ["admin", "producer", *(f"c{number}" for number in range(9))]
    secrets = [password_of(user).reveal().encode() for user in users]
    secrets += [salted_in_sim(user, turn).salted for user in users for turn in range(4)]
    page = tmp_path / "story.html"

    output = run("sim", "story", "4", "--world", "secured")
    written = run("sim", "story", "4", "--world", "secured", "--html", str(page))

    assert "sets the password of c" in output
    assert len(page.read_text()) > 10_000
    assert shown(output + written + page.read_text(), *secrets) == []
    assert shown(f"{output}{secrets[2].decode()}", *secrets) != []


def run(*args):
    result = CliRunner().invoke(main, list(args))
    trace = "".join(traceback.format_exception(*result.exc_info)) if result.exc_info else ""
    return result.output + trace


def test_secret_search_finds_planted_secrets():
    import base64

    for before in ("", "a", "ab", "abc"):
        assert shown(f"x{before}{PLAIN}y")
        assert shown(base64.b64encode(f"{before}{PLAIN}tail".encode()))
        assert shown(f"{before}{PLAIN}".encode().hex())
    assert shown(unsecured("carol", jti=IN_TOKEN))
    assert shown(f"nothing to see at {time.time()}") == []

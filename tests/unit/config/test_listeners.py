"""Listeners by name: protocols, addresses, options of single listeners."""

import pytest

from kohort.config import BrokerConfig, parse_config
from kohort.config.listeners import (
    advertised_of,
    believes_every_token,
    check_listeners,
    inter_broker_listener,
    listener_config,
    listeners_of,
    with_ports,
)
from kohort.errors import ConfigError

SIGNED = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
UNSECURED = "OAuthBearerUnsecuredValidatorCallbackHandler"
PROTOCOLS = "INNER:PLAINTEXT,OUTER:SASL_SSL,SSL:SSL"


def config_of(**options) -> BrokerConfig:
    all_options = {"listeners": "INNER://127.0.0.1:1,OUTER://10.0.0.1:2", "listener.security.protocol.map": PROTOCOLS}
    return parse_config(BrokerConfig, all_options | {name.replace("_", "."): value for name, value in options.items()})


def options_of(listener: str, **options) -> dict[str, str]:
    return {f"listener.name.{listener}.{name.replace('_', '.')}": value for name, value in options.items()}


def test_listeners_have_name_and_protocol():
    assert [(str(listener), listener.protocol.value) for listener in listeners_of(config_of())] == [
        ("INNER://127.0.0.1:1", "PLAINTEXT"),
        ("OUTER://10.0.0.1:2", "SASL_SSL"),
    ]


def test_default_listener_is_plaintext_on_loopback():
    assert [str(one) for one in listeners_of(BrokerConfig())] == ["PLAINTEXT://127.0.0.1:9092"]
    assert advertised_of(BrokerConfig()) == listeners_of(BrokerConfig())


@pytest.mark.parametrize(
    ("listeners", "words"),
    [
        ("OTHER://h:1", "listeners='OTHER://h:1': listener.security.protocol.map has no protocol for OTHER"),
        ("INNER://h:1,inner://h:2", "listeners: INNER occurs twice; each listener needs a unique name"),
        (
            "INNER://a:1,OUTER://b:1",
            "listeners: INNER://a:1 and OUTER://b:1 have the same port; each listener needs its own",
        ),
        ("INNER://a", "listeners='INNER://a': expected HOST:PORT, with a port from 0 to 65535"),
    ],
)
def test_conflicting_listeners_are_rejected(listeners, words):
    with pytest.raises(ConfigError) as caught:
        listeners_of(config_of(listeners=listeners))
    assert str(caught.value) == words


def test_one_port_may_serve_ipv4_and_ipv6():
    assert len(listeners_of(config_of(listeners="INNER://127.0.0.1:1,OUTER://[::1]:1"))) == 2
    assert len(listeners_of(config_of(listeners="INNER://h:0,OUTER://h:0"))) == 2


def test_unknown_security_protocol_is_rejected():
    with pytest.raises(ConfigError, match=r"listener\.security\.protocol\.map: 'INNER:TLS': expected NAME:PROTOCOL"):
        listeners_of(config_of(listener_security_protocol_map="INNER:TLS"))


def test_advertised_listeners_are_returned():
    config = config_of(advertised_listeners="outer://[2001:db8::1]:99")

    assert [str(one) for one in advertised_of(config)] == ["OUTER://[2001:db8::1]:99"]
    assert advertised_of(config)[0].protocol.value == "SASL_SSL"


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        ("SSL://h:1", "advertised.listeners: unknown listener SSL; the listeners are INNER, OUTER"),
        ("INNER://0.0.0.0:1", "advertised.listeners='INNER://0.0.0.0:1': clients cannot connect to a wildcard address"),
        ("INNER://a:1,INNER://b:1", "advertised.listeners: INNER occurs twice"),
    ],
)
def test_invalid_advertised_addresses_are_rejected(addresses, words):
    with pytest.raises(ConfigError) as caught:
        check_listeners(config_of(advertised_listeners=addresses))
    assert str(caught.value).startswith(words)


def test_advertised_address_without_name_uses_only_listener():
    config = config_of(listeners="OUTER://h:2", advertised_listeners="far:3")

    assert [str(one) for one in advertised_of(config)] == ["OUTER://far:3"]


def test_with_ports_updates_the_options():
    assert [one.port for one in listeners_of(with_ports(config_of(), [7, 8]))] == [7, 8]
    assert with_ports(BrokerConfig(), [7]).listen_port == 7


# ---------------------------------------------------------------- overrides of one listener


def test_listener_override_wins_over_common_option():
    config = config_of(
        ssl_keystore_location="/all.pem",
        ssl_enabled_protocols="TLSv1.3",
        **options_of("outer", ssl_keystore_location="/outer.pem"),
    )

    assert listener_config(config, "OUTER").ssl_keystore_location == "/outer.pem"
    assert listener_config(config, "INNER").ssl_keystore_location == "/all.pem"
    assert listener_config(config, "OUTER").ssl_enabled_protocols == ["TLSv1.3"]


def test_mechanism_override_wins_over_listener_option():
    config = config_of(
        sasl_jaas_config="all",
        connections_max_reauth_ms=1,
        **options_of("outer", sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256", connections_max_reauth_ms="2"),
        **{
            "listener.name.outer.scram-sha-256.sasl.jaas.config": "scram",
            "listener.name.outer.plain.connections.max.reauth.ms": "3",
        },
    )

    def jaas(*which: str) -> str:
        return listener_config(config, *which).sasl_jaas_config.reveal()

    assert listener_config(config, "OUTER").sasl_enabled_mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert (jaas("OUTER"), jaas("OUTER", "PLAIN"), jaas("OUTER", "SCRAM-SHA-256")) == ("all", "all", "scram")
    reauth = [
        listener_config(config, *which).connections_max_reauth_ms
        for which in [("INNER",), ("OUTER",), ("OUTER", "PLAIN"), ("OUTER", "SCRAM-SHA-256")]
    ]
    assert reauth == [1, 2, 3, 2]


def test_common_ssl_client_auth_does_not_apply_to_sasl_ssl():
    config = config_of(ssl_client_auth="required")
    named = config_of(ssl_client_auth="none", **options_of("outer", ssl_client_auth="required"))

    assert listener_config(config, "OUTER").ssl_client_auth == "none"
    assert listener_config(config, "SSL").ssl_client_auth == "required"
    assert listener_config(named, "OUTER").ssl_client_auth == "required"


def test_listener_name_may_have_dots():
    config = config_of(
        listeners="A.B://h:1", listener_security_protocol_map="A.B:SSL", **options_of("a.b", ssl_client_auth="required")
    )

    check_listeners(config)
    assert listener_config(config, "A.B").ssl_client_auth == "required"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "listener.name.outer.ssl.keystore.locaton",
            "x",
            "unknown option 'listener.name.outer.ssl.keystore.locaton'; "
            "did you mean listener.name.outer.ssl.keystore.location?",
        ),
        (
            "listener.name.outer.ssl.client.auth",
            "maybe",
            "listener.name.outer.ssl.client.auth='maybe': expected one of none, requested, required",
        ),
        (
            "listener.name.outer.plain.connections.max.reauth.ms",
            "soon",
            "listener.name.outer.plain.connections.max.reauth.ms='soon': expected an integer >= 0",
        ),
        (
            "listener.name.outer.gssapi.sasl.jaas.config",
            "top secret",
            "listener.name.outer.gssapi.sasl.jaas.config: listeners do not support GSSAPI, only PLAIN, SCRAM",
        ),
        ("listener.name.outer.max.connections", "-1", "listener.name.outer.max.connections=-1: expected"),
        ("listener.name.", "x", "unknown option 'listener.name.'"),
    ],
)
def test_listener_option_error_has_full_name(name, value, words):
    with pytest.raises(ConfigError) as caught:
        config_of(**{name: value})
    assert str(caught.value).startswith(words)
    assert "secret" not in str(caught.value)


def test_options_of_unknown_listener_are_rejected():
    with pytest.raises(ConfigError) as caught:
        check_listeners(config_of(**options_of("outr", ssl_client_auth="required")))
    problem = "unknown listener OUTR; the listeners are INNER, OUTER"
    assert str(caught.value) == f"listener.name.outr.ssl.client.auth: {problem}"


def test_listener_secrets_are_hidden():
    config = config_of(**options_of("outer", ssl_key_password="planted", sasl_jaas_config="planted"))

    assert "planted" not in repr(config) + str(listener_config(config, "OUTER"))
    assert listener_config(config, "OUTER").ssl_key_password.reveal() == "planted"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"listener.name.outer.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, True),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.jwks.endpoint.url": "https://h"}, False),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.server.callback.handler.class": SIGNED}, False),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": "https://h",
                "listener.name.outer.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
            },
            True,
        ),
    ],
)
def test_unsigned_tokens_are_not_a_login(options, expected):
    assert believes_every_token(config_of(**options), "OUTER") is expected


# ---------------------------------------------------------------- inter-broker listener


def test_inter_broker_listener_needs_other_listeners():
    assert inter_broker_listener(config_of(inter_broker_listener_name="outer")) == "OUTER"
    assert inter_broker_listener(parse_config(BrokerConfig, {"inter.broker.listener.name": "PLAINTEXT"})) is None
    assert inter_broker_listener(config_of()) is None
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name='INNER': expected one of OUTER"):
        check_listeners(config_of(inter_broker_listener_name="INNER", advertised_listeners="OUTER://h:1"))

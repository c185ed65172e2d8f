"""Spellings of security options in other clients: translated, ignored, or rejected with a replacement."""

from __future__ import annotations

import pytest

from kohort.config.client import AdminConfig
from kohort.config.client_options import client_config
from kohort.config.client_security import CLIENT_CREDENTIALS, JWT_BEARER, ClientSecurityConfig
from kohort.config.options import options_of
from kohort.config.security_names import REFUSED, SAME, SPECIAL, WITHOUT_COUNTERPART
from kohort.errors import ConfigError
from kohort.secret import Secret

OAUTH = "org.apache.kafka.common.security.oauthbearer"
PLANTED = "planted-secret"


def config(options: dict[str, object], **more: object) -> AdminConfig:
    return client_config(AdminConfig, {"bootstrap.servers": "a:1", **options}, more)


@pytest.mark.parametrize(
    ("options", "name", "value"),
    [
        ({"sasl.mechanisms": "PLAIN"}, "sasl_mechanism", "PLAIN"),
        ({"ssl_cafile": "ca.pem"}, "ssl_ca_location", "ca.pem"),
        ({"ssl.truststore.certificates": "PEM"}, "ssl_ca_pem", "PEM"),
        ({"ssl_certfile": "c.pem", "ssl_keyfile": "k.pem"}, "ssl_key_location", "k.pem"),
        ({"ssl_check_hostname": False}, "ssl_endpoint_identification_algorithm", "none"),
        ({"ssl_check_hostname": "true"}, "ssl_endpoint_identification_algorithm", "https"),
        ({"sasl_plain_username": "u", "sasl_plain_password": "p"}, "sasl_username", "u"),
        (
            {"sasl.oauthbearer.client.id": "id", "sasl.oauthbearer.method": "oidc"},
            "sasl_oauthbearer_client_credentials_client_id",
            "id",
        ),
        ({"sasl.oauthbearer.grant.type": "jwt-bearer"}, "sasl_oauthbearer_grant_type", JWT_BEARER),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.JwtBearerJwtRetriever"},
            "sasl_oauthbearer_grant_type",
            JWT_BEARER,
        ),
        (
            {"sasl.oauthbearer.jwt.retriever.class": f"{OAUTH}.DefaultJwtRetriever"},
            "sasl_oauthbearer_grant_type",
            CLIENT_CREDENTIALS,
        ),
        (
            {
                "sasl.login.callback.handler.class": (
                    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
                )
            },
            "sasl_mechanism",
            "GSSAPI",
        ),
        (
            {"sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
            "sasl_mechanism",
            "GSSAPI",
        ),
    ],
)
def test_other_client_spellings_are_translated(options: dict[str, object], name: str, value: object):
    assert getattr(config(options), name) == value


def test_every_spelling_leads_to_a_known_option():
    ours = {o.name for o in options_of(ClientSecurityConfig)}
    assert set(SAME.values()) <= ours
    assert not ours & (set(SAME) | WITHOUT_COUNTERPART | set(REFUSED))
    assert not set(SAME) & (WITHOUT_COUNTERPART | set(REFUSED) | set(SPECIAL))


@pytest.mark.parametrize("name", sorted(WITHOUT_COUNTERPART))
def test_options_without_counterpart_are_ignored(name: str):
    assert config({name: "whatever"}) == config({})


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_unsupported_security_options_error_has_replacement(name: str):
    with pytest.raises(ConfigError, match=f"^{name} is not supported: "):
        config({name: "whatever"})


@pytest.mark.parametrize(
    "name",
    ["sasl.login.callback.handler.class", "sasl.client.callback.handler.class", "sasl.oauthbearer.jwt.retriever.class"],
)
def test_unknown_java_class_is_rejected(name: str):
    with pytest.raises(ConfigError, match=r"Java classes are not supported: .*sasl\.oauth\.token\.provider"):
        config({name: "com.example.Own"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl_check_hostname": "perhaps"}, "expected true or false"),
        ({"sasl.oauthbearer.method": "saml"}, "expected oidc or default"),
        ({"sasl.oauthbearer.metadata.authentication.type": "azure_imds"}, "expected none"),
        ({"sasl.mechanism": "NTLM"}, "expected one of GSSAPI, PLAIN"),
        ({"security.protocol": "TLS"}, "expected one of PLAINTEXT, SSL"),
        ({"sasl.username": "u"}, "sasl.username needs sasl.password"),
        ({"sasl.password": "p"}, "sasl.password needs sasl.username"),
        ({"ssl.certificate.pem": "PEM"}, "ssl.certificate.pem needs ssl.key.pem"),
        ({"ssl.key.location": "k"}, "ssl.key.location needs ssl.certificate.location"),
        ({"ssl.ca.location": "a", "ssl.truststore.location": "b"}, "ssl.ca.location and ssl.truststore.location have"),
    ],
)
def test_contradictory_security_options_are_rejected(options: dict[str, object], words: str):
    with pytest.raises(ConfigError) as raised:
        config(options)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_spellings_of_an_option_need_equal_values():
    assert config({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}).sasl_mechanism == "PLAIN"
    with pytest.raises(ConfigError, match=r"sasl\.mechanism and sasl\.mechanisms are the same option"):
        config({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "GSSAPI"})


@pytest.mark.parametrize("spelling", ["sasl.password", "sasl.plain.password", "ssl.password", "ssl.keystore.key"])
def test_option_errors_hide_secrets(spelling: str):
    with pytest.raises(ConfigError) as raised:
        config({spelling: PLANTED}, **{spelling.replace(".", "_"): "another"})
    assert PLANTED not in str(raised.value)
    with pytest.raises(ConfigError) as raised:
        config({spelling: PLANTED.encode()})
    assert PLANTED not in str(raised.value)


def test_configuration_repr_hides_secrets():
    made = config({"sasl.username": "u", "sasl.password": PLANTED, "ssl.key.password": PLANTED})
    assert PLANTED not in repr(made)
    assert made.sasl_password == Secret(PLANTED)

"""Credentials from sasl.jaas.config and from the other sasl options."""

from __future__ import annotations

import pytest

from kohort.aio.credentials.token_sources import claims_of, describe_token, unsecured
from kohort.client.requests.credentials import Credentials, TokenMethod, credentials_of
from kohort.config.client import AdminConfig
from kohort.config.client_options import client_config
from kohort.errors import ConfigError
from kohort.secret import Secret

KAFKA = "org.apache.kafka.common.security"
PLAIN = f'{KAFKA}.plain.PlainLoginModule required username="alice" password="planted-secret";'
SCRAM = f'kafkashaded.{KAFKA}.scram.ScramLoginModule required username="alice" password="planted-secret";'
OAUTH = f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required"
NOW_MS = 1_700_000_000_000


def read(mechanism: str, protocol: str = "SASL_SSL", **options: object) -> Credentials | None:
    settings = {"bootstrap.servers": "a:1", "security.protocol": protocol}
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    return credentials_of(client_config(AdminConfig, settings, options))


def test_client_without_sasl_has_no_credentials():
    assert read("", "PLAINTEXT") is None
    assert read("PLAIN", "SSL", sasl_username="u", sasl_password="p") is None


@pytest.mark.parametrize(("mechanism", "jaas"), [("PLAIN", PLAIN), ("SCRAM-SHA-256", SCRAM), ("SCRAM-SHA-512", SCRAM)])
def test_jaas_config_with_normal_or_shaded_class_provides_user_and_password(mechanism: str, jaas: str):
    found = read(mechanism, sasl_jaas_config=jaas)
    assert found == Credentials(mechanism, "alice", Secret("planted-secret"))
    assert "planted" not in repr(found)


@pytest.mark.parametrize(
    ("mechanism", "options", "words"),
    [
        ("PLAIN", {}, "sasl.mechanism=PLAIN needs the option sasl.username"),
        (
            "PLAIN",
            {"sasl_jaas_config": PLAIN.replace("username", "user")},
            "needs the option username=... in sasl.jaas.config",
        ),
        ("PLAIN", {"sasl_jaas_config": PLAIN[:-1]}, "JAAS config entry not terminated by semi-colon"),
        (
            "PLAIN",
            {"sasl_jaas_config": SCRAM},
            "names ScramLoginModule, and sasl.mechanism is PLAIN: set sasl.mechanism=SCR",
        ),
        (
            "",
            {"sasl_jaas_config": PLAIN},
            "names PlainLoginModule, and sasl.mechanism is GSSAPI: set sasl.mechanism=PLAIN",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": "com.example.OwnModule required;"},
            "names the class OwnModule: expected one of",
        ),
        (
            "PLAIN",
            {"sasl_jaas_config": PLAIN, "sasl_username": "u", "sasl_password": "p"},
            "both name the user: set one of them",
        ),
        (
            "SCRAM-SHA-256",
            {"sasl_jaas_config": SCRAM.replace(";", " tokenauth=true;")},
            "delegation tokens are not supported",
        ),
        ("", {"sasl_username": "u", "sasl_password": "p"}, "sasl.mechanism is GSSAPI (the default)"),
        ("OAUTHBEARER", {"sasl_username": "u", "sasl_password": "p"}, "takes no sasl.username"),
        ("OAUTHBEARER", {}, "needs a token source"),
        ("OAUTHBEARER", {"sasl_oauth_token_provider": "token"}, "expected a function, or MODULE:FUNCTION"),
        ("OAUTHBEARER", {"sasl_oauth_token_provider": 5}, "expected a function, or an object with"),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_token_endpoint_url": "ftp://x"},
            "expected an address that starts with http:, https: or file:",
        ),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_token_endpoint_url": "http://x"},
            "needs sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_token_endpoint_url": "http://x", "sasl_oauthbearer_client_id": "i"},
            "needs sasl.oauthbearer.client.credentials.client.secret",
        ),
        (
            "OAUTHBEARER",
            {"sasl_oauthbearer_token_endpoint_url": "http://x", "sasl_oauthbearer_grant_type": "jwt-bearer"},
            "needs sasl.oauthbearer.assertion.private.key.file",
        ),
        ("OAUTHBEARER", {"enable_sasl_oauthbearer_unsecure_jwt": True}, "needs a principal"),
        (
            "OAUTHBEARER",
            {"enable_sasl_oauthbearer_unsecure_jwt": True, "sasl_oauthbearer_config": "alice"},
            "expected NAME=VALUE",
        ),
        (
            "OAUTHBEARER",
            {"enable_sasl_oauthbearer_unsecure_jwt": True, "sasl_oauthbearer_config": "principal=a lifeSeconds=soon"},
            "expected a number of seconds above 0",
        ),
        (
            "OAUTHBEARER",
            {"sasl_jaas_config": f'{OAUTH} unsecuredLoginStringClaim_sub="a" unsecuredLoginNumberClaim_n="x";'},
            "expected a number",
        ),
        (
            "OAUTHBEARER",
            {"sasl_oauth_token_provider": lambda: "t", "sasl_oauthbearer_extensions": "a"},
            "expected key=value pairs separated by commas",
        ),
    ],
)
def test_missing_or_contradicting_sasl_options_raise_config_error(mechanism: str, options: dict, words: str):
    with pytest.raises(ConfigError) as raised:
        read(mechanism, **options)
    assert words in str(raised.value)
    assert "planted" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_token_source_is_selected_by_sasl_options():
    def provider() -> str:
        return "token"

    with_secret = f'{OAUTH} clientId="i" clientSecret="planted-secret" scope="s" extension_traceId="123";'
    cases = {
        TokenMethod.CALLBACK: {"sasl_oauth_token_provider": provider},
        TokenMethod.FILE: {"sasl_oauthbearer_token_endpoint_url": "file:///t"},
        TokenMethod.OIDC: {"sasl_oauthbearer_token_endpoint_url": "https://x", "sasl_jaas_config": with_secret},
        TokenMethod.UNSECURED: {
            "enable_sasl_oauthbearer_unsecure_jwt": True,
            "sasl_oauthbearer_config": "principal=alice",
        },
    }
    for method, options in cases.items():
        found = read("OAUTHBEARER", **options)
        assert found is not None
        assert found.method is method
        assert "planted" not in repr(found)
    oidc = read("OAUTHBEARER", **cases[TokenMethod.OIDC])
    assert (oidc.client_id, oidc.client_secret, oidc.scope) == ("i", Secret("planted-secret"), "s")
    assert oidc.extensions == {"traceId": "123"}

    msk = read(
        "AWS_MSK_IAM", sasl_jaas_config='software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="p";'
    )
    assert (msk.mechanism, msk.method, msk.options) == ("OAUTHBEARER", TokenMethod.MSK, {"awsProfileName": "p"})


def test_unsecured_token_has_claims_of_jaas_options():
    java = (
        f'{OAUTH} unsecuredLoginStringClaim_sub="carol" unsecuredLoginNumberClaim_level="7" '
        'unsecuredLoginListClaim_scope=",a,b" unsecuredLoginLifetimeSeconds="3600" unsecuredLoginExtension_trace="1";'
    )
    librdkafka = 'principal="carol" scope=a,b lifeSeconds=3600 extension_trace=1'
    for options in (
        {"sasl_jaas_config": java},
        {"enable_sasl_oauthbearer_unsecure_jwt": True, "sasl_oauthbearer_config": librdkafka},
    ):
        found = read("OAUTHBEARER", **options)
        token = unsecured(found.options, found.extensions, NOW_MS)

        claims = claims_of(token.text.reveal())
        assert (claims["sub"], claims["scope"]) == ("carol", ["a", "b"])
        assert (claims["iat"], claims["exp"]) == (1_700_000_000, 1_700_003_600)
        assert (token.principal, token.expires_ms, token.extensions) == ("carol", NOW_MS + 3_600_000, {"trace": "1"})
        assert token.text.reveal().endswith(".")


def test_token_description_has_claims_but_not_the_token():
    token = unsecured({"StringClaim_sub": "carol", "StringClaim_aud": "kafka"}, {}, NOW_MS)

    assert describe_token(token, NOW_MS) == "a token of 'carol', expires in 3600 s, aud='kafka'"
    assert (
        describe_token(token, NOW_MS + 3_640_000)
        == "a token of 'carol', expired 40 s ago by this machine's clock, aud='kafka'"
    )


@pytest.mark.parametrize("text", ["", "opaque", "a.b.c", "a.e30", "a.W10.c", "a.bnVsbA.c", "a.\xff.c"])
def test_invalid_jwt_has_no_claims(text: str):
    assert claims_of(text) == {}


def test_kerberos_options_come_from_jaas_config_or_sasl_options():
    jaas = (
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k" principal="me@R" '
        "serviceName=broker;"
    )
    assert read("GSSAPI", sasl_jaas_config=jaas) == Credentials(
        "GSSAPI", principal="me@R", keytab="/k", service="broker"
    )
    assert read("", sasl_kerberos_service_name="k") == Credentials("GSSAPI", service="k")

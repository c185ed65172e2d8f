"""TLS and login options of clients. Names are librdkafka's, and Kafka's for key stores and trust stores.

``config/security_names.py`` has other spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.listener_security import TLS_VERSIONS, SecurityProtocol
from kohort.config.options import option
from kohort.config.schema_registry import SchemaRegistryConfig
from kohort.errors import ConfigError
from kohort.secret import Secret

CLIENT_MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurityConfig(SchemaRegistryConfig):
    """TLS and login options of a client."""

    security_protocol: str = option(
        "PLAINTEXT",
        "Security protocol: TLS (SSL), login (SASL), both, or neither.",
        choices=tuple(protocol.value for protocol in SecurityProtocol),
    )
    ssl_ca_location: str | None = option(
        None, "File or folder of trusted certificate authorities; default: the operating system's."
    )
    ssl_ca_pem: str | None = option(None, "Trusted certificate authorities, as PEM text.")
    https_ca_location: str | None = option(None, "Additional trusted authorities of an identity provider.")
    https_ca_pem: str | None = option(None, "Additional trusted authorities of an identity provider, as PEM text.")
    ssl_truststore_location: str | None = option(None, "File of trusted certificate authorities: PKCS12, JKS or PEM.")
    ssl_truststore_password: Secret | None = option(None, "Password of the truststore.", of=Secret)
    ssl_certificate_location: str | None = option(None, "File with the client's certificate chain: PEM.")
    ssl_certificate_pem: str | None = option(None, "Certificate chain of the client, as PEM text.")
    ssl_key_location: str | None = option(None, "File with the private key: PEM.")
    ssl_key_pem: Secret | None = option(None, "Private key, as PEM text.", of=Secret)
    ssl_key_password: Secret | None = option(None, "Password of the private key.", of=Secret)
    ssl_keystore_location: str | None = option(None, "File with certificate and private key: PKCS12, JKS or PEM.")
    ssl_keystore_password: Secret | None = option(None, "Password of the keystore.", of=Secret)
    ssl_endpoint_identification_algorithm: str = option(
        "https", "Check of the host name in the broker's certificate: https, or none.", choices=("https", "none", "")
    )
    enable_ssl_certificate_verification: bool = option(True, "True to check the broker's certificate.")
    ssl_enabled_protocols: list[str] = option(list(TLS_VERSIONS), "Allowed TLS versions.", choices=TLS_VERSIONS)
    ssl_cipher_suites: list[str] = option([], "Allowed cipher suites, by OpenSSL or Java names; default: OpenSSL's.")
    sasl_mechanism: str = option("GSSAPI", "Login mechanism.", choices=CLIENT_MECHANISMS)
    sasl_username: str | None = option(None, "User name for PLAIN and SCRAM.")
    sasl_password: Secret | None = option(None, "Password for PLAIN and SCRAM.", of=Secret)
    sasl_jaas_config: Secret | None = option(
        None, "User and password in Kafka's format: ...LoginModule required username=... password=...;", of=Secret
    )
    sasl_oauth_token_provider: Callable[..., Any] | None = option(
        None,
        "Function, or coroutine function, that returns a token: text, or (token, expiry in seconds[, principal"
        "[, extensions]]). Or an object with a method token().",
        of=object,
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        None, "Token endpoint of OIDC (KIP-768): http(s), or file: of a token that another program renews."
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = option(None, "OIDC client id.")
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(None, "OIDC client secret.", of=Secret)
    sasl_oauthbearer_scope: str | None = option(None, "Requested scope of the token.")
    sasl_oauthbearer_extensions: str | None = option(None, "Comma-separated SASL extensions (KIP-342): key=value.")
    sasl_oauthbearer_header_urlencode: bool = option(
        False, "True to URL-encode client id and secret in the header, as in RFC 6749."
    )
    sasl_oauthbearer_grant_type: str = option(
        CLIENT_CREDENTIALS,
        "Grant type of a token request: client secret, or signed assertion (KIP-1139).",
        choices=(CLIENT_CREDENTIALS, JWT_BEARER),
    )
    sasl_oauthbearer_assertion_file: str | None = option(None, "File with the assertion, which another program renews.")
    sasl_oauthbearer_assertion_algorithm: str = option(
        "RS256", "Signature algorithm of the assertion.", choices=("RS256", "ES256")
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = option(None, "Private key of the assertion: PEM file.")
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        None, "Password of the assertion's private key.", of=Secret
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = option(None, "Audience of the assertion.")
    sasl_oauthbearer_assertion_claim_iss: str | None = option(None, "Issuer of the assertion.")
    sasl_oauthbearer_assertion_claim_sub: str | None = option(None, "Subject of the assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(300, "Lifetime of an assertion.", low=0, high=86400)
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(
        60, "Time before now from which an assertion is valid.", low=0, high=3600
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = option(False, "True to give each assertion a unique id.")
    sasl_oauthbearer_config: str | None = option(
        None,
        "Unsigned token for tests: principal=NAME scope=a,b lifeSeconds=3600 extension_KEY=VALUE; "
        "or the argument of sasl.oauth.token.provider.",
    )
    enable_sasl_oauthbearer_unsecure_jwt: bool = option(False, "True to allow an unsigned token.")
    sasl_login_refresh_window_factor: float = option(
        0.8, "Share of a token's lifetime after which it is renewed.", low=0, high=1
    )
    sasl_login_refresh_window_jitter: float = option(
        0.05, "Random addition to sasl.login.refresh.window.factor.", low=0, high=1
    )
    sasl_login_refresh_min_period_seconds: int = option(60, "Shortest time between token renewals.", low=0, high=900)
    sasl_login_refresh_buffer_seconds: int = option(
        300, "Time before expiry at which a token is renewed.", low=0, high=3600
    )
    sasl_login_connect_timeout_ms: int | None = option(
        None, "Time limit of a connection to the identity provider.", low=0, of=int
    )
    sasl_login_read_timeout_ms: int | None = option(None, "Time limit of the token endpoint's response.", low=0, of=int)
    sasl_login_retry_backoff_ms: int = option(100, "First delay before a token request is retried.", low=0)
    sasl_login_retry_backoff_max_ms: int = option(10000, "Longest delay before a token request is retried.", low=0)
    sasl_kerberos_service_name: str = option("kafka", "Name of the brokers' Kerberos principal before the slash.")
    sasl_kerberos_principal: str | None = option(None, "Kerberos principal; default: the ticket cache's.")
    sasl_kerberos_keytab: str | None = option(None, "File with the key of the client's principal.")
    sasl_kerberos_domain_name: str | None = option(
        None, "Host part of the brokers' principal, after the slash; default: the broker's host."
    )
    sasl_aws_region: str | None = option(None, "Region of an MSK cluster; default: from broker name or environment.")

    def __post_init__(self) -> None:
        SchemaRegistryConfig.__post_init__(self)
        _both(self, "ssl.certificate.pem", "ssl.key.pem")
        _both(self, "sasl.username", "sasl.password")
        for names in (
            ("ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location"),
            ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"),
            ("ssl.key.location", "ssl.key.pem", "ssl.keystore.location"),
        ):
            given = [name for name in names if _value(self, name) is not None]
            if len(given) > 1:
                raise ConfigError(f"{given[0]} and {given[1]} have the same purpose: give one of them")
        if self.ssl_key_location is not None and self.ssl_certificate_location is None:
            raise ConfigError("ssl.key.location needs ssl.certificate.location, the certificate of the key")


def _value(config: ClientSecurityConfig, name: str) -> Any:
    return getattr(config, name.replace(".", "_"))


def _both(config: ClientSecurityConfig, one: str, other: str) -> None:
    for given, missing in ((one, other), (other, one)):
        if _value(config, given) is not None and _value(config, missing) is None:
            raise ConfigError(f"{given} needs {missing}")

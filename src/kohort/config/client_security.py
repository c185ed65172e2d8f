"""Options of a client's TLS and login: librdkafka's names, and Kafka's where they name its files.

Other spellings are in ``config/security_names.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.listener_security import TLS_VERSIONS, SecurityProtocol
from kohort.config.options import option
from kohort.errors import ConfigError
from kohort.secret import Secret

CLIENT_MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")
CLIENT_CREDENTIALS: Final = "client_credentials"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSecurityConfig:
    """A client's side of a secured connection."""

    security_protocol: str = option(
        "security.protocol",
        "PLAINTEXT",
        "How to talk to brokers: with TLS (SSL), with a login (SASL), with both.",
        choices=tuple(protocol.value for protocol in SecurityProtocol),
    )
    ssl_ca_location: str | None = option(
        "ssl.ca.location", None, "File or folder with the authorities to believe; default: the system's."
    )
    ssl_ca_pem: str | None = option("ssl.ca.pem", None, "Those authorities, as PEM text.")
    https_ca_location: str | None = option(
        "https.ca.location", None, "The same for an identity provider, beside the system's and those above."
    )
    https_ca_pem: str | None = option("https.ca.pem", None, "Those authorities, as PEM text.")
    ssl_truststore_location: str | None = option(
        "ssl.truststore.location", None, "The same as Java keeps it: PKCS12, JKS or PEM."
    )
    ssl_truststore_password: Secret | None = option(
        "ssl.truststore.password", None, "Password of that file.", of=Secret
    )
    ssl_certificate_location: str | None = option(
        "ssl.certificate.location", None, "File with this client's own certificate, and those that signed it: PEM."
    )
    ssl_certificate_pem: str | None = option("ssl.certificate.pem", None, "The same, as PEM text.")
    ssl_key_location: str | None = option("ssl.key.location", None, "File with the private key of it: PEM.")
    ssl_key_pem: Secret | None = option("ssl.key.pem", None, "The same, as PEM text.", of=Secret)
    ssl_key_password: Secret | None = option("ssl.key.password", None, "Password of the private key.", of=Secret)
    ssl_keystore_location: str | None = option(
        "ssl.keystore.location", None, "File with certificate and key: PKCS12, JKS or PEM."
    )
    ssl_keystore_password: Secret | None = option("ssl.keystore.password", None, "Password of that file.", of=Secret)
    ssl_endpoint_identification_algorithm: str = option(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Whether the certificate must be for the host that was asked for: https, or none.",
        choices=("https", "none", ""),
    )
    enable_ssl_certificate_verification: bool = option(
        "enable.ssl.certificate.verification", True, "Whether the broker's certificate is checked at all."
    )
    ssl_enabled_protocols: list[str] = option(
        "ssl.enabled.protocols", list(TLS_VERSIONS), "Versions of TLS that are spoken.", choices=TLS_VERSIONS
    )
    ssl_cipher_suites: list[str] = option(
        "ssl.cipher.suites", [], "Ciphers, by the names of OpenSSL or of Java; default: OpenSSL's."
    )
    sasl_mechanism: str = option("sasl.mechanism", "GSSAPI", "How to log in.", choices=CLIENT_MECHANISMS)
    sasl_username: str | None = option("sasl.username", None, "The user, for PLAIN and SCRAM.")
    sasl_password: Secret | None = option("sasl.password", None, "The user's password.", of=Secret)
    sasl_jaas_config: Secret | None = option(
        "sasl.jaas.config", None, "Both as Kafka writes them: ...LoginModule required username=... password=...;",
        of=Secret,
    )  # fmt: skip
    sasl_oauth_token_provider: Callable[..., Any] | None = option(
        "sasl.oauth.token.provider",
        None,
        "Function, or coroutine function, that returns a token: a text, or (token, time of expiry in seconds"
        "[, principal[, extensions]]). Or an object with such a token().",
        of=object,
    )
    sasl_oauthbearer_token_endpoint_url: str | None = option(
        "sasl.oauthbearer.token.endpoint.url",
        None,
        "Where tokens are had by OIDC (KIP-768): http(s), or file: for one that somebody else renews.",
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = option(
        "sasl.oauthbearer.client.credentials.client.id", None, "The client that asks there."
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = option(
        "sasl.oauthbearer.client.credentials.client.secret", None, "That client's secret.", of=Secret
    )
    sasl_oauthbearer_scope: str | None = option("sasl.oauthbearer.scope", None, "What the token shall be good for.")
    sasl_oauthbearer_extensions: str | None = option(
        "sasl.oauthbearer.extensions", None, "What else the broker is told (KIP-342): key=value, with commas between."
    )
    sasl_oauthbearer_header_urlencode: bool = option(
        "sasl.oauthbearer.header.urlencode",
        False,
        "Whether client and secret are URL-encoded, as RFC 6749 has it, before they are a header.",
    )
    sasl_oauthbearer_grant_type: str = option(
        "sasl.oauthbearer.grant.type",
        CLIENT_CREDENTIALS,
        "How a token is asked for: with the client's secret, or with an assertion that it signs (KIP-1139).",
        choices=(CLIENT_CREDENTIALS, JWT_BEARER),
    )
    sasl_oauthbearer_assertion_file: str | None = option(
        "sasl.oauthbearer.assertion.file", None, "File with the assertion, which somebody else renews."
    )
    sasl_oauthbearer_assertion_algorithm: str = option(
        "sasl.oauthbearer.assertion.algorithm", "RS256", "How it is signed here.", choices=("RS256", "ES256")
    )
    sasl_oauthbearer_assertion_private_key_file: str | None = option(
        "sasl.oauthbearer.assertion.private.key.file", None, "File with the private key that signs it: PEM."
    )
    sasl_oauthbearer_assertion_private_key_passphrase: Secret | None = option(
        "sasl.oauthbearer.assertion.private.key.passphrase", None, "Password of that key.", of=Secret
    )
    sasl_oauthbearer_assertion_claim_aud: str | None = option(
        "sasl.oauthbearer.assertion.claim.aud", None, "The assertion's audience."
    )
    sasl_oauthbearer_assertion_claim_iss: str | None = option(
        "sasl.oauthbearer.assertion.claim.iss", None, "The assertion's issuer."
    )
    sasl_oauthbearer_assertion_claim_sub: str | None = option(
        "sasl.oauthbearer.assertion.claim.sub", None, "Whom the assertion is of."
    )
    sasl_oauthbearer_assertion_claim_exp_seconds: int = option(
        "sasl.oauthbearer.assertion.claim.exp.seconds", 300, "How long an assertion lasts.", low=0, high=86400
    )
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = option(
        "sasl.oauthbearer.assertion.claim.nbf.seconds", 60, "Since when it does, before now.", low=0, high=3600
    )
    sasl_oauthbearer_assertion_claim_jti_include: bool = option(
        "sasl.oauthbearer.assertion.claim.jti.include", False, "Whether each assertion has a name of its own."
    )
    sasl_oauthbearer_config: str | None = option(
        "sasl.oauthbearer.config",
        None,
        "A token without signature, for tests: principal=NAME scope=a,b lifeSeconds=3600 extension_KEY=VALUE; "
        "for a sasl.oauth.token.provider that takes an argument, that argument.",
    )
    enable_sasl_oauthbearer_unsecure_jwt: bool = option(
        "enable.sasl.oauthbearer.unsecure.jwt", False, "Whether such a token may be used."
    )
    sasl_login_refresh_window_factor: float = option(
        "sasl.login.refresh.window.factor", 0.8, "Part of a token's life after which it is renewed.", low=0, high=1
    )
    sasl_login_refresh_window_jitter: float = option(
        "sasl.login.refresh.window.jitter", 0.05, "How far that is spread.", low=0, high=1
    )
    sasl_login_refresh_min_period_seconds: int = option(
        "sasl.login.refresh.min.period.seconds", 60, "Shortest time from one token to the next.", low=0, high=900
    )
    sasl_login_refresh_buffer_seconds: int = option(
        "sasl.login.refresh.buffer.seconds", 300, "How long before it expires a token is renewed.", low=0, high=3600
    )
    sasl_login_connect_timeout_ms: int | None = option(
        "sasl.login.connect.timeout.ms", None, "How long the identity provider may take to be reached.", low=0, of=int
    )
    sasl_login_read_timeout_ms: int | None = option(
        "sasl.login.read.timeout.ms", None, "How long it may take to answer.", low=0, of=int
    )
    sasl_login_retry_backoff_ms: int = option(
        "sasl.login.retry.backoff.ms", 100, "First wait before it is asked again.", low=0
    )
    sasl_login_retry_backoff_max_ms: int = option("sasl.login.retry.backoff.max.ms", 10000, "Longest such wait.", low=0)
    sasl_kerberos_service_name: str = option(
        "sasl.kerberos.service.name", "kafka", "Name of the brokers' principal, before the slash."
    )
    sasl_kerberos_principal: str | None = option(
        "sasl.kerberos.principal", None, "This client's principal; default: that of the ticket cache."
    )
    sasl_kerberos_keytab: str | None = option("sasl.kerberos.keytab", None, "File with that principal's key.")
    sasl_kerberos_domain_name: str | None = option(
        "sasl.kerberos.domain.name", None, "Name of the brokers' principal after the slash; default: the broker's host."
    )
    sasl_aws_region: str | None = option(
        "sasl.aws.region", None, "Region of an MSK cluster; default: that in the broker's name, or the environment's."
    )

    def __post_init__(self) -> None:
        """Raise ConfigError for what does not go together."""
        _both(self, "ssl.certificate.pem", "ssl.key.pem")
        _both(self, "sasl.username", "sasl.password")
        for names in (
            ("ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location"),
            ("ssl.certificate.location", "ssl.certificate.pem", "ssl.keystore.location"),
            ("ssl.key.location", "ssl.key.pem", "ssl.keystore.location"),
        ):
            given = [name for name in names if _value(self, name) is not None]
            if len(given) > 1:
                raise ConfigError(f"{given[0]} and {given[1]} both say the same thing: give one of them")
        if self.ssl_key_location is not None and self.ssl_certificate_location is None:
            raise ConfigError("ssl.key.location needs ssl.certificate.location: a key alone proves nothing")


def _value(config: ClientSecurityConfig, name: str) -> Any:
    return getattr(config, name.replace(".", "_"))


def _both(config: ClientSecurityConfig, one: str, other: str) -> None:
    for given, missing in ((one, other), (other, one)):
        if _value(config, given) is not None and _value(config, missing) is None:
            raise ConfigError(f"{given} needs {missing} beside it")

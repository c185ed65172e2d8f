"""Options of a listener's TLS and logins: by the option's name for all listeners, by ``listener.name.<name>.<option>``
for one. Kafka's names, defaults and bounds, as in Apache Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kohort.config.options import ValueRule, option
from kohort.secret import Secret


class SecurityProtocol(Enum):
    """Kafka's ``security.protocol``."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def uses_sasl(self) -> bool:
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TLS_VERSIONS: Final = ("TLSv1.2", "TLSv1.3")

SIGNED_TOKENS: Final = "OAuthBearerValidatorCallbackHandler"
KAFKAS_CALLBACKS: Final = frozenset(
    {
        SIGNED_TOKENS,
        "OAuthBearerUnsecuredValidatorCallbackHandler",
        "PlainServerCallbackHandler",
        "ScramServerCallbackHandler",
    }
)
"""Simple names of Kafka's own; all but the first are the default behaviour."""
CALLBACKS: Final = ValueRule(
    lambda name: not name or name.rpartition(".")[2] in KAFKAS_CALLBACKS,
    "OAuthBearerValidatorCallbackHandler; other classes of Java cannot be loaded here",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """A listener's side of a secured connection."""

    ssl_keystore_location: str | None = option(
        "ssl.keystore.location", None, "File with the broker's certificate and key: PEM, PKCS12 or JKS."
    )
    ssl_keystore_password: Secret | None = option("ssl.keystore.password", None, "Password of that file.", of=Secret)
    ssl_keystore_type: str = option(
        "ssl.keystore.type", "JKS", "Kind of that file; what it is, is seen in its bytes.",
        choices=("JKS", "PKCS12", "PEM"),
    )  # fmt: skip
    ssl_keystore_certificate_chain: str | None = option(
        "ssl.keystore.certificate.chain", None, "The certificate and those that signed it, as PEM text."
    )
    ssl_keystore_key: Secret | None = option("ssl.keystore.key", None, "The private key, as PEM text.", of=Secret)
    ssl_key_password: Secret | None = option("ssl.key.password", None, "Password of the private key.", of=Secret)
    ssl_truststore_location: str | None = option(
        "ssl.truststore.location", None, "File with the authorities whose client certificates are believed."
    )
    ssl_truststore_password: Secret | None = option(
        "ssl.truststore.password", None, "Password of that file.", of=Secret
    )
    ssl_truststore_type: str = option(
        "ssl.truststore.type", "JKS", "Kind of that file; what it is, is seen in its bytes.",
        choices=("JKS", "PKCS12", "PEM"),
    )  # fmt: skip
    ssl_truststore_certificates: str | None = option(
        "ssl.truststore.certificates", None, "Those authorities, as PEM text."
    )
    ssl_client_auth: str = option(
        "ssl.client.auth",
        "none",
        "Whether clients show a certificate of their own.",
        choices=("none", "requested", "required"),
    )
    ssl_enabled_protocols: list[str] = option(
        "ssl.enabled.protocols", list(TLS_VERSIONS), "Versions of TLS that are spoken.", choices=TLS_VERSIONS
    )
    ssl_cipher_suites: list[str] = option(
        "ssl.cipher.suites", [], "Ciphers, by the names of OpenSSL or of Java; default: OpenSSL's."
    )
    ssl_principal_mapping_rules: str = option(
        "ssl.principal.mapping.rules", "DEFAULT", "How a certificate's name becomes a user's: RULE:PATTERN/NAME/, ..."
    )
    sasl_enabled_mechanisms: list[str] = option(
        "sasl.enabled.mechanisms", ["PLAIN"], "How clients may log in.", choices=MECHANISMS
    )
    sasl_jaas_config: Secret | None = option(
        "sasl.jaas.config", None, "The users of PLAIN, as Kafka writes them: ... required user_NAME=\"PASSWORD\";",
        of=Secret,
    )  # fmt: skip
    sasl_server_callback_handler_class: str | None = option(
        "sasl.server.callback.handler.class",
        None,
        "OAuthBearerValidatorCallbackHandler: tokens are signed. Default: tokens are unsecured, for tests.",
        rule=CALLBACKS,
    )
    sasl_server_max_receive_size: int = option(
        "sasl.server.max.receive.size", 524288, "Largest request before the login is complete.", low=1
    )
    connections_max_reauth_ms: int = option(
        "connections.max.reauth.ms", 0, "Time after which a client logs in again (KIP-368); 0: never.", low=0
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(
        "sasl.oauthbearer.jwks.endpoint.url", None, "Where the keys are that sign tokens: https:// or file:."
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3600000, "How often they are fetched.", low=1
    )
    sasl_oauthbearer_expected_audience: list[str] = option(
        "sasl.oauthbearer.expected.audience", [], "For whom a token is; any one of these."
    )
    sasl_oauthbearer_expected_issuer: str | None = option(
        "sasl.oauthbearer.expected.issuer", None, "Who has made a token."
    )
    sasl_oauthbearer_clock_skew_seconds: int = option(
        "sasl.oauthbearer.clock.skew.seconds", 30, "How far clocks may be apart.", low=0
    )
    sasl_oauthbearer_scope_claim_name: str = option(
        "sasl.oauthbearer.scope.claim.name", "scope", "The claim that holds the scope."
    )
    sasl_oauthbearer_sub_claim_name: str = option(
        "sasl.oauthbearer.sub.claim.name", "sub", "The claim that holds the user's name."
    )

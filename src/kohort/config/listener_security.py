"""TLS and login options of listeners: by name for all, by ``listener.name.<name>.<option>`` for one.

Names, defaults and bounds are those of Apache Kafka 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from kohort.config.options import ValueRule, option
from kohort.secret import Secret


class SecurityProtocol(Enum):
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
"""Simple names of Kafka's callback classes; all but SIGNED_TOKENS name the default behaviour."""
CALLBACKS: Final = ValueRule(
    lambda name: not name or name.rpartition(".")[2] in KAFKAS_CALLBACKS,
    "OAuthBearerValidatorCallbackHandler; other classes of Java cannot be loaded here",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerConfig:
    """TLS and login options of a listener."""

    ssl_keystore_location: str | None = option(None, "File with certificate and private key: PEM, PKCS12 or JKS.")
    ssl_keystore_password: Secret | None = option(None, "Password of the keystore.", of=Secret)
    ssl_keystore_type: str = option("JKS", "Keystore type, detected by content.", choices=("JKS", "PKCS12", "PEM"))
    ssl_keystore_certificate_chain: str | None = option(None, "Certificate chain of the broker, as PEM text.")
    ssl_keystore_key: Secret | None = option(None, "Private key, as PEM text.", of=Secret)
    ssl_key_password: Secret | None = option(None, "Password of the private key.", of=Secret)
    ssl_truststore_location: str | None = option(None, "File of trusted certificate authorities of clients.")
    ssl_truststore_password: Secret | None = option(None, "Password of the truststore.", of=Secret)
    ssl_truststore_type: str = option("JKS", "Truststore type, detected by content.", choices=("JKS", "PKCS12", "PEM"))
    ssl_truststore_certificates: str | None = option(None, "Trusted certificate authorities of clients, as PEM text.")
    ssl_client_auth: str = option(
        "none", "Client certificates: none, requested or required.", choices=("none", "requested", "required")
    )
    ssl_enabled_protocols: list[str] = option(list(TLS_VERSIONS), "Allowed TLS versions.", choices=TLS_VERSIONS)
    ssl_cipher_suites: list[str] = option([], "Allowed cipher suites, by OpenSSL or Java names; default: OpenSSL's.")
    ssl_principal_mapping_rules: str = option(
        "DEFAULT", "Rules from a certificate's name to a user name: RULE:PATTERN/NAME/, ..."
    )
    sasl_enabled_mechanisms: list[str] = option(["PLAIN"], "Login mechanisms of clients.", choices=MECHANISMS)
    sasl_jaas_config: Secret | None = option(
        None, 'Users of PLAIN in Kafka\'s format: ... required user_NAME="PASSWORD";', of=Secret
    )
    sasl_server_callback_handler_class: str | None = option(
        None,
        "OAuthBearerValidatorCallbackHandler: tokens need signatures. Default: unsigned tokens, for tests.",
        rule=CALLBACKS,
    )
    sasl_server_max_receive_size: int = option(524288, "Size limit of a request before the login is complete.", low=1)
    connections_max_reauth_ms: int = option(0, "Time after which a client logs in again (KIP-368); 0: never.", low=0)
    sasl_oauthbearer_jwks_endpoint_url: str | None = option(None, "URL of keys that sign tokens: https:// or file:.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = option(3600000, "Interval at which the keys are fetched.", low=1)
    sasl_oauthbearer_expected_audience: list[str] = option([], "Accepted audiences of a token.")
    sasl_oauthbearer_expected_issuer: str | None = option(None, "Accepted issuer of a token.")
    sasl_oauthbearer_clock_skew_seconds: int = option(30, "Tolerated clock difference.", low=0)
    sasl_oauthbearer_scope_claim_name: str = option("scope", "Claim with the scope.")
    sasl_oauthbearer_sub_claim_name: str = option("sub", "Claim with the user's name.")

"""What a client can be told about TLS and its login: librdkafka's names, and Kafka's where a file of its is at hand.

Other spellings of the same are in ``config/security_names.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from kohort.config.listener_security import TLS_VERSIONS
from kohort.config.options import option
from kohort.config.security_protocol import SecurityProtocol
from kohort.secret import Secret

CLIENT_MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")


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
    sasl_oauth_token_provider: Callable[[], Any] | None = option(
        "sasl.oauth.token.provider", None, "Function that returns a token and when it expires.", of=object
    )

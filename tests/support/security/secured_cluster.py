"""A secured cluster, Apache Kafka or kohort: the same listeners, users, certificates and tokens.

Both get the same options (``broker_options``), by Kafka's names. The plaintext listener needs no login and is
unrestricted, for the setup of tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from support.security.certificates import PASSWORD, Certificates
from support.security.tokens import AUDIENCE, ISSUER, Issuer, unsecured

LISTENERS: Final = {
    "SASLP": "SASL_PLAINTEXT",
    "SASLS": "SASL_SSL",
    "TLS": "SSL",
    "MTLS": "SSL",
    "REAUTH": "SASL_PLAINTEXT",
    "OAUTH": "SASL_PLAINTEXT",
}
"""Listeners beside PLAINTEXT. Tokens are unsecured on SASLP, signed on SASLS and OAUTH; REAUTH has short sessions."""
PASSWORDS: Final = {"admin": "admin-secret", "alice": "alice-secret", "bob": "bob-secret"}
"""Passwords of PLAIN and SCRAM. ``admin`` is a super user, the others have ACLs."""
SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
REAUTH_MS: Final = 3000
_MODULES: Final = "org.apache.kafka.common.security"
_VALIDATOR: Final = f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"

WAYS: Final = {
    "plain": ("SASLP", "PLAIN"),
    "scram-256": ("SASLP", "SCRAM-SHA-256"),
    "unsecured": ("SASLP", "OAUTHBEARER"),
    "signed": ("OAUTH", "OAUTHBEARER"),
    "renewed": ("REAUTH", "PLAIN"),
    "scram": ("SASLS", "SCRAM-SHA-512"),
    "oauthbearer": ("SASLS", "OAUTHBEARER"),
    "tls": ("TLS", ""),
    "mtls": ("MTLS", ""),
}
"""Login methods: the listener, and the SASL mechanism."""


@dataclass(frozen=True)
class SecuredCluster:
    """Addresses by listener, and the files for clients."""

    addresses: Mapping[str, str]
    certificates: Certificates
    issuer: Issuer

    @property
    def setup(self) -> str:
        """Address of the unrestricted listener."""
        return self.addresses["PLAINTEXT"]

    def address(self, way: str) -> str:
        """Return the address for one of ``WAYS``."""
        return self.addresses[WAYS[way][0]]

    def properties(self, way: str, user: str = "alice") -> dict[str, str]:
        """Return the client options of ``user`` for one of ``WAYS``.

        By librdkafka's names if it has one, else Java's: ``ssl.truststore.location``,
        ``ssl.keystore.location``, ``store.password``; ``token`` is a token.
        """
        listener, mechanism = WAYS[way]
        protocol = LISTENERS[listener]
        found = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            authority = self.certificates.authority
            found["ssl.ca.location"] = str(authority.certificate)
            found |= {"ssl.truststore.location": str(authority.store), "store.password": PASSWORD}
        if listener == "MTLS":
            own = {"alice": self.certificates.alice, "bob": self.certificates.bob}[user]
            found |= {"ssl.certificate.location": str(own.certificate), "ssl.key.location": str(own.key)}
            found["ssl.keystore.location"] = str(own.store)
        if mechanism:
            found["sasl.mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            found["token"] = unsecured(user) if listener == "SASLP" else self.issuer.token(user)
        elif mechanism:
            found |= {"sasl.username": user, "sasl.password": PASSWORDS[user]}
        return found


OF_OTHERS: Final = ("ssl.truststore.location", "ssl.keystore.location", "store.password", "token")


def our_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Convert ``SecuredCluster.properties`` to options of kohort's clients."""
    found: dict[str, Any] = {name: value for name, value in properties.items() if name not in OF_OTHERS}
    if "token" in properties:
        found["sasl.oauth.token.provider"] = lambda: properties["token"]
    return found


def write_properties(properties: Mapping[str, str], path: Path) -> Path:
    """Write the options as a file for the programs of ``interop/clients``."""
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path


def broker_options(certificates: Certificates, issuer: Issuer, folder: Path) -> dict[str, str]:
    """Return the options of both brokers except listeners."""
    plain = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    jwks = issuer.write_jwks(folder / "jwks.json").as_uri().replace("///", "/")
    found = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:admin",
        "connection.failed.authentication.delay.ms": "0",  # tests fail hundreds of logins
        "listener.name.reauth.connections.max.reauth.ms": str(REAUTH_MS),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),.*$/$1/,DEFAULT",
    }
    for name, protocol in LISTENERS.items():
        listener = f"listener.name.{name.lower()}"
        if protocol.endswith("SSL"):
            found |= {
                f"{listener}.ssl.keystore.location": str(certificates.server.store),
                f"{listener}.ssl.keystore.password": PASSWORD,
                f"{listener}.ssl.keystore.type": "PKCS12",
                f"{listener}.ssl.key.password": PASSWORD,
                f"{listener}.ssl.truststore.location": str(certificates.authority.store),
                f"{listener}.ssl.truststore.password": PASSWORD,
                f"{listener}.ssl.truststore.type": "PKCS12",
            }
        if protocol.startswith("SASL"):
            found |= {
                f"{listener}.sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
                f"{listener}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {plain};",
                f"{listener}.oauthbearer.sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;",
                **{
                    f"{listener}.{scram.lower()}.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;"
                    for scram in SCRAM
                },
            }
        if name in {"SASLS", "OAUTH"}:
            found |= {
                f"{listener}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
                f"{listener}.sasl.oauthbearer.jwks.endpoint.url": jwks,
                f"{listener}.sasl.oauthbearer.expected.audience": AUDIENCE,
                f"{listener}.sasl.oauthbearer.expected.issuer": ISSUER,
            }
    return found

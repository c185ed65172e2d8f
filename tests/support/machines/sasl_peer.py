"""Connections to an in-memory broker that log in by SASL."""

from __future__ import annotations

import random
import struct

from kohort.secret import Secret
from kohort.security.sasl.exchange import ClientExchange, Derivation
from kohort.security.sasl.oauthbearer import OAuthBearerClient
from kohort.security.sasl.plain import PlainClient
from kohort.security.sasl.scram import ScramClient, new_nonce
from kohort.wire.messages.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from support.machines.broker_stage import BrokerStage, Peer

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required " + " ".join(
    f'user_{name}="{password}"' for name, password in USERS.items()
)
RNG = random.Random(11)


def sasl_stage(*mechanisms: str, overrides: dict[str, str] | None = None, **options: object) -> BrokerStage:
    """A broker with two listeners: SASL, and PLAINTEXT without a login."""
    settings = {"plain.sasl.jaas.config": f"{JAAS};", **(overrides or {})}
    return BrokerStage(
        listeners=["PLAINTEXT://127.0.0.1:9092", "SASL://127.0.0.1:9093"],
        listener_security_protocol_map=["PLAINTEXT:PLAINTEXT", "SASL:SASL_PLAINTEXT"],
        sasl_enabled_mechanisms=list(mechanisms or ["PLAIN"]),
        **{f"listener.name.sasl.{name}": value for name, value in settings.items()},
        **options,
    )


def plain(name: str = "alice", password: str | None = None) -> PlainClient:
    return PlainClient(name, Secret(password or USERS.get(name, "none")))


def scram(name: str, password: str, mechanism: str = "SCRAM-SHA-256") -> ScramClient:
    return ScramClient(mechanism, name, Secret(password), new_nonce(RNG))


def bearer(token: str) -> OAuthBearerClient:
    return OAuthBearerClient(Secret(token))


def connect(stage: BrokerStage) -> Peer:
    """Open a connection to the listener with SASL."""
    return stage.connect(listener="SASL")


def handshake(peer: Peer, mechanism: str = "PLAIN", version: int = 1):
    peer.send(SaslHandshakeRequest(mechanism=mechanism), version)
    return peer.take()


def authenticate(peer: Peer, token: bytes, version: int = 2) -> SaslAuthenticateResponse | None:
    peer.send(SaslAuthenticateRequest(auth_bytes=token), version)
    return peer.take()


def log_in(peer: Peer, exchange: ClientExchange, version: int = 2) -> SaslAuthenticateResponse | None:
    """Log in; return the last response, None if none came yet."""
    answer = handshake(peer, exchange.mechanism)
    assert answer is not None, peer.closed
    assert answer.error_code == 0
    token: bytes | Derivation | None = exchange.first()
    while True:
        answer = authenticate(peer, token, version)
        if answer is None or answer.error_code:
            return answer
        token = exchange.next(answer.auth_bytes)
        if isinstance(token, Derivation):
            token = exchange.derived(token.derive())
        if token is None:
            return answer


def framed(token: bytes) -> bytes:
    """Return a token with its length, as after SaslHandshake 0."""
    return struct.pack(">i", len(token)) + token

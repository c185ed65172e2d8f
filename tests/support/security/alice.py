"""A broker with ACLs and the user alice; a listener without login is unrestricted."""

from __future__ import annotations

from typing import Final

USERS: Final = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret";'
ASKS_FOR_RIGHTS: Final = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": USERS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
AS_ALICE: Final = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "a-secret",
}
"""Login options of alice at listener SASL."""

"""What answers at an address instead of a Kafka broker, told by the first bytes that it sends.

A broker's answer begins with its length, and the first answer is one to ApiVersions: far below 16 MB, so its first
byte is 0. None of the other protocols that are met by mistake begins like that.
"""

from __future__ import annotations

from typing import Final

FIRST_BYTES: Final = 16
TLS_RECORDS: Final = frozenset({0x14, 0x15, 0x16, 0x17})
"""ChangeCipherSpec, Alert, Handshake, ApplicationData (RFC 8446, section 5.1)."""
TLS_MAJOR: Final = 3
NO_BROKER: Final = "this is no Kafka broker"
BEGINNINGS: Final = (
    (b"HTTP", "HTTP"),
    (b"<", "HTML"),
    (b"SSH-", "SSH"),
    (b"AMQP", "AMQP"),
    (b"-ERR", "Redis's protocol"),
    (b"220", "SMTP or FTP"),
)


def stranger(first: bytes) -> str | None:
    """Say who begins like this; None if it may be a broker, or nobody who is known."""
    if len(first) > 1 and first[0] in TLS_RECORDS and first[1] == TLS_MAJOR:
        return "it answers in TLS: set security.protocol=SSL or SASL_SSL, or name a listener without TLS"
    for beginning, name in BEGINNINGS:
        if first.startswith(beginning):
            return f"it answers in {name}: {NO_BROKER}"
    return None

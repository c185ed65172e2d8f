"""Handshakes with bytes that were changed on the way: an error on the side that sees it, never anything else.

``KOHORT_MUTATIONS=300000 pytest tests/property/test_mutated_handshakes.py`` does more of them.
"""

import os
import random
import ssl

from kohort.aio.tls.failures import TlsTarget, of_broker, of_client
from support.security.tls_pair import TlsPair, authority, client_context, read_all, server_context

MUTATIONS = int(os.environ.get("KOHORT_MUTATIONS", "2000"))
TARGET = TlsTarget("localhost", 9093, "ssl.ca.location=ca.pem", has_certificate=False)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Change, drop, repeat or add bytes."""
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 8])):
        at = chance.randrange(len(changed)) if changed else 0
        match chance.randrange(5):
            case 0 if changed:
                changed[at] ^= 1 << chance.randrange(8)
            case 1 if changed:
                changed[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del changed[at : at + chance.choice([1, 2, 50])]
            case 3:
                changed[at:at] = chance.randbytes(chance.choice([1, 2, 50]))
            case _:
                changed[at:at] = changed[at : at + 100]
    return bytes(changed)


def contexts():
    """Plain TLS 1.3, TLS 1.2, and with certificates on both sides."""
    older, both = client_context(), server_context()
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    both.verify_mode = ssl.CERT_REQUIRED
    authority().configure_trust(both)
    certified = client_context()
    authority().issue_cert("alice.example").configure_cert(certified)
    return [(client_context(), server_context()), (older, server_context()), (certified, both)]


def test_mutated_handshake_gives_error_message_and_harms_no_other_connection():
    chance = random.Random(9093)
    pairs = contexts()
    outcomes = {"open": 0, "refused": 0, "waiting": 0}
    for _ in range(MUTATIONS):
        client, server = chance.choice(pairs)
        skipped = chance.randrange(3)  # the message that is changed

        def on_the_way(data: bytes) -> bytes:
            nonlocal skipped
            skipped -= 1
            return mutate(data, chance) if skipped == -1 else data

        pair = TlsPair(client, server, on_the_way=on_the_way).shake()
        for side, name in ((pair.client, "client"), (pair.server, "server")):
            if name not in pair.failures and side.is_open:
                try:
                    read_all(side)
                except ssl.SSLError as error:
                    pair.failures[name] = error
        for name, error in pair.failures.items():
            words = of_client(error) if name == "server" else of_broker(error, TARGET).message
            assert words
            assert words.isprintable()
        outcome = "refused" if pair.failures else "open" if pair.server.is_open else "waiting"
        outcomes[outcome] += 1
    assert outcomes["refused"] > MUTATIONS // 2
    for client, server in pairs:
        pair = TlsPair(client, server).shake()
        assert (pair.failures, pair.server.is_open) == ({}, True)

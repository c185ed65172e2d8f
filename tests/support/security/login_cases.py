"""Cases of the login walks: every API in every state of a login, and tokens of every kind."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Final

from kohort.broker.dispatch import SERVED
from kohort.wire.apis import APIS
from kohort.wire.messages.metadata import MetadataRequest
from support.security.login_walk import (
    NONCE,
    Case,
    Frame,
    Wire,
    api_versions,
    authenticate,
    flipped,
    handshake,
    request,
    token,
    unknown,
)
from support.security.secured_cluster import PASSWORDS
from support.security.tokens import Issuer, unsecured

ALICE: Final = b"\0alice\0" + PASSWORDS["alice"].encode()
BOB: Final = b"\0bob\0" + PASSWORDS["bob"].encode()
METADATA: Final = request(MetadataRequest(topics=[]), 4)
SCRAM_FIRST: Final = f"n,,n=alice,r={NONCE}".encode()

STATES: Final[dict[str, tuple[str, Sequence[Frame]]]] = {
    "fresh": ("SASLP", []),
    "behind ApiVersions": ("SASLP", [api_versions()]),
    "behind an unknown ApiVersions": ("SASLP", [unknown(18, 127, b"\0")]),
    "behind SaslHandshake 0": ("SASLP", [handshake(0, "PLAIN")]),
    "behind SaslHandshake 1": ("SASLP", [handshake(1, "PLAIN")]),
    "within SCRAM": ("SASLP", [handshake(1, "SCRAM-SHA-256"), authenticate(SCRAM_FIRST)]),
    "within OAUTHBEARER": ("SASLP", [handshake(1, "OAUTHBEARER")]),
}
"""States of a login, by name: the listener, and the frames that lead to the state."""
COMPLETE: Final[dict[str, tuple[str, Sequence[Frame]]]] = {
    "logged in by SaslHandshake 0": ("SASLP", [handshake(0, "PLAIN"), token(ALICE)]),
    "logged in by SaslHandshake 1": ("SASLP", [handshake(1, "PLAIN"), authenticate(ALICE)]),
    "logged in for a while": ("REAUTH", [handshake(1, "PLAIN"), authenticate(ALICE)]),
    "without a login": ("PLAINTEXT", []),
}
"""States after a successful login."""
LOGIN_APIS: Final = (17, 18, 36)


def every_api_in_every_state() -> Iterator[Case]:
    """Yield each API in its lowest, its highest and an unsupported version, in each state of a login."""
    for state, (listener, before) in STATES.items():
        for key, api in SERVED.items():
            for version in sorted({api.low, api.high}):
                frame = request(api.request(), version)
                yield Case(f"{api.name} v{version} {state}", listener, before, [frame])
            yield Case(f"{api.name} v{api.high + 9} {state}", listener, before, [unknown(key, api.high + 9, b"\0")])
        yield Case(f"an unknown API {state}", listener, before, [unknown(999, 0)])
    for state, (listener, before) in COMPLETE.items():
        for key in LOGIN_APIS:
            api = APIS[key]
            for version in range(api.low, api.high + 1):
                yield Case(f"{api.name} v{version} {state}", listener, before, [request(api.request(), version)])


def odd_frames() -> Iterator[Case]:
    """Yield frames that are not requests, in each state of a login."""
    odd = {
        "an empty frame": b"\0\0\0\0",
        "one byte": b"\0\0\0\1\0",
        "half a header": b"\0\0\0\4\0\x11\0\1",
        "a negative length": b"\xff\xff\xff\xff",
        "a length above the limit": b"\0\x08\0\1\0\x11\0\1",
        "a hello of TLS": bytes.fromhex("160301020001000001fc0303") + bytes(500),
        "a request of HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "text in a frame": b"\0\0\0\5hello",
    }
    for state, (listener, before) in STATES.items():
        for name, data in odd.items():
            yield Case(f"{name} {state}", listener, before, data=data)


def handshakes() -> Iterator[Case]:
    """Yield names of mechanisms, and requests in a wrong order."""
    for version in (0, 1):
        for mechanism in ("", "plain", "Plain", "PLAIN ", "GSSAPI", "SCRAM-SHA-1", "EXTERNAL", "x" * 300):
            yield Case(f"SaslHandshake v{version} {mechanism[:20]!r}", "SASLP", says=[handshake(version, mechanism)])
        twice = [handshake(version, "PLAIN"), handshake(version, "PLAIN")]
        yield Case(f"SaslHandshake v{version} twice", "SASLP", says=twice)
    yield Case("ApiVersions twice", "SASLP", says=[api_versions(), api_versions()])
    yield Case("ApiVersions between", "SASLP", [handshake(1, "PLAIN")], [api_versions()])
    yield Case("ApiVersions first", "SASLP", [api_versions(0), handshake(1, "PLAIN"), authenticate(ALICE)], [METADATA])
    yield Case("SaslAuthenticate first", "SASLP", says=[authenticate(ALICE)])
    yield Case("a token first", "SASLP", says=[token(ALICE)])
    yield Case("a token behind SaslHandshake 1", "SASLP", [handshake(1, "PLAIN")], [token(ALICE)])
    yield Case("SaslAuthenticate behind SaslHandshake 0", "SASLP", [handshake(0, "PLAIN")], [authenticate(ALICE)])
    yield Case("SaslAuthenticate again", "SASLP", [handshake(1, "PLAIN"), authenticate(ALICE)], [authenticate(ALICE)])


def plain_tokens() -> Iterator[Case]:
    tokens = {
        "good": ALICE,
        "good, for itself": b"alice" + ALICE,
        "nothing": b"",
        "a NUL": b"\0",
        "two NULs": b"\0\0",
        "a name alone": b"alice",
        "no password": b"\0alice\0",
        "no name": b"\0\0alice-secret",
        "a wrong password": b"\0alice\0wrong",
        "an unknown name": b"\0nobody\0wrong",
        "a name in capitals": b"\0ALICE\0alice-secret",
        "for another": b"bob" + ALICE,
        "a NUL at the end": ALICE + b"\0",
        "four parts": ALICE + b"\0more",
        "six parts": ALICE + b"\0a\0b\0c",
        "no UTF-8": b"\0alice\0\xff\xfe",
        "a long name": b"\0" + b"a" * 10_000 + b"\0x",
    }
    for name, data in tokens.items():
        yield Case(f"PLAIN by SaslHandshake 0: {name}", "SASLP", [handshake(0, "PLAIN")], [token(data)])
        for version in (0, 1, 2):
            says = [authenticate(data, version)]
            yield Case(f"PLAIN v{version}: {name}", "SASLP", [handshake(1, "PLAIN")], says)


def scram_tokens() -> Iterator[Case]:
    nonce = NONCE.encode()
    firsts = {
        "good": SCRAM_FIRST,
        "for itself": b"n,a=alice,n=alice,r=" + nonce,
        "for another": b"n,a=bob,n=alice,r=" + nonce,
        "an unknown name": b"n,,n=nobody,r=" + nonce,
        "channel binding is possible": b"y,,n=alice,r=" + nonce,
        "channel binding": b"p=tls-unique,,n=alice,r=" + nonce,
        "an escaped name": b"n,,n=al=2Cice,r=" + nonce,
        "a wrongly escaped name": b"n,,n=al=20ice,r=" + nonce,
        "no name": b"n,,r=" + nonce,
        "an empty name": b"n,,n=,r=" + nonce,
        "no nonce": b"n,,n=alice",
        "an empty nonce": b"n,,n=alice,r=",
        "an unknown extension": b"n,,n=alice,r=" + nonce + b",foo=bar",
        "a delegation token": b"n,,n=alice,r=" + nonce + b",tokenauth=true",
        "nothing": b"",
        "no GS2 header": b"n=alice,r=" + nonce,
        "no UTF-8": b"n,,n=\xff\xfe,r=" + nonce,
        "text": b"hello",
        "PLAIN's": ALICE,
    }
    finals = {
        "nothing": b"",
        "text": b"hello",
        "another nonce": b"c=biws,r=other,p=AAAA",
        "the client's nonce alone": b"c=biws,r=" + nonce + b",p=AAAA",
        "no proof": b"c=biws,r=" + nonce,
        "the first again": SCRAM_FIRST,
    }
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        begun = [handshake(1, mechanism)]
        for name, data in firsts.items():
            yield Case(f"{mechanism} first: {name}", "SASLP", begun, [authenticate(data, 1)])
        for name, data in finals.items():
            yield Case(
                f"{mechanism} last: {name}", "SASLP", [*begun, authenticate(SCRAM_FIRST, 1)], [authenticate(data)]
            )
        good = (mechanism, "alice", PASSWORDS["alice"])
        yield Case(f"{mechanism}: good", "SASLP", scram=good, says=[METADATA])
        yield Case(f"{mechanism}: a wrong proof", "SASLP", scram=good, edits=flipped)
        yield Case(f"{mechanism}: a proof too short", "SASLP", scram=good, edits=lambda final: final[:-8])
        yield Case(f"{mechanism}: more behind it", "SASLP", scram=good, edits=lambda final: final + b",x=y")
        yield Case(f"{mechanism}: a wrong password", "SASLP", scram=(mechanism, "alice", "wrong"))
        yield Case(f"{mechanism}: an unknown user", "SASLP", scram=(mechanism, "nobody", "wrong"))


def oauth_tokens(issuer: Issuer) -> Iterator[Case]:
    def bearer(made: str, head: str = "n,,") -> bytes:
        return f"{head}\1auth=Bearer {made}\1\1".encode()

    now, good = int(time.time()), unsecured("alice")
    shapes = {
        "good": bearer(good),
        "for itself": bearer(good, "n,a=alice,"),
        "for another": bearer(good, "n,a=bob,"),
        "extensions": f"n,,\1auth=Bearer {good}\1traceId=12 3\1\1".encode(),
        "an odd extension": f"n,,\1auth=Bearer {good}\1trace-id=1\1\1".encode(),
        "no auth": b"n,,\1\1",
        "one end": f"n,,\1auth=Bearer {good}\1".encode(),
        "a small bearer": f"n,,\1auth=bearer {good}\1\1".encode(),
        "no token": b"n,,\1auth=Bearer \1\1",
        "nothing": b"",
        "text": b"hello",
        "PLAIN's": ALICE,
    }
    claims = {
        "expired": unsecured("alice", exp=now - 600),
        "no exp": unsecured("alice", exp=None),
        "no sub": unsecured("alice", sub=None),
        "an empty sub": unsecured(""),
        "no iat": unsecured("alice", iat=None),
        "not yet": unsecured("alice", nbf=now + 600),
        "no JWT": "hello",
        "two parts": good.rsplit(".", 1)[0],
        "signed": issuer.token("alice"),
    }
    stranger = Issuer()
    signed = {
        "good": issuer.token("alice"),
        "an audience among others": issuer.token("alice", aud=["x", "kafka"]),
        "a wrong audience": issuer.token("alice", aud="other"),
        "no audience": issuer.token("alice", aud=None),
        "a wrong issuer": issuer.token("alice", iss="https://other.example"),
        "expired": issuer.token("alice", exp=now - 600),
        "no exp": issuer.token("alice", exp=None),
        "no iat": issuer.token("alice", iat=None),
        "no sub": issuer.token("alice", sub=None),
        "not yet": issuer.token("alice", nbf=now + 600),
        "made in the future": issuer.token("alice", iat=now + 600),
        "an unknown key": issuer.token("alice", key_id="other"),
        "another's signature": stranger.token("alice"),
        "nobody's signature": good,
        "no JWT": "hello",
    }
    for name, data in shapes.items():
        yield Case(f"OAUTHBEARER: {name}", "SASLP", [handshake(1, "OAUTHBEARER")], _token_and_final_message(data))
    for name, made in claims.items():
        yield Case(f"unsecured: {name}", "SASLP", [handshake(1, "OAUTHBEARER")], _token_and_final_message(bearer(made)))
    for name, made in signed.items():
        yield Case(f"signed: {name}", "OAUTH", [handshake(1, "OAUTHBEARER")], _token_and_final_message(bearer(made)))


def _token_and_final_message(data: bytes) -> list[Frame]:
    """Return a token and the client's final message after its rejection (RFC 7628)."""
    return [authenticate(data), authenticate(b"\1")]


def sessions() -> Iterator[Case]:
    """Yield new logins on an authenticated connection; a login within a second of the last is ignored."""
    begun = [handshake(1, "PLAIN"), authenticate(ALICE)]
    yield Case("at once", "REAUTH", begun, [handshake(1, "PLAIN"), METADATA])
    yield Case("no lifetime", "SASLP", begun, [handshake(1, "PLAIN"), METADATA])


def logged_in(address: str) -> Wire:
    """Return a connection with alice's PLAIN login."""
    wire = Wire(address)
    wire.say(handshake(1, "PLAIN"))
    wire.say(authenticate(ALICE))
    return wire


def later_sessions() -> Iterator[Case]:
    """Yield new logins more than a second after the last."""
    begun = [handshake(1, "PLAIN")]
    yield Case("the same user", "REAUTH", [*begun, authenticate(ALICE)], [METADATA])
    yield Case("another user", "REAUTH", [*begun, authenticate(BOB)], [METADATA])
    yield Case("a wrong password", "REAUTH", [*begun, authenticate(b"\0alice\0wrong")], [METADATA])
    yield Case("another mechanism", "REAUTH", [handshake(1, "SCRAM-SHA-256")], [METADATA])
    yield Case("an unknown mechanism", "REAUTH", [handshake(1, "NONE")], [METADATA])
    yield Case("another request between", "REAUTH", begun, [METADATA])
    yield Case("ApiVersions between", "REAUTH", begun, [api_versions()])
    yield Case("by SaslHandshake 0", "REAUTH", [handshake(0, "PLAIN"), token(ALICE)], [METADATA])

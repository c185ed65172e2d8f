"""Logins by every mechanism, as requests and as bare frames: complete, aborted, repeated, mixed with requests."""

from __future__ import annotations

import base64
import json
import random
import struct
from functools import cached_property
from typing import Any

from fuzz import scripts
from fuzz.entrances.broker_frames import OPTIONS, BrokerFrames, Peered
from fuzz.mutate import mutated
from fuzz.scripts import Step
from kohort.wire.headers import RequestHeader, build_request
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kohort.wire.schema import Message
from support.machines.broker_stage import Peer
from support.machines.sasl_peer import JAAS, USERS, log_in, plain

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def part(claims: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


def token(**claims: object) -> bytes:
    """Return an unsecured token, as OAUTHBEARER sends it."""
    all_claims = {"sub": "carol", "iat": 0, "exp": 4_000_000_000} | claims
    return b"n,,\x01auth=Bearer " + f"{part({'alg': 'none'})}.{part(all_claims)}.".encode() + b"\x01\x01"


class BrokerLogins(BrokerFrames):
    """Requests of unauthenticated clients."""

    name = "broker-logins"
    feeds = "scripts of handshakes of each mechanism, tokens and requests in between, to a listener that wants a login"
    listener = "SASL"

    def options(self) -> dict[str, Any]:
        return OPTIONS | {
            "listeners": ["PLAINTEXT://127.0.0.1:9092", "SASL://127.0.0.1:9093"],
            "listener_security_protocol_map": ["PLAINTEXT:PLAINTEXT", "SASL:SASL_PLAINTEXT"],
            "sasl_enabled_mechanisms": list(MECHANISMS),
            "listener.name.sasl.plain.sasl.jaas.config": f"{JAAS};",
        }

    def at_first(self) -> dict[str, Any]:
        return {"add_scram": "\n".join(f"SCRAM-SHA-256=[name={n},password={p}]" for n, p in USERS.items())}

    @cached_property
    def tokens(self) -> list[bytes]:
        """Return valid tokens."""
        nonce = b"fyko+d2lbbFgONRv9qkxdawL"
        return [
            b"\0alice\0alice-secret",
            b"bob\0alice\0alice-secret",
            b"n,,n=alice,r=" + nonce,
            b"n,a=alice,n=ali=2Cce,r=" + nonce,
            b"p=tls-unique,,n=alice,r=" + nonce,
            b"c=biws,r=" + nonce + b"server,p=" + base64.b64encode(bytes(32)),
            token(),
            token(exp=1),
            token(exp=1e308, iat=-1),
            token(sub=["carol"], scope={"x": 1}),
            b"\x01",
            b"",
            b"n,,\x01auth=Bearer " + b"x." * 500 + b"\x01\x01",
        ]

    def generate(self, rng: random.Random) -> bytes:
        steps: list[Step] = []
        sent: list[bytes] = []
        for number in range(rng.choice((1, 2, 3))):
            steps.append(Step(scripts.CONNECT, number))
            for frame in self.login(rng):
                if rng.random() < 0.25:
                    frame = frame[:4] + mutated(frame[4:], rng, self.tokens)
                    frame = struct.pack(">i", len(frame) - 4) + frame[4:]
                steps.append(Step(scripts.SEND, number, frame))
                if rng.random() < 0.15:
                    steps.append(
                        Step(scripts.WAIT, number, struct.pack(">I", rng.choice((1, 100, 1000, 11_000, 300_000))))
                    )
            count = rng.choice((0, 1, 3))
            steps += [Step(scripts.SEND, number, self.frame(rng, sent)) for _ in range(count)]
        if rng.random() < 0.3:
            rng.shuffle(steps)
        return scripts.build(steps)

    def login(self, rng: random.Random) -> list[bytes]:
        """Return the frames of a login, usually a failing one."""
        frames = []
        if rng.random() < 0.4:
            frames.append(
                frame_of(ApiVersionsRequest(client_software_name="x", client_software_version="1"), rng.randint(0, 4))
            )
        mechanism = rng.choice((*MECHANISMS, "PLAIN", "GSSAPI", ""))
        version = rng.choice((0, 1, 1))
        frames.append(frame_of(SaslHandshakeRequest(mechanism=mechanism), version))
        for _ in range(rng.choice((1, 1, 2, 3))):
            token_bytes = rng.choice(self.tokens)
            if rng.random() < 0.5:
                token_bytes = mutated(token_bytes, rng, self.tokens)
            if version == 0 or rng.random() < 0.05:
                frames.append(struct.pack(">i", len(token_bytes)) + token_bytes)
            else:
                frames.append(frame_of(SaslAuthenticateRequest(auth_bytes=token_bytes), rng.randint(0, 2)))
        if rng.random() < 0.4:
            frames.append(frame_of(MetadataRequest(topics=[]), 12))
        return frames

    def newcomer(self, stage: Peered) -> Peer:
        logged_in = stage.connect(listener="SASL")
        answer = log_in(logged_in, plain())
        assert answer is not None, "nobody is let in after the restart"
        assert answer.error_code == 0, answer
        return logged_in


def frame_of(message: Message, version: int) -> bytes:
    """Return a request as a frame."""
    assert type(message).API_KEY is not None
    return b"".join(
        bytes(part) for part in build_request(RequestHeader(type(message).API_KEY, version, 1, "tester"), message)
    )

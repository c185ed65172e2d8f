"""Any bytes of an unauthenticated client in any state of a login: no crash, no login."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.broker.io import Received
from kohort.security.acls import ANONYMOUS
from kohort.wire.messages.api_versions import ApiVersionsRequest
from support.machines.sasl_peer import bearer, connect, framed, handshake, plain, sasl_stage, scram

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
REAL = [
    b"n,,n=alice,r=abc",
    b"\0alice\0wrong",
    b"\x01",
    b"c=biws,r=abc,p=",
    bearer("a.b.c").first(),
    plain("x").first(),
]
REAL += [
    scram("alice", "x").first(),
    bytes.fromhex("0024000200000002000170001400616c69636500"),
    b"\0\x11\0\1\0\0\0\1\xff\xff",
]
TOKENS = st.binary(max_size=60) | st.sampled_from(REAL) | st.builds(
    lambda real, at, byte: real[:at] + bytes([byte]) + real[at + 1 :],
    st.sampled_from(REAL), st.integers(0, 30), st.integers(0, 255),
)  # fmt: skip
HEADERS = st.sampled_from(
    [b"", bytes.fromhex("00240002000000020001700014"), bytes.fromhex("0024000000000002000170000000")]
)
STATES = st.sampled_from(["beginning", "versions told", "requests", "raw"])


@settings(max_examples=150)
@given(state=STATES, mechanism=st.sampled_from(MECHANISMS), frames=st.lists(st.tuples(HEADERS, TOKENS), max_size=4))
def test_no_bytes_log_anybody_in(state: str, mechanism: str, frames: list[tuple[bytes, bytes]]) -> None:
    stage = sasl_stage(*MECHANISMS)
    peer = connect(stage)
    if state == "versions told":
        peer.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
    elif state != "beginning":
        handshake(peer, mechanism, version=1 if state == "requests" else 0)
    peer._requests.clear()

    for header, token in frames:
        stage.give(Received(peer.number, framed(header + token)))
        stage.advance(100)
        connection = stage.broker._connections.get(peer.number)
        assert connection is None or connection.caller.principal == ANONYMOUS

"""What clients of the tree server and the server say to each other, and how it goes over the wire.

A frame is an int32 length and that many bytes, as Kafka's are. Of ZooKeeper's operations there are those that the first
consumer groups used. ``ReadEach`` stands for a list of children and one read for each of them, which the consumer of
that time sent one after the other: whoever counts requests counts so many, and whoever sends it waits so many round
trips.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct, msgpack

FRAME_MAX: Final = 1 << 26
NODE_EXISTS: Final = "node exists"
NO_NODE: Final = "no node"

_SIZE: Final = struct.Struct(">i")


class OpenSession(Struct, tag=True, array_like=True):
    """Begin a session, or go on with one; session 0 is a new one."""

    session_id: int
    timeout_ms: int


class Ping(Struct, tag=True, array_like=True):
    """Say that one is alive; the server says it back."""


class End(Struct, tag=True, array_like=True):
    """End the session, and with it its ephemeral nodes."""


class Create(Struct, tag=True, array_like=True):
    """Make a node, unless there is one."""

    path: str
    data: str
    ephemeral: bool = False
    """Whether it goes with the session."""


class Delete(Struct, tag=True, array_like=True):
    """Remove a node, whoever made it."""

    path: str


class Write(Struct, tag=True, array_like=True):
    """Set what a node holds; make it if there is none."""

    path: str
    data: str


class Read(Struct, tag=True, array_like=True):
    """Ask for what a node holds; ``watch``: tell once when that changes."""

    path: str
    watch: bool = False


class ReadEach(Struct, tag=True, array_like=True):
    """Ask for the children of a node with what each holds; ``watch``: tell once when there is one more or fewer."""

    path: str
    watch: bool = False


TreeRequest = Create | Delete | Write | Read | ReadEach


class Numbered(Struct, tag=True, array_like=True):
    """A request that will be answered under its number."""

    number: int
    request: TreeRequest


class SessionOpened(Struct, tag=True, array_like=True):
    """The session that this connection serves from now on."""

    session_id: int


class Expired(Struct, tag=True, array_like=True):
    """There is no such session, or not any more."""


class TreeAnswer(Struct, tag=True, array_like=True):
    """What became of a request. ``data``: what the node holds; for ``NODE_EXISTS`` too."""

    number: int
    error: str = ""
    data: str = ""
    children: dict[str, str] = {}


class Changed(Struct, tag=True, array_like=True):
    """A watch fires: something changed at ``path``; who wants to hear of the next change has to ask again."""

    path: str


ToServer = OpenSession | Ping | End | Numbered
ToClient = SessionOpened | Expired | TreeAnswer | Changed | Ping

_encoder: Final = msgpack.Encoder()
_to_server: Final = msgpack.Decoder(ToServer)
_to_client: Final = msgpack.Decoder(ToClient)


def framed(message: ToServer | ToClient) -> bytes:
    """Return a message as a frame."""
    body = _encoder.encode(message)
    return _SIZE.pack(len(body)) + body


def parse_to_server(frame: bytes | bytearray) -> ToServer:
    """Return the message in a frame of a client's. Raises msgspec.DecodeError for anything else."""
    message: ToServer = _to_server.decode(frame)
    return message


def parse_to_client(frame: bytes | bytearray) -> ToClient:
    """Return the message in a frame of the server's. Raises msgspec.DecodeError for anything else."""
    message: ToClient = _to_client.decode(frame)
    return message

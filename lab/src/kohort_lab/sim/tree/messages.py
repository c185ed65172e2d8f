"""Messages between the tree server and its clients, and their frames.

A frame is an int32 length and a body, as in Kafka. The operations are those of ZooKeeper that early consumer groups
used. ``ReadEach`` stands for a list of children and one read per child, sent one after another: it counts as that many
requests and round trips.
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
    """Open or resume a session; 0 for a new one."""

    session_id: int
    timeout_ms: int


class Ping(Struct, tag=True, array_like=True):
    """Keep-alive message; the server echoes it."""


class End(Struct, tag=True, array_like=True):
    """End of a session and its ephemeral nodes."""


class Create(Struct, tag=True, array_like=True):
    """Request to create a node of the tree, if it does not exist."""

    path: str
    data: str
    ephemeral: bool = False
    """True if the node ends with the session."""


class Delete(Struct, tag=True, array_like=True):
    """Request to delete a node, of any client."""

    path: str


class Write(Struct, tag=True, array_like=True):
    """Request to set the data of a node; creates a missing node."""

    path: str
    data: str


class Read(Struct, tag=True, array_like=True):
    """Read a node's data; ``watch``: notify once of a change."""

    path: str
    watch: bool = False


class ReadEach(Struct, tag=True, array_like=True):
    """Read a node's children with their data; ``watch``: notify once of added or removed children."""

    path: str
    watch: bool = False


TreeRequest = Create | Delete | Write | Read | ReadEach


class Numbered(Struct, tag=True, array_like=True):
    """Request with a number for its response."""

    number: int
    request: TreeRequest


class SessionOpened(Struct, tag=True, array_like=True):
    """Response with the session of this connection."""

    session_id: int


class Expired(Struct, tag=True, array_like=True):
    """Response for an unknown or expired session."""


class TreeAnswer(Struct, tag=True, array_like=True):
    """Result of a request; ``data``: the node's data, also for ``NODE_EXISTS``."""

    number: int
    error: str = ""
    data: str = ""
    children: dict[str, str] = {}


class Changed(Struct, tag=True, array_like=True):
    """Fired watch of ``path``; a client must set the watch again."""

    path: str


ToServer = OpenSession | Ping | End | Numbered
ToClient = SessionOpened | Expired | TreeAnswer | Changed | Ping

_encoder: Final = msgpack.Encoder()
_to_server: Final = msgpack.Decoder(ToServer)
_to_client: Final = msgpack.Decoder(ToClient)


def framed(message: ToServer | ToClient) -> bytes:
    body = _encoder.encode(message)
    return _SIZE.pack(len(body)) + body


def parse_to_server(frame: bytes | bytearray) -> ToServer:
    """Decode a client's frame. Raises msgspec.DecodeError."""
    message: ToServer = _to_server.decode(frame)
    return message


def parse_to_client(frame: bytes | bytearray) -> ToClient:
    """Decode a server's frame. Raises msgspec.DecodeError."""
    message: ToClient = _to_client.decode(frame)
    return message

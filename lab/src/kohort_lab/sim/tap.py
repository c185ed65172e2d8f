"""Wire tap: pairs and decodes requests and responses, independently of clients and brokers.

Responses on a link come in request order, so a request older than an answered one gets no response. A broker may answer
a dead client before it notices the death.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Iterator
from typing import Final

from kohort.wire.apis import APIS
from kohort.wire.codec import decode
from kohort.wire.headers import correlation_of, parse_response
from kohort_lab.machines.request_headers import parse_request_header
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.world import World

WATCHED: Final = frozenset({8, 11, 12, 13, 14, 68})
"""OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat: decoded in every run."""
FETCH: Final = 1
ONLY_AN_ERROR_BYTES: Final = 32
"""Size of the largest Fetch response without partitions, in bytes; checks ignore it."""

_STAMP: Final = struct.Struct(">qq")
_SIZE: Final = struct.Struct(">i")


class Tap:
    """Tap that reports each exchange to a watcher; ``everything``: decode all APIs."""

    def __init__(self, world: World, watcher: Watcher, *, everything: bool = False) -> None:
        self._world = world
        self._watcher = watcher
        self._watched = frozenset(APIS) if everything else WATCHED
        self._digest = hashlib.sha256()
        self._open: dict[int, deque[Exchange]] = {}
        self._closed_links: set[int] = set()
        """Links of dead clients; their brokers may still answer."""

    def decode_also(self, *api_keys: int) -> None:
        """Decode these APIs, too."""
        self._watched |= set(api_keys)

    def client_sent(self, link_id: int, client: str, data: bytes) -> None:
        """Handle whole requests of a client."""
        self._note(link_id, data)
        for frame in _frames(data):
            header, at = parse_request_header(frame)
            api = APIS[header.api_key]
            exchange = Exchange(client, link_id, api, header.api_version, header.correlation_id, self._world.now_ms)
            if api.key in self._watched:
                exchange.request = decode(api.request, header.api_version, frame, at)[0]
            self._open.setdefault(link_id, deque()).append(exchange)
            self._watcher.requested(exchange)

    def server_sent(self, link_id: int, data: bytes) -> None:
        """Handle whole responses of a broker."""
        self._note(link_id, data)
        waiting = self._open.get(link_id)
        for frame in _frames(data):
            correlation_id = correlation_of(frame)
            while waiting:
                exchange = waiting.popleft()
                if exchange.correlation_id == correlation_id:
                    break
            else:
                return
            only_error = exchange.api.key == FETCH and len(frame) <= ONLY_AN_ERROR_BYTES
            if exchange.api.key in self._watched or only_error:
                answer = parse_response(frame, exchange.api.response, exchange.version)[1]
                exchange.answer = None if only_error and getattr(answer, "responses", None) else answer
            exchange.answered_ms = self._world.now_ms
            if link_id in self._closed_links:
                self._watcher.answered_dead_client(exchange)
            else:
                self._watcher.answered(exchange)

    def _note(self, link_id: int, data: bytes) -> None:
        self._digest.update(_STAMP.pack(self._world.now_ms, link_id))
        self._digest.update(data)

    @property
    def digest(self) -> str:
        """Checksum of all wire bytes with their times and links, in hexadecimal."""
        return self._digest.hexdigest()

    def link_closed(self, link_id: int) -> None:
        self._closed_links.add(link_id)

    def unanswered(self) -> Iterator[Exchange]:
        """Return the requests in flight on open links."""
        for link_id, waiting in self._open.items():
            if link_id not in self._closed_links:
                yield from waiting


def frame_starts(data: bytes) -> Iterator[int]:
    """Yield start and length of each frame."""
    at = 0
    while at < len(data):
        yield at
        at += _SIZE.size + _SIZE.unpack_from(data, at)[0]


def _frames(data: bytes) -> list[bytes]:
    """Return frames without their lengths."""
    frames = []
    at, end, begin = 0, len(data), _SIZE.size
    while at < end:
        stop = at + begin + _SIZE.unpack_from(data, at)[0]
        frames.append(data[at + begin : stop])
        at = stop
    return frames

"""Overhears the wire: which requests clients send and what brokers answer, decoded independently of both.

Responses come in the order of the requests on a link, so a request that is older than one that was answered is never
answered any more. A broker that does not know yet that a client is gone answers nobody.
"""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Iterator
from typing import Final

from kohort.wire.apis import APIS
from kohort.wire.codec import decode
from kohort.wire.headers import correlation_of, parse_request_header, parse_response
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.world import World

WATCHED: Final = frozenset({8, 11, 12, 13, 14, 68})
"""OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat: decoded for every run."""
FETCH: Final = 1
ONLY_AN_ERROR_BYTES: Final = 32
"""A Fetch response no longer than this has no partitions; checks do not look at others."""

_STAMP: Final = struct.Struct(">qq")
_SIZE: Final = struct.Struct(">i")


class Tap:
    """Tells a watcher of every exchange. ``everything`` decodes all APIs, for stories and for reach."""

    def __init__(self, world: World, watcher: Watcher, *, everything: bool = False) -> None:
        self._world = world
        self._watcher = watcher
        self._watched = frozenset(APIS) if everything else WATCHED
        self._digest = hashlib.sha256()
        self._open: dict[int, deque[Exchange]] = {}
        self._gone: set[int] = set()
        """Links that have lost their client; their brokers may answer still."""

    def decode_also(self, *api_keys: int) -> None:
        """Decode these APIs too."""
        self._watched |= set(api_keys)

    def client_sent(self, link_id: int, client: str, data: bytes) -> None:
        """Hear that a client wrote whole requests."""
        self._note(link_id, data)
        for frame in _frames(data):
            header, at = parse_request_header(frame)
            api = APIS[header.api_key]
            exchange = Exchange(client, link_id, api, header.api_version, header.correlation_id, self._world.now_ms)
            if api.key in self._watched:
                exchange.asked = decode(api.request, header.api_version, frame, at)[0]
            self._open.setdefault(link_id, deque()).append(exchange)
            self._watcher.asked(exchange)

    def server_sent(self, link_id: int, data: bytes) -> None:
        """Hear that a broker wrote whole responses."""
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
            if link_id in self._gone:
                self._watcher.answered_nobody(exchange)
            else:
                self._watcher.answered(exchange)

    def _note(self, link_id: int, data: bytes) -> None:
        self._digest.update(_STAMP.pack(self._world.now_ms, link_id))
        self._digest.update(data)

    @property
    def digest(self) -> str:
        """A checksum of every byte that went over the wire, with its time and its link, in hexadecimal."""
        return self._digest.hexdigest()

    def link_gone(self, link_id: int) -> None:
        self._gone.add(link_id)

    def unanswered(self) -> Iterator[Exchange]:
        """Return the requests on standing links that wait for their answers."""
        for link_id, waiting in self._open.items():
            if link_id not in self._gone:
                yield from waiting


def frame_starts(data: bytes) -> Iterator[int]:
    """Yield where each of some whole frames begins, with its length."""
    at = 0
    while at < len(data):
        yield at
        at += _SIZE.size + _SIZE.unpack_from(data, at)[0]


def _frames(data: bytes) -> list[bytes]:
    """Return whole frames without their lengths; mostly there is one."""
    frames = []
    at, end, begin = 0, len(data), _SIZE.size
    while at < end:
        stop = at + begin + _SIZE.unpack_from(data, at)[0]
        frames.append(data[at + begin : stop])
        at = stop
    return frames

"""Broker with scripted responses, for client tests that need misbehavior.

It speaks the wire protocol with real bytes. A function per request class builds the response; other requests get the
response's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kohort.broker.io import Close, Connected, Disconnected, Input, Output, Received, Send
from kohort.errors import ErrorCode
from kohort.notes import debug
from kohort.wire.apis import API_VERSIONS, APIS, api_of
from kohort.wire.codec import decode
from kohort.wire.frames import FrameReader
from kohort.wire.headers import RequestHeader, build_response
from kohort.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from kohort.wire.schema import Message
from kohort_lab.machines.request_headers import parse_request_header

SILENCE: Final = object()
"""Send no response."""
HANG_UP: Final = object()
"""Close the connection instead of a response."""
Answer = Message | bytes | object
"""Response, raw bytes instead of a response, SILENCE or HANG_UP."""


@dataclass(slots=True)
class SeenRequest:
    header: RequestHeader
    request: Any
    connection: int


@dataclass(slots=True)
class _Peer:
    reader: FrameReader = field(default_factory=lambda: FrameReader(100 * 1024 * 1024))


class ScriptedBroker:
    def __init__(self) -> None:
        self.received: list[SeenRequest] = []
        self.wake_at_ms: int | None = None
        self.ranges: dict[int, tuple[int, int]] = {key: (api.low, api.high) for key, api in APIS.items()}
        """Supported version range by API key; other APIs are unknown to the broker."""
        self.features: dict[str, int] = {}
        """Finalized feature levels that the broker reports."""
        self._answers: dict[type[Message], Callable[[Any, int], Answer]] = {}
        self._peers: dict[int, _Peer] = {}

    def on(self, request: type[Message], answer: Callable[[Any, int], Answer]) -> None:
        self._answers[request] = answer

    def requests(self, kind: type[Message]) -> list[Any]:
        return [entry.request for entry in self.received if isinstance(entry.request, kind)]

    def handle(self, event: Input, now_ms: int) -> Sequence[Output]:
        del now_ms
        out: list[Output] = []
        match event:
            case Connected(number):
                self._peers[number] = _Peer()
            case Disconnected(number):
                self._peers.pop(number, None)
            case Received(number, data):
                peer = self._peers.get(number)
                for frame in peer.reader.feed(data) if peer is not None else ():
                    out += self._serve(number, bytes(frame))
        return out

    def _serve(self, number: int, frame: bytes) -> list[Output]:
        header, at = parse_request_header(frame)
        low, high = self.ranges.get(header.api_key, (0, -1))
        if header.api_key == API_VERSIONS and not low <= header.api_version <= high:
            self.received.append(SeenRequest(header, ApiVersionsRequest(), number))
            return [Send(number, build_response(header.correlation_id, self._refusal(), 0))]
        api = APIS[header.api_key]
        request = decode(api.request, header.api_version, frame, at)[0]
        self.received.append(SeenRequest(header, request, number))
        answer = self._answer(request, header.api_version)
        if answer is SILENCE:
            return []
        if answer is HANG_UP:
            return [Close(number, debug("as scripted"))]
        if isinstance(answer, bytes):
            return [Send(number, [answer])]
        assert isinstance(answer, Message)
        return [Send(number, build_response(header.correlation_id, answer, header.api_version))]

    def _answer(self, request: Message, version: int) -> Answer:
        scripted = self._answers.get(type(request))
        if scripted is not None:
            return scripted(request, version)
        if isinstance(request, ApiVersionsRequest):
            levels = [
                FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
                for name, level in self.features.items()
            ]
            return ApiVersionsResponse(api_keys=self._keys(), finalized_features=levels)
        return api_of(request).response()

    def _keys(self) -> list[ApiVersion]:
        return [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.ranges.items()]

    def _refusal(self) -> ApiVersionsResponse:
        """Answer an unsupported ApiVersions version with version 0, as Kafka does."""
        own = [key for key in self._keys() if key.api_key == API_VERSIONS]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)

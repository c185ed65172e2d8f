"""One connection to one broker: API versions, login, correlation ids, requests in flight and their deadlines.

A connection begins with ApiVersions at this client's highest version. A broker that does not know the version
answers UNSUPPORTED_VERSION in version 0, and the client repeats ApiVersions at the highest version that both know
(KIP-511, protocol/requests.md#apiversions). ApiVersions may name the expected node and cluster (KIP-1242). A broker
answers in the order of the requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from kohort.client.metrics.counts import NodeMetrics
from kohort.client.requests.io import CLOSED_BY_BROKER
from kohort.client.requests.login import BuiltRequest, ClientLogin, TokenChallenge
from kohort.client.requests.source import Unsent
from kohort.clock import Rng
from kohort.errors import ApiError, ErrorCode, KohortError, NotKafka, ProtocolError, UnsupportedVersion
from kohort.version import VERSION
from kohort.wire.apis import APIS, Api, api_of
from kohort.wire.buffers import Buffers
from kohort.wire.codec import Buffer, decode
from kohort.wire.frames import FrameReader
from kohort.wire.headers import RequestHeader, build_request, correlation_of, parse_response
from kohort.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.schema import Message

FIRST_BYTES: Final = 16
TLS_RECORDS: Final = frozenset({0x14, 0x15, 0x16, 0x17})
"""TLS record types ChangeCipherSpec, Alert, Handshake, ApplicationData (RFC 8446, section 5.1)."""
TLS_MAJOR: Final = 3
NO_BROKER: Final = "not a Kafka broker"
PROTOCOL_PREFIXES: Final = (
    (b"HTTP", "HTTP"),
    (b"<", "HTML"),
    (b"SSH-", "SSH"),
    (b"AMQP", "AMQP"),
    (b"-ERR", "Redis's protocol"),
    (b"220", "SMTP or FTP"),
)


def foreign_protocol(first: bytes) -> str | None:
    """Return an error message if the first bytes from a server show another protocol than Kafka's; else None.

    A Kafka broker's first response (to ApiVersions) is below 16 MB, so the first byte of its length is 0.
    """
    if len(first) > 1 and first[0] in TLS_RECORDS and first[1] == TLS_MAJOR:
        return "it answers in TLS: set security.protocol=SSL or SASL_SSL, or name a listener without TLS"
    for beginning, name in PROTOCOL_PREFIXES:
        if first.startswith(beginning):
            return f"it answers in {name}: {NO_BROKER}"
    return None


SCRATCH_BYTES: Final = 64 << 10
IN_PLACE_FROM: Final = 128 << 10
"""A response frame of this size in bytes or more is received into a separate buffer, without copying."""
IN_PLACE_MOST: Final = 64 << 20
"""Maximum size in bytes of the buffer for one response frame. It limits the memory that a wrong length reserves."""
KEPT_BYTES: Final = 48 << 20
"""Maximum size in bytes of the free buffers that a connection keeps for later response frames."""


class FrameBuffers:
    """Receive buffers of one connection. They split received bytes into whole frames.

    Joining the pieces of a large Fetch response copies megabytes three times. So once the length of a large frame is
    known, the socket reads into a buffer of that frame. Small frames are cut from a scratch buffer. A buffer is free
    again when the last view of it is deleted.
    """

    def __init__(self, max_bytes: int) -> None:
        self._reader = FrameReader(max_bytes)
        self._buffers = Buffers(KEPT_BYTES)
        self._scratch = bytearray(SCRATCH_BYTES)
        self._frame: memoryview | None = None
        self._filled = 0

    @property
    def is_begun(self) -> bool:
        return self._frame is not None or self._reader.pending_bytes > 0 or self._reader.missing_bytes > 0

    def room(self) -> memoryview:
        return memoryview(self._scratch) if self._frame is None else self._frame[self._filled :]

    def arrived(self, count: int) -> list[Buffer]:
        """Return the complete response frames after ``count`` new bytes. Raises ProtocolError for an invalid length."""
        if self._frame is None:
            frames: list[Buffer] = [*self._reader.feed(bytes(memoryview(self._scratch)[:count]))]
            self._reserve()
            return frames
        self._filled += count
        if self._filled < len(self._frame):
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def _reserve(self) -> None:
        size = self._reader.pending_bytes + self._reader.missing_bytes
        if self._reader.missing_bytes and IN_PLACE_FROM <= size <= IN_PLACE_MOST:
            begun = self._reader.take_begun()
            self._frame, self._filled = self._buffers.take(size), len(begun)
            self._frame[: self._filled] = begun


API_VERSIONS: Final = 18
NO_NODE: Final = -1
IN_FLIGHT_MAX: Final = 100
_ERROR_CODE_AT: Final = 4
WANTS_SASL: Final = "does this listener require a login (security.protocol=SASL_PLAINTEXT or SASL_SSL)?"
WRONG_NODE: Final = "another node has its address, or a proxy renumbers nodes (metadata.cluster.check.enable=false)"
OTHER_LISTENERS: Final = "(a listener with TLS or SASL, a proxy without its broker, or no Kafka broker at all)"


class ExpectedNode(NamedTuple):
    """Node id and cluster id of the broker that a connection must reach (KIP-1242)."""

    cluster_id: str
    node_id: int

    def __str__(self) -> str:
        return f"node {self.node_id} of cluster {self.cluster_id}"


class ConnectionState(Enum):
    CONNECTING = auto()
    HANDSHAKE = auto()
    LOGIN = auto()
    READY = auto()


@dataclass(slots=True, eq=False)
class PendingRequest:
    """Request in a connection's queue or in flight.

    ``tried``: ids of the nodes on which it failed so far, for a request that any node can serve.
    """

    unsent: Unsent
    source: int
    deadline_ms: int
    correlation_id: int = -1
    tried: frozenset[int] = frozenset()
    sent_at_ms: int = 0


@dataclass(slots=True)
class ClientResponse:
    """Request with its response or its error."""

    pending: PendingRequest
    response: Message | KohortError


class Connection:
    def __init__(
        self,
        connection_id: int,
        address: tuple[str, int],
        *,
        client_id: str,
        max_bytes: int,
        deadline_ms: int,
        request_timeout_ms: int = 30_000,
    ) -> None:
        self.id = connection_id
        self.host, self.port = address
        self.state = ConnectionState.CONNECTING
        self.deadline_ms = deadline_ms
        self.broken: KohortError | None = None
        self.last_used_ms = 0
        self.muted_until_ms = 0
        self.queue: deque[PendingRequest] = deque()
        self.in_flight: deque[PendingRequest] = deque()
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._buffers = FrameBuffers(max_bytes)
        self._frames: list[Buffer] = []
        self._first_bytes = b""
        self._correlation_id = 0
        self._handshake_version = APIS[API_VERSIONS].high
        self._handshakes = 0
        self.features: dict[str, int] = {}
        """Finalized level of each feature of the cluster (KIP-584)."""
        self._served: dict[int, tuple[int, int]] = {}
        self._login: ClientLogin | None = None
        self._expected: ExpectedNode | None = None
        self._was_answered = False
        self.node_id = NO_NODE
        self._metrics: NodeMetrics | None = None

    def assign_node(self, node_id: int, metrics: NodeMetrics) -> None:
        """Count the connection's traffic in the metrics of this node.

        Call it before the connection opens, and again when metadata name the node.
        """
        self.node_id, self._metrics = node_id, metrics

    def require_login(self, mechanism: str, identity: str, rng: Rng) -> None:
        """Require a login before other requests, and a renewal of the login before its session expires.

        Call it before the connection opens. ``identity`` names the user in error messages.
        """
        self._login = ClientLogin(mechanism, identity, rng, self._build)

    def expect_node(self, cluster_id: str, node_id: int) -> None:
        """Send this node id in ApiVersions: any other node answers with REBOOTSTRAP_REQUIRED (KIP-1242)."""
        self._expected = ExpectedNode(cluster_id, node_id)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def load(self) -> int:
        return len(self.queue) + len(self.in_flight)

    def opened(self, now_ms: int) -> list[Buffer]:
        self.state = ConnectionState.HANDSHAKE
        self.last_used_ms = now_ms
        return self._request_versions()

    def received(self, data: bytes, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        """Process received bytes; return the bytes to write next, and the complete responses.

        Sets ``broken`` if the bytes are no responses to the requests in flight.
        """
        rest = memoryview(data)
        while rest and self.broken is None:
            room = self.room()[: len(rest)]
            room[:] = rest[: len(room)]
            self.arrived(len(room))
            rest = rest[len(room) :]
        return self.take_frames(now_ms)

    def room(self) -> memoryview:
        """Return the buffer into which the socket reads its next bytes."""
        return self._buffers.room()

    def arrived(self, count: int) -> bool:
        """Process ``count`` bytes that were read into ``room()``; return True if ``take_frames`` has work."""
        if self.state is ConnectionState.HANDSHAKE and len(self._first_bytes) < FIRST_BYTES:
            self._first_bytes = (self._first_bytes + bytes(self.room()[:count]))[:FIRST_BYTES]
            protocol = foreign_protocol(self._first_bytes)
            if protocol is not None:
                self.broken = NotKafka(protocol)
                return True
        try:
            self._frames += self._buffers.arrived(count)
        except ProtocolError as error:
            self.broken = error
        return bool(self._frames) or self.broken is not None or self._is_receiving_response

    def take_frames(self, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        self.last_used_ms = now_ms
        out: list[Buffer] = []
        answers: list[ClientResponse] = []
        frames, self._frames = self._frames, []
        was = self.state
        try:
            for frame in frames:
                if self.state is ConnectionState.HANDSHAKE:
                    out += self._on_versions(bytes(frame))
                elif self._login is not None and self._login.is_in_progress and not self.in_flight:
                    self._login.answered(bytes(frame), now_ms)
                else:
                    answers.append(self._pair(frame, now_ms))
        except KohortError as error:
            self.broken = error
        if self.state is not was:
            # the deadline limits the login; a ready connection ignores the deadline
            self.deadline_ms = now_ms + self._request_timeout_ms
        if self._is_receiving_response:
            self._limit_rest(self.in_flight[0], now_ms)
        return out, answers

    @property
    def _is_receiving_response(self) -> bool:
        """True if a response is arriving for a request that has a longer timeout than request.timeout.ms."""
        has_longer_timeout = bool(self.in_flight) and self.in_flight[0].unsent.timeout_ms > self._request_timeout_ms
        return has_longer_timeout and self._buffers.is_begun

    def _limit_rest(self, pending: PendingRequest, now_ms: int) -> None:
        """Expect the last byte of a response within request.timeout.ms of its first byte.

        The response to a JoinGroup may begin after minutes, but must then arrive quickly. In Kafka's client a corrupted
        length delays the response for max.poll.interval.ms.
        """
        pending.unsent.timeout_ms = self._request_timeout_ms
        pending.deadline_ms = min(pending.deadline_ms, now_ms + self._request_timeout_ms)

    def take_challenge(self) -> TokenChallenge | None:
        return None if self._login is None else self._login.take_challenge()

    def token(self, token: bytes | KohortError | None, identity: str, now_ms: int) -> list[Buffer]:
        """Continue the login with a SASL token (None: the login is complete); return the bytes to write.

        An error in place of the token sets ``broken``. ``identity`` names the user in error messages.
        """
        assert self._login is not None, "this connection has no login"
        self.last_used_ms = now_ms
        self._login.identity = identity or self._login.identity
        if isinstance(token, KohortError):
            self.broken = self._login.failed(token)
            return []
        try:
            out = self._login.token(token)
        except KohortError as error:
            self.broken = error
            return []
        if self.state is ConnectionState.LOGIN and not self._login.is_in_progress:
            self.state = ConnectionState.READY
        return out

    def write_queued(self, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        """Encode queued requests. Return the bytes, and the results of requests that fail or expect no response."""
        out: list[Buffer] = []
        answers: list[ClientResponse] = []
        if self.state is not ConnectionState.READY or self.muted_until_ms > now_ms:
            return out, answers
        if self._login is not None and not self._may_write(self._login, out, now_ms):
            return out, answers
        while self.queue and len(self.in_flight) < IN_FLIGHT_MAX:
            pending = self.queue.popleft()
            try:
                encoded = self._encode(pending)
            except KohortError as error:
                answers.append(ClientResponse(pending, error))
                continue
            out += encoded
            if self._metrics is not None:
                self._metrics.request_sent(type(pending.unsent.request), sum(map(len, encoded)), now_ms)
            self.last_used_ms = pending.sent_at_ms = now_ms
            if pending.unsent.expect_response:
                self.in_flight.append(pending)
            else:
                answers.append(ClientResponse(pending, api_of(pending.unsent.request).response()))
        return out, answers

    def _may_write(self, login: ClientLogin, out: list[Buffer], now_ms: int) -> bool:
        """Return True if requests may be written. If the login session expires soon, start its renewal (KIP-368).

        Queued requests wait for the renewal. The broker answers requests in flight before the renewal.
        """
        if not login.is_in_progress and login.is_due(now_ms):
            out += login.begin()
            self.deadline_ms = now_ms + self._request_timeout_ms
        return not login.is_in_progress

    @property
    def is_unready(self) -> bool:
        """True before the connection is ready, and during the renewal of its login.

        Connecting and renewal both time out at ``deadline_ms``.
        """
        return self.state is not ConnectionState.READY or (self._login is not None and self._login.is_in_progress)

    def take_overdue(self, now_ms: int) -> PendingRequest | None:
        """Remove and return the oldest request in flight whose deadline has passed."""
        overdue = next((pending for pending in self.in_flight if pending.deadline_ms <= now_ms), None)
        if overdue is not None:
            self.in_flight.remove(overdue)
        return overdue

    @property
    def awaited(self) -> str:
        return f"the rest of an answer of {self.address}" if self._buffers.is_begun else self.address

    def pending(self) -> Iterator[PendingRequest]:
        yield from self.in_flight
        yield from self.queue

    def unfinished(self, waited_ms: int) -> str:
        if self.state is ConnectionState.CONNECTING:
            return f"no connection within {waited_ms} ms"
        if self._login is not None and self._login.is_in_progress:
            return f"{self._login.unfinished()} in time"
        return f"connected, but ApiVersions was not answered within {waited_ms} ms {OTHER_LISTENERS}"

    def ended(self, reason: str) -> str:
        if self.state is ConnectionState.HANDSHAKE:
            return f"{reason} before it had answered ApiVersions {OTHER_LISTENERS}"
        if self._login is not None and self._login.is_in_progress:
            return f"{reason} during the login: {self._login.unfinished()}"
        if reason == CLOSED_BY_BROKER and self._login is None and self.in_flight and not self._was_answered:
            return f"{reason} right after ApiVersions: {WANTS_SASL}"
        return reason

    def next_deadline_ms(self, now_ms: int, idle_ms: int) -> int | None:
        times = [p.deadline_ms for p in self.pending()]
        if self.is_unready:
            times.append(self.deadline_ms)
        elif not times and idle_ms >= 0:
            times.append(self.last_used_ms + idle_ms)
        if self.queue and self.muted_until_ms > now_ms:
            times.append(self.muted_until_ms)
        return min(times, default=None)

    def _request_versions(self) -> list[Buffer]:
        self._handshakes += 1
        self._correlation_id += 1
        header = RequestHeader(API_VERSIONS, self._handshake_version, self._correlation_id, self._client_id)
        cluster_id, node_id = (None, NO_NODE) if self._expected is None else self._expected
        request = ApiVersionsRequest(
            client_software_name="kohort", client_software_version=VERSION, cluster_id=cluster_id, node_id=node_id
        )
        return build_request(header, request)

    def _on_versions(self, frame: bytes) -> list[Buffer]:
        if correlation_of(frame) != self._correlation_id:
            ids = f"{correlation_of(frame)}, expected {self._correlation_id}"
            raise ProtocolError(f"the response has correlation id {ids}", "ApiVersions")
        refused = int.from_bytes(frame[_ERROR_CODE_AT : _ERROR_CODE_AT + 2], "big", signed=True)
        if refused == ErrorCode.UNSUPPORTED_VERSION and self._handshake_version > 0:
            return self._downgrade(frame)
        response = decode(ApiVersionsResponse, self._handshake_version, frame, _ERROR_CODE_AT)[0]
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._expected is not None:
            raise ApiError(ErrorCode.REBOOTSTRAP_REQUIRED, f"the broker is not {self._expected}: {WRONG_NODE}")
        if response.error_code:
            raise ProtocolError(f"the broker returned error code {response.error_code}", "ApiVersions")
        self._served = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        self.features = {f.name: f.max_version_level for f in response.finalized_features}
        if self._login is None:
            self.state = ConnectionState.READY
            return []
        self.state = ConnectionState.LOGIN
        return self._login.begin()

    def _build(self, request: Message) -> BuiltRequest:
        api = api_of(request)
        version = self.version_for(api)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(api.key, version, self._correlation_id, self._client_id)
        return BuiltRequest(build_request(header, request), version, self._correlation_id)

    def _downgrade(self, frame: bytes) -> list[Buffer]:
        response = decode(ApiVersionsResponse, 0, frame, _ERROR_CODE_AT)[0]
        highest = next((k.max_version for k in response.api_keys if k.api_key == API_VERSIONS), 0)
        self._handshake_version = max(0, min(highest, self._handshake_version - 1))
        return self._request_versions()

    def _pair(self, frame: Buffer, now_ms: int) -> ClientResponse:
        if not self.in_flight:
            raise ProtocolError(
                f"the broker sent a response without a request (correlation id {correlation_of(frame)})"
            )
        pending = self.in_flight[0]
        if type(pending.unsent.request) is not FetchRequest:
            # Values of other responses are kept after the buffer is reused. Only records of a Fetch are read in place.
            frame = bytes(frame)
        if correlation_of(frame) != pending.correlation_id:
            raise ProtocolError(
                f"the response has correlation id {correlation_of(frame)}, expected {pending.correlation_id}",
                self._response_name(pending),
            )
        try:
            _, response = parse_response(frame, api_of(pending.unsent.request).response, pending.unsent.version)
        except ProtocolError as error:
            raise ProtocolError(str(error), self._response_name(pending)) from error
        self.in_flight.popleft()
        self._was_answered = True
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.muted_until_ms = max(self.muted_until_ms, now_ms + throttle_ms)
        if self._metrics is not None:
            api, waited_ms = type(pending.unsent.request), now_ms - pending.sent_at_ms
            code = getattr(response, "error_code", 0)
            self._metrics.response_received(api, len(frame), waited_ms, now_ms, code=code, throttle_ms=throttle_ms)
        return ClientResponse(pending, response)

    def _response_name(self, pending: PendingRequest) -> str:
        return f"{api_of(pending.unsent.request).name} v{pending.unsent.version} response from {self.address}"

    def _encode(self, pending: PendingRequest) -> list[Buffer]:
        unsent = pending.unsent
        api = api_of(unsent.request)
        unsent.version = self.version_for(api, unsent.max_version)
        request = unsent.shape(unsent.request, unsent.version) if unsent.shape else unsent.request
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        pending.correlation_id = self._correlation_id
        return build_request(RequestHeader(api.key, unsent.version, self._correlation_id, self._client_id), request)

    def version_for(self, api: Api, cap: int | None = None) -> int:
        """Return the highest version of an API that client and broker support. Raises UnsupportedVersion if none."""
        served = self._served.get(api.key)
        if served is None:
            raise UnsupportedVersion(f"the broker at {self.address} does not serve {api.name}")
        highest = api.high if cap is None else min(cap, api.high)
        high = min(served[1], highest)
        if max(served[0], api.low) > high:
            ours = f"this client needs {api.low} to {highest}"
            theirs = f"the broker at {self.address} serves {api.name} versions {served[0]} to {served[1]}"
            raise UnsupportedVersion(f"{theirs}, {ours}")
        return high

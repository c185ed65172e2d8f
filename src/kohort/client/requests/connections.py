"""One connection to one broker: handshake, login, versions, correlation ids, requests under way and their deadlines.

Every connection begins with ApiVersions at the highest version this side has. A broker that does not know it answers
UNSUPPORTED_VERSION in the form of version 0, and the question is put again at a version that both speak (KIP-511,
protocol/requests.md#apiversions). The question may say which node of which cluster is meant (KIP-1242). A broker
answers in the order it was asked, so responses are paired first in, first out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from kohort.client.metrics.counts import Answer, NodeMetrics
from kohort.client.requests.io import CLOSED_BY_BROKER
from kohort.client.requests.login import Asked, ClientLogin, Wanted
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
"""ChangeCipherSpec, Alert, Handshake, ApplicationData (RFC 8446, section 5.1)."""
TLS_MAJOR: Final = 3
NO_BROKER: Final = "this is no Kafka broker"
BEGINNINGS: Final = (
    (b"HTTP", "HTTP"),
    (b"<", "HTML"),
    (b"SSH-", "SSH"),
    (b"AMQP", "AMQP"),
    (b"-ERR", "Redis's protocol"),
    (b"220", "SMTP or FTP"),
)


def stranger(first: bytes) -> str | None:
    """Return the protocol that begins with these bytes, as an error message; None for a broker or an unknown protocol.

    The first answer of a broker is one to ApiVersions, below 16 MB: the first byte of its length is 0.
    """
    if len(first) > 1 and first[0] in TLS_RECORDS and first[1] == TLS_MAJOR:
        return "it answers in TLS: set security.protocol=SSL or SASL_SSL, or name a listener without TLS"
    for beginning, name in BEGINNINGS:
        if first.startswith(beginning):
            return f"it answers in {name}: {NO_BROKER}"
    return None


SCRATCH_BYTES: Final = 64 << 10
IN_PLACE_FROM: Final = 128 << 10
"""Frames from this size on get a buffer of their own."""
IN_PLACE_MOST: Final = 64 << 20
"""Larger frames are gathered as they come: nothing of this size is set aside for what a length merely promises."""
KEPT_BYTES: Final = 48 << 20
"""How much one connection keeps for frames to come."""


class FrameBuffers:
    """Buffers that the socket of one connection is read into; they return whole frames.

    A Fetch brings megabytes. Pieces that are gathered and joined are copied three times, each time into memory that the
    system clears first. So once the length of a large frame is known, the socket is read into the frame's own buffer.
    Small frames are cut from a scratch buffer. A buffer is free again when the last view of it is gone.
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
        """Return the frames that are whole now that ``count`` bytes were written. Raises ProtocolError for a length
        below zero or above the limit."""
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
"""Requests written and not answered, per connection; sources bound themselves further where they must."""
_ERROR_CODE_AT: Final = 4
WANTS_SASL: Final = "does this listener want a login (security.protocol=SASL_PLAINTEXT or SASL_SSL)?"
WHOSE_NODE: Final = "its address is another's by now, or a proxy renumbers nodes (metadata.cluster.check.enable=false)"
WHO_ELSE: Final = "(a listener with TLS or SASL, a proxy without its broker, or no Kafka broker at all)"


class MeantNode(NamedTuple):
    """The node of the cluster that a connection is for."""

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
    """A request on its way: queued, then in flight. ``tried`` are the addresses that failed it (ANY_NODE only)."""

    unsent: Unsent
    source: int
    deadline_ms: int
    correlation_id: int = -1
    tried: frozenset[int] = frozenset()
    sent_at_ms: int = 0


@dataclass(slots=True)
class ClientResponse:
    """A response and the request it belongs to, or the error that stands for it."""

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
        self._first = b""
        """How the other side began, as far as it is needed to tell who it is."""
        self._correlation_id = 0
        self._handshake_version = APIS[API_VERSIONS].high
        self._handshakes = 0
        self.features: dict[str, int] = {}
        """What the cluster has agreed on: levels by the names of features (KIP-584)."""
        self._served: dict[int, tuple[int, int]] = {}
        self._login: ClientLogin | None = None
        self._meant: MeantNode | None = None
        self._was_answered = False
        self.node_id = NO_NODE
        self._metrics: NodeMetrics | None = None

    def belong(self, node_id: int, metrics: NodeMetrics) -> None:
        """Count traffic for this node. Call before the connection opens, and again when the node gets a name."""
        self.node_id, self._metrics = node_id, metrics

    def log_in(self, mechanism: str, who: str, rng: Rng) -> None:
        """Have it log in before it is READY, and again when the session ends. Before it is opened; ``who`` is for
        errors."""
        self._login = ClientLogin(mechanism, who, rng, self._ask)

    def mean(self, cluster_id: str, node_id: int) -> None:
        """Fail with REBOOTSTRAP_REQUIRED if another node answers. Call before the connection opens."""
        self._meant = MeantNode(cluster_id, node_id)

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def load(self) -> int:
        return len(self.queue) + len(self.in_flight)

    def opened(self, now_ms: int) -> list[Buffer]:
        self.state = ConnectionState.HANDSHAKE
        self.last_used_ms = now_ms
        return self._ask_versions()

    def received(self, data: bytes, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        """Take bytes; returns what to write (a second handshake) and the answers found.

        ``broken`` is set if the bytes are not responses to what was asked: the connection is then of no use.
        """
        rest = memoryview(data)
        while rest and self.broken is None:
            room = self.room()[: len(rest)]
            room[:] = rest[: len(room)]
            self.arrived(len(room))
            rest = rest[len(room) :]
        return self.take_frames(now_ms)

    def room(self) -> memoryview:
        """Return where the next bytes are to be written, for who reads a socket in place instead of calling
        ``received``."""
        return self._buffers.room()

    def arrived(self, count: int) -> bool:
        """Note that so many bytes were written there; tell whether ``take_frames`` has anything to do now."""
        if self.state is ConnectionState.HANDSHAKE and len(self._first) < FIRST_BYTES:
            self._first = (self._first + bytes(self.room()[:count]))[:FIRST_BYTES]
            who = stranger(self._first)
            if who is not None:
                self.broken = NotKafka(who)
                return True
        try:
            self._frames += self._buffers.arrived(count)
        except ProtocolError as error:
            self.broken = error
        return bool(self._frames) or self.broken is not None or self._is_within_answer

    def take_frames(self, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        self.last_used_ms = now_ms
        out: list[Buffer] = []
        answers: list[ClientResponse] = []
        frames, self._frames = self._frames, []
        was = self.state
        try:
            for frame in frames:
                if self.state is ConnectionState.HANDSHAKE:
                    out += self._shake(bytes(frame))
                elif self._login is not None and self._login.is_under_way and not self.in_flight:
                    self._login.answered(bytes(frame), now_ms)
                else:
                    answers.append(self._pair(frame, now_ms))
        except KohortError as error:
            self.broken = error
        if self.state is not was:
            self.deadline_ms = now_ms + self._request_timeout_ms  # for the login; who is READY has none
        if self._is_within_answer:
            self._hurry(self.in_flight[0], now_ms)
        return out, answers

    @property
    def _is_within_answer(self) -> bool:
        """Whether an answer has begun, and its request would wait for the rest longer than others wait at all."""
        return (
            bool(self.in_flight)
            and self.in_flight[0].unsent.timeout_ms > self._request_timeout_ms
            and self._buffers.is_begun
        )

    def _hurry(self, pending: PendingRequest, now_ms: int) -> None:
        """Give the rest of an answer that has begun request.timeout.ms.

        A JoinGroup may wait for a rebalance, of many minutes; nobody waits in the middle of an answer. Kafka's client
        does: a length that something on the way has made wrong holds it for max.poll.interval.ms.
        """
        pending.unsent.timeout_ms = self._request_timeout_ms
        pending.deadline_ms = min(pending.deadline_ms, now_ms + self._request_timeout_ms)

    def take_wanted(self) -> Wanted | None:
        """Return the token request of the login, once; answer it with ``token``."""
        return None if self._login is None else self._login.take_wanted()

    def token(self, given: bytes | KohortError | None, who: str, now_ms: int) -> list[Buffer]:
        """Go on with the login of ``who`` (for errors); None: it is complete. Returns what to write.

        ``broken`` is set by an error: the token cannot be had, or the broker does not prove itself.
        """
        assert self._login is not None, "no token was wanted"
        self.last_used_ms = now_ms
        self._login.who = who or self._login.who
        if isinstance(given, KohortError):
            self.broken = self._login.failed(given)
            return []
        try:
            out = self._login.token(given)
        except KohortError as error:
            self.broken = error
            return []
        if self.state is ConnectionState.LOGIN and not self._login.is_under_way:
            self.state = ConnectionState.READY
        return out

    def write_queued(self, now_ms: int) -> tuple[list[Buffer], list[ClientResponse]]:
        """Return the bytes of queued requests that may go now, and answers for those that cannot or need not wait for
        one."""
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
                self._metrics.asked(type(pending.unsent.request), sum(map(len, encoded)), now_ms)
            self.last_used_ms = pending.sent_at_ms = now_ms
            if pending.unsent.expect_response:
                self.in_flight.append(pending)
            else:
                answers.append(ClientResponse(pending, api_of(pending.unsent.request).response()))
        return out, answers

    def _may_write(self, login: ClientLogin, out: list[Buffer], now_ms: int) -> bool:
        """Tell whether requests may be written; begin to renew the session where that is due: they wait meanwhile, and
        what is in flight is answered before it (KIP-368)."""
        if not login.is_under_way and login.is_due(now_ms):
            out += login.begin()
            self.deadline_ms = now_ms + self._request_timeout_ms
        return not login.is_under_way

    @property
    def is_unready(self) -> bool:
        """True until READY, and during a renewal of the session: both end at ``deadline_ms``."""
        return self.state is not ConnectionState.READY or (self._login is not None and self._login.is_under_way)

    def take_overdue(self, now_ms: int) -> PendingRequest | None:
        """Remove a timed-out request in flight. Answers come in order, so the connection is stuck then."""
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
        if self._login is not None and self._login.is_under_way:
            return f"{self._login.unfinished()} in time"
        return f"connected, but ApiVersions was not answered within {waited_ms} ms {WHO_ELSE}"

    def ended(self, reason: str) -> str:
        if self.state is ConnectionState.HANDSHAKE:
            return f"{reason} before it had answered ApiVersions {WHO_ELSE}"
        if self._login is not None and self._login.is_under_way:
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

    def _ask_versions(self) -> list[Buffer]:
        self._handshakes += 1
        self._correlation_id += 1
        header = RequestHeader(API_VERSIONS, self._handshake_version, self._correlation_id, self._client_id)
        cluster_id, node_id = (None, NO_NODE) if self._meant is None else self._meant
        request = ApiVersionsRequest(
            client_software_name="kohort", client_software_version=VERSION, cluster_id=cluster_id, node_id=node_id
        )
        return build_request(header, request)

    def _shake(self, frame: bytes) -> list[Buffer]:
        if correlation_of(frame) != self._correlation_id:
            raise ProtocolError(f"response {correlation_of(frame)} to request {self._correlation_id}", "ApiVersions")
        refused = int.from_bytes(frame[_ERROR_CODE_AT : _ERROR_CODE_AT + 2], "big", signed=True)
        if refused == ErrorCode.UNSUPPORTED_VERSION and self._handshake_version > 0:
            return self._downgrade(frame)
        response = decode(ApiVersionsResponse, self._handshake_version, frame, _ERROR_CODE_AT)[0]
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._meant is not None:
            raise ApiError(ErrorCode.REBOOTSTRAP_REQUIRED, f"it is not {self._meant}: {WHOSE_NODE}")
        if response.error_code:
            raise ProtocolError(f"the broker answers error code {response.error_code}", "ApiVersions")
        self._served = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
        self.features = {f.name: f.max_version_level for f in response.finalized_features}
        if self._login is None:
            self.state = ConnectionState.READY
            return []
        self.state = ConnectionState.LOGIN
        return self._login.begin()

    def _ask(self, request: Message) -> Asked:
        api = api_of(request)
        version = self.version_for(api)
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(api.key, version, self._correlation_id, self._client_id)
        return Asked(build_request(header, request), version, self._correlation_id)

    def _downgrade(self, frame: bytes) -> list[Buffer]:
        response = decode(ApiVersionsResponse, 0, frame, _ERROR_CODE_AT)[0]
        highest = next((k.max_version for k in response.api_keys if k.api_key == API_VERSIONS), 0)
        self._handshake_version = max(0, min(highest, self._handshake_version - 1))
        return self._ask_versions()

    def _pair(self, frame: Buffer, now_ms: int) -> ClientResponse:
        if not self.in_flight:
            raise ProtocolError(f"a response (correlation id {correlation_of(frame)}) to no request")
        pending = self.in_flight[0]
        if type(pending.unsent.request) is not FetchRequest:
            frame = bytes(frame)  # only a Fetch's records are looked at in place; others' bytes are kept
        if correlation_of(frame) != pending.correlation_id:
            wrong = f"correlation id {correlation_of(frame)}, expected {pending.correlation_id}"
            raise ProtocolError(wrong, self._what_answers(pending))
        try:
            _, response = parse_response(frame, api_of(pending.unsent.request).response, pending.unsent.version)
        except ProtocolError as error:
            raise ProtocolError(str(error), self._what_answers(pending)) from error
        self.in_flight.popleft()
        self._was_answered = True
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self.muted_until_ms = max(self.muted_until_ms, now_ms + throttle_ms)
        if self._metrics is not None:
            code = getattr(response, "error_code", 0)
            answer = Answer(len(frame), now_ms - pending.sent_at_ms, code, max(throttle_ms, 0))
            self._metrics.answered(type(pending.unsent.request), answer, now_ms)
        return ClientResponse(pending, response)

    def _what_answers(self, pending: PendingRequest) -> str:
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
        """Return the highest version that both sides speak. Raises UnsupportedVersion if there is none."""
        served = self._served.get(api.key)
        if served is None:
            raise UnsupportedVersion(f"the broker at {self.address} does not serve {api.name}")
        low, high = max(served[0], api.low), min(served[1], api.high)
        if cap is not None:
            high = min(high, cap)
        if low > high:
            raise UnsupportedVersion(
                f"the broker at {self.address} serves {api.name} {served[0]} to {served[1]}, "
                f"this client needs {api.low} to {api.high if cap is None else min(cap, api.high)}"
            )
        return high

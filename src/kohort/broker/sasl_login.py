"""SASL login of a connection, and its renewal (protocol/security.md#logins, KIP-43, KIP-152, KIP-368).

``security/sasl`` verifies the tokens. This module checks the order of requests, delays failures, and expires logins.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final, TypeVar

from kohort.broker.apis.sasl import HANDSHAKE
from kohort.broker.connections.connection import Login, LoginStep
from kohort.broker.dispatch import HEADER, SERVED, dispatch
from kohort.broker.login_mechanisms import Offer
from kohort.broker.request import Caller, CloseConnection, ReplyTo
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode, ProtocolError
from kohort.notes import Note, info
from kohort.security.acls import Principal, user
from kohort.security.sasl.exchange import KeysMissing, LoggedInAs, Refused, ServerExchange
from kohort.wire.apis import API_VERSIONS, APIS
from kohort.wire.codec import Buffer, decode
from kohort.wire.headers import build_response, client_id_of, skip_tags
from kohort.wire.messages import sasl as wire
from kohort.wire.messages.api_versions import ApiVersionsResponse
from kohort.wire.schema import Message

AUTHENTICATE: Final = 36
HANDSHAKE_KEY: Final = HANDSHAKE.to_bytes(2, "big")
LEAST_APART_MS: Final = 1_000
KEYS_WAIT_MS: Final = 10_000

M = TypeVar("M", bound=Message)

_length = struct.Struct(">i")
KIND_MOST_CHARS: Final = 300
"""Maximum characters of user and reason by which the server log recognizes repeated failed logins."""


class LoginPhase(Enum):
    """Phase of a SASL login: the request that is expected next."""

    BEGINNING = "ApiVersions or SaslHandshake"
    VERSIONS_SENT = "SaslHandshake"
    REQUESTS = "tokens in SaslAuthenticate"
    RAW = "tokens as frames of their own"
    COMPLETE = "nothing"


class SaslLogin(Login):
    def __init__(self, state: BrokerState, caller: Caller, connection: int) -> None:
        self._state = state
        self._caller = caller
        self._connection = connection
        self._offers = state.logins.by_listener[caller.listener].mechanisms
        self.max_frame_bytes = state.logins.by_listener[caller.listener].max_frame_bytes
        self.awaits_keys = False
        self._phase = LoginPhase.BEGINNING
        self._mechanism = ""
        self._offer: Offer | None = None
        self._exchange: ServerExchange | None = None
        self._held: tuple[Sequence[Buffer], Note] | None = None
        """Delayed response to a failed login, and the log line about the failure."""
        self._parked: tuple[bytes, ReplyTo | None, int] | None = None
        """OAUTHBEARER token that waits for keys, its request, and its deadline in ms."""
        self._principal: Principal | None = None
        self._expires_ms: int | None = None
        self._renewed_ms: int | None = None

    def takes(self, frame: bytes | bytearray, now_ms: int) -> bool:
        if self._phase is not LoginPhase.COMPLETE:
            return True
        if self._expires_ms is None:
            return False
        return now_ms >= self._expires_ms or self._starts_relogin(frame, now_ms)

    def step(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        try:
            match self._phase:
                case LoginPhase.RAW:
                    return self._judge(bytes(frame), None, now_ms)
                case LoginPhase.REQUESTS:
                    return self._token_request(frame, now_ms)
                case LoginPhase.COMPLETE:
                    if not self._starts_relogin(frame, now_ms):
                        return LoginStep(closing=info("the SASL login of the connection has expired", "expired"))
                    self._renewed_ms = now_ms
                    self._phase = LoginPhase.VERSIONS_SENT
            return self._before_tokens(frame, now_ms)
        except CloseConnection as close:
            return self._closed(close.note.text)
        except ProtocolError as error:
            return self._closed(f"malformed request during the login: {error}")

    def resume(self, now_ms: int) -> LoginStep | None:
        if self._held is not None:
            (buffers, why), self._held = self._held, None
            return LoginStep(buffers, closing=why)
        if self._parked is None:
            return None
        token, reply_to, until_ms = self._parked
        if now_ms < until_ms:
            return self._judge(token, reply_to, now_ms, until_ms)
        self._parked, self.awaits_keys = None, False
        return self._refused(Refused(detail="the keys that verify the token were not fetched in time"), reply_to)

    # ------------------------------------------------------------ handshake

    def _starts_relogin(self, frame: bytes | bytearray, now_ms: int) -> bool:
        if frame[:2] != HANDSHAKE_KEY:
            return False
        return self._renewed_ms is None or now_ms - self._renewed_ms >= LEAST_APART_MS

    def _before_tokens(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        if len(frame) < HEADER.size:
            return self._closed(f"a request of {len(frame)} bytes is too short for its header")
        key, version, correlation_id = HEADER.unpack_from(frame)
        if key == API_VERSIONS and self._phase is LoginPhase.BEGINNING:
            return self._send_versions(frame, now_ms)
        if key != HANDSHAKE or not APIS[HANDSHAKE].serves(version):
            name = f"{APIS[key].name} version {version}" if key in APIS else f"API {key}"
            return self._closed(f"{name} before the SASL login that this listener requires")
        reply_to = ReplyTo(self._connection, correlation_id, key, version)
        message = self._decoded(wire.SaslHandshakeRequest, frame, version)
        offer = self._offers.get(message.mechanism)
        if offer is None:
            text = f"Unsupported SASL mechanism {message.mechanism}, enabled are {', '.join(self._offers)}"
            return self._fail(self._built(reply_to, self._handshake(ErrorCode.UNSUPPORTED_SASL_MECHANISM)), text)
        if self._principal is not None and message.mechanism != self._mechanism:
            return self._closed(f"re-authentication by {message.mechanism}, expected {self._mechanism} as before")
        self._mechanism, self._offer = message.mechanism, offer
        self._exchange = offer.begin()
        self._phase = LoginPhase.REQUESTS if version else LoginPhase.RAW
        return LoginStep(self._built(reply_to, self._handshake(ErrorCode.NONE)))

    def _send_versions(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        reply_to, answer = dispatch(self._state, self._connection, self._caller, frame, now_ms)
        if not isinstance(answer, Message):
            return self._closed("ApiVersions request is too large before the login")
        if isinstance(answer, ApiVersionsResponse) and answer.error_code == ErrorCode.NONE:
            self._phase = LoginPhase.VERSIONS_SENT
        return LoginStep(self._built(reply_to, answer))

    def _handshake(self, code: ErrorCode) -> wire.SaslHandshakeResponse:
        return wire.SaslHandshakeResponse(error_code=code, mechanisms=list(self._offers))

    # ------------------------------------------------------------ tokens of SASL mechanisms

    def _token_request(self, frame: bytes | bytearray, now_ms: int) -> LoginStep:
        if len(frame) < HEADER.size:
            return self._closed(f"a request of {len(frame)} bytes is too short for its header")
        key, version, correlation_id = HEADER.unpack_from(frame)
        api = self._state.apis.get(key)
        if api is None or not api.serves(version):
            return self._closed(f"API {key} version {version} during the login")
        reply_to = ReplyTo(self._connection, correlation_id, key, version)
        if key != AUTHENTICATE:
            return self._fail(self._illegal(reply_to), f"{api.name} during the login")
        message = self._decoded(wire.SaslAuthenticateRequest, frame, version)
        return self._judge(bytes(message.auth_bytes), reply_to, now_ms)

    def _judge(self, token: bytes, reply_to: ReplyTo | None, now_ms: int, until_ms: int | None = None) -> LoginStep:
        """Verify an OAUTHBEARER token; ``until_ms``: end of the token's wait for signing keys, if any."""
        assert self._exchange is not None
        self._parked, self.awaits_keys = None, False
        try:
            answer = self._exchange.evaluate(token, now_ms)
        except KeysMissing:
            until_ms = now_ms + KEYS_WAIT_MS if until_ms is None else until_ms
            self._parked, self.awaits_keys = (token, reply_to, until_ms), True
            return LoginStep(wait_ms=until_ms - now_ms)
        except Refused as refused:
            return self._refused(refused, reply_to)
        if self._exchange.user is None:
            return LoginStep(self._token_answer(reply_to, answer, 0))
        return self._complete(self._exchange.user, answer, reply_to, now_ms)

    def _complete(self, who: LoggedInAs, token: bytes, reply_to: ReplyTo | None, now_ms: int) -> LoginStep:
        assert self._offer is not None
        principal = user(who.name)
        if self._principal is not None and principal != self._principal:
            before = f"{self._principal.type}.{self._principal.name}"
            text = f"Cannot change principals during re-authentication from {before}: {principal.type}.{principal.name}"
            return self._refused(Refused(text), reply_to)
        limits = [] if who.expires_ms is None else [max(who.expires_ms - now_ms, 0)]
        if self._offer.max_reauth_ms:
            limits.append(self._offer.max_reauth_ms)
        lifetime_ms = min(limits, default=0)
        self._expires_ms = now_ms + lifetime_ms if limits else None
        self._principal, self._exchange, self._phase = principal, None, LoginPhase.COMPLETE
        return LoginStep(self._token_answer(reply_to, token, lifetime_ms), principal=principal)

    def _refused(self, refused: Refused, reply_to: ReplyTo | None) -> LoginStep:
        when = "authentication" if self._principal is None else "re-authentication"
        usual = f"Authentication failed during {when} due to invalid credentials with SASL mechanism {self._mechanism}"
        text = usual if refused.words is None else refused.words
        answer = wire.SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
        note_text = f"{text}; {refused.detail}" if refused.detail else text
        return self._fail(() if reply_to is None else self._built(reply_to, answer), note_text)

    # ------------------------------------------------------------ responses

    def _token_answer(self, reply_to: ReplyTo | None, token: bytes, lifetime_ms: int) -> Sequence[Buffer]:
        if reply_to is None:
            return [_length.pack(len(token)) + token]
        answer = wire.SaslAuthenticateResponse(error_message="", auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return self._built(reply_to, answer)

    def _illegal(self, reply_to: ReplyTo) -> Sequence[Buffer]:
        """Build the response ILLEGAL_SASL_STATE; empty if the response's version has no error code."""
        response = SERVED[reply_to.api_key].response
        has_room = any(f.name == "error_code" and reply_to.version in f.versions for f in response.FIELDS)
        fields = {"error_code": ErrorCode.ILLEGAL_SASL_STATE} if has_room else {}
        try:
            return self._built(reply_to, response(**fields))
        except ProtocolError:
            return ()

    def _fail(self, buffers: Sequence[Buffer], text: str) -> LoginStep:
        """Return the response to a failed login: it is delayed (KIP-306), then the connection closes."""
        delay_ms = self._state.config.connection_failed_authentication_delay_ms
        if not delay_ms:
            return LoginStep(buffers, closing=self._failure(text))
        self._held = buffers, self._failure(text)
        return LoginStep(wait_ms=delay_ms)

    def _closed(self, text: str) -> LoginStep:
        return LoginStep(closing=self._failure(text))

    def _failure(self, text: str) -> Note:
        self._state.counters.failed_logins += 1
        return info(f"Failed authentication with {self._caller.host} ({text})", ("login", text[:KIND_MOST_CHARS]))

    def _built(self, reply_to: ReplyTo, message: Message) -> Sequence[Buffer]:
        return build_response(reply_to.correlation_id, message, reply_to.version)

    def _decoded(self, message: type[M], frame: bytes | bytearray, version: int) -> M:
        _, at = client_id_of(frame)
        assert message.API_KEY is not None
        if version >= APIS[message.API_KEY].flexible_from:
            at = skip_tags(frame, at, "RequestHeader")
        return decode(message, version, frame, at)[0]

"""Login of a connection: SaslHandshake, then the tokens of the SASL mechanism.

Tokens are opaque here: ``challenge`` requests the next one, and ``token`` takes it. SaslHandshake names the mechanism
(KIP-43). Tokens are sent in SaslAuthenticate (KIP-152), or in frames without a header if the broker supports only
SaslHandshake 0. A login session with a lifetime is renewed after 85 to 95 % of it, on the same connection (KIP-368,
protocol/security.md#logins).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

from kohort.clock import Rng
from kohort.errors import AuthenticationFailed, ConnectionFailed, ErrorCode, KohortError, ProtocolError, error_code
from kohort.security.sasl.oauthbearer import problem_in_words
from kohort.wire.apis import api_of
from kohort.wire.codec import Buffer
from kohort.wire.headers import parse_response
from kohort.wire.messages import sasl as wire
from kohort.wire.schema import Message

RENEW_FROM: Final = 0.85
RENEW_SPREAD: Final = 0.10
"""Length of the time window in which a login session is renewed, as a fraction of its lifetime.

The window begins at the fraction ``RENEW_FROM``. The renewal starts at a random time in the window.
"""
RAW_TOKENS: Final = 0


class BuiltRequest(NamedTuple):
    buffers: list[Buffer]
    version: int
    correlation_id: int


BuildRequest = Callable[[Message], BuiltRequest]
"""Function that encodes a request in the highest version that client and broker support. Raises UnsupportedVersion."""


class TokenChallenge(NamedTuple):
    """Request for the client's next SASL token. ``challenge``: broker's token to answer, None for the first one."""

    challenge: bytes | None


class _Stage(Enum):
    IDLE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    ANSWER = auto()


class ClientLogin:
    """SASL login of one connection. ``build`` encodes requests; ``rng`` randomizes the time of renewals."""

    def __init__(self, mechanism: str, identity: str, rng: Rng, build: BuildRequest) -> None:
        self.mechanism = mechanism
        self.identity = identity
        self.was_done = False
        self.challenge: TokenChallenge | None = None
        self._rng = rng
        self._build = build
        self._stage = _Stage.IDLE
        self._raw = False
        self._version = 0
        self._correlation_id = 0
        self._lifetime_ms = 0
        self._answered_at_ms = 0
        self._renew_at_ms: int | None = None

    @property
    def is_in_progress(self) -> bool:
        return self._stage is not _Stage.IDLE

    def is_due(self, now_ms: int) -> bool:
        return self._renew_at_ms is not None and now_ms >= self._renew_at_ms

    def begin(self) -> list[Buffer]:
        self._renew_at_ms = None
        self._lifetime_ms = 0
        self._stage = _Stage.HANDSHAKE
        out, self._version, self._correlation_id = self._build(wire.SaslHandshakeRequest(mechanism=self.mechanism))
        self._raw = self._version == RAW_TOKENS
        return out

    def take_challenge(self) -> TokenChallenge | None:
        challenge, self.challenge = self.challenge, None
        return challenge

    def token(self, token: bytes | None) -> list[Buffer]:
        """Return the bytes of the request with the next SASL token. ``token`` is None if the login is complete."""
        if self._stage is not _Stage.TOKEN:
            return []  # the token belongs to an earlier login, which failed
        if token is None:
            self._done()
            return []
        self._stage = _Stage.ANSWER
        if self._raw:
            return [len(token).to_bytes(4, "big"), token]
        out, self._version, self._correlation_id = self._build(wire.SaslAuthenticateRequest(auth_bytes=token))
        return out

    def failed(self, why: KohortError) -> KohortError:
        return self._error(str(why), is_final=isinstance(why, AuthenticationFailed) or not why.retriable)

    def answered(self, frame: bytes, now_ms: int) -> None:
        """Process the response to the last request of the login.

        Raises AuthenticationFailed for a rejected login, ConnectionFailed for a rejected renewal, and ProtocolError.
        """
        if self._stage is _Stage.ANSWER and self._raw:
            self._request_token(frame)
            return
        if self._stage is _Stage.HANDSHAKE:
            response = self._parse(frame, wire.SaslHandshakeRequest)
            assert isinstance(response, wire.SaslHandshakeResponse)
            self._check_handshake(response)
            self._request_token(None)
        elif self._stage is _Stage.ANSWER:
            response = self._parse(frame, wire.SaslAuthenticateRequest)
            assert isinstance(response, wire.SaslAuthenticateResponse)
            self._check(response)
            self._lifetime_ms, self._answered_at_ms = response.session_lifetime_ms, now_ms
            self._request_token(response.auth_bytes)
        else:
            raise ProtocolError("the broker sent a response before the client's next SASL token", "login")

    def unfinished(self) -> str:
        match self._stage:
            case _Stage.HANDSHAKE:
                return f"SaslHandshake ({self._login_name}) was not answered"
            case _Stage.TOKEN:
                return f"the login ({self._login_name}) waits for the client's next token"
        return f"the login ({self._login_name}) was not answered"

    @property
    def _login_name(self) -> str:
        mechanism = f"sasl.mechanism={self.mechanism}"
        return f"{self.identity}, {mechanism}" if self.identity else mechanism

    def _request_token(self, challenge: bytes | None) -> None:
        self._stage = _Stage.TOKEN
        self.challenge = TokenChallenge(challenge)

    def _done(self) -> None:
        self._stage = _Stage.IDLE
        self.was_done = True
        if self._lifetime_ms > 0:
            share = RENEW_FROM + RENEW_SPREAD * self._rng.random()
            self._renew_at_ms = self._answered_at_ms + int(self._lifetime_ms * share)

    def _parse(self, frame: bytes, request: type[Message]) -> Message:
        api = api_of(request())
        correlation_id, response = parse_response(frame, api.response, self._version)
        if correlation_id != self._correlation_id:
            raise ProtocolError(
                f"the response has correlation id {correlation_id}, expected {self._correlation_id}", api.name
            )
        return response

    def _check_handshake(self, response: wire.SaslHandshakeResponse) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            return
        enabled = ", ".join(response.mechanisms)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM and enabled:
            raise self._error(f"sasl.mechanism={self.mechanism} is not enabled on this listener; enabled: {enabled}")
        if code is ErrorCode.ILLEGAL_SASL_STATE and not enabled and not self.was_done:
            raise self._error(
                "this listener does not use SASL: set security.protocol=PLAINTEXT (or SSL), or use another listener"
            )
        raise self._error(f"SaslHandshake failed with {code.name}")

    def _check(self, response: wire.SaslAuthenticateResponse) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            return
        words = problem_in_words(response.error_message or "")
        if code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            words = f"{code.name}: {words}" if words else code.name
        raise self._error(words or "the broker rejects the login without a reason")

    def _error(self, words: str, *, is_final: bool = True) -> KohortError:
        """Return the error of a failed login.

        A failed renewal of a session counts as a lost connection: the next login shows if the error is permanent.
        """
        login = self.identity if f"sasl.mechanism={self.mechanism}" in words else self._login_name
        text = f"{words}; {login}" if login else words
        if self.was_done:
            return ConnectionFailed(f"the session could not be renewed: {text}")
        return AuthenticationFailed(text) if is_final else ConnectionFailed(text)

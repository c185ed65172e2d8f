"""A connection's login: SaslHandshake, then the mechanism's tokens; and the same again before the session is over.

What a token says is nothing to this machine: it asks for each (``wants``), is given it, and hands back what the broker
answers. The mechanism (KIP-43) is named by SaslHandshake; its tokens travel in SaslAuthenticate (KIP-152), or, to a
broker that has SaslHandshake 0 only, as frames without a header. A broker that says how long the session lasts is
logged in to again after 85 to 95 % of it, on the connection as it stands (KIP-368, protocol/security.md#logins).
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
from kohort.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kohort.wire.schema import Message

AGAIN_FROM: Final = 0.85
AGAIN_SPREAD: Final = 0.10
"""After which part of its lifetime a session is renewed: from here on, and how far that is spread."""
RAW_TOKENS: Final = 0
"""The version of SaslHandshake after which tokens are frames of their own."""


class Asked(NamedTuple):
    buffers: list[Buffer]
    version: int
    correlation_id: int


Ask = Callable[[Message], Asked]
"""Builds a request at the highest version that both sides speak. Raises UnsupportedVersion."""


class Wanted(NamedTuple):
    """The mechanism's next token is wanted: the first one of a login, or the one that answers ``challenge``."""

    challenge: bytes | None


class _Stage(Enum):
    IDLE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    ANSWER = auto()


class ClientLogin:
    """The login of one connection. ``ask`` builds its requests; chance spreads the renewals."""

    def __init__(self, mechanism: str, who: str, rng: Rng, ask: Ask) -> None:
        self.mechanism = mechanism
        self.who = who
        self.was_done = False
        self.wants: Wanted | None = None
        self._rng = rng
        self._ask = ask
        self._stage = _Stage.IDLE
        self._raw = False
        self._version = 0
        self._correlation_id = 0
        self._lifetime_ms = 0
        self._answered_at_ms = 0
        self._again_at_ms: int | None = None

    @property
    def is_under_way(self) -> bool:
        return self._stage is not _Stage.IDLE

    def is_due(self, now_ms: int) -> bool:
        return self._again_at_ms is not None and now_ms >= self._again_at_ms

    def begin(self) -> list[Buffer]:
        self._again_at_ms = None
        self._lifetime_ms = 0
        self._stage = _Stage.HANDSHAKE
        out, self._version, self._correlation_id = self._ask(SaslHandshakeRequest(mechanism=self.mechanism))
        self._raw = self._version == RAW_TOKENS
        return out

    def take_wanted(self) -> Wanted | None:
        wanted, self.wants = self.wants, None
        return wanted

    def token(self, token: bytes | None) -> list[Buffer]:
        """Take the token that was wanted; None: nothing is left to be said, and the broker has proved what it must."""
        if self._stage is not _Stage.TOKEN:
            return []  # of a login that was given up
        if token is None:
            self._done()
            return []
        self._stage = _Stage.ANSWER
        if self._raw:
            return [len(token).to_bytes(4, "big"), token]
        out, self._version, self._correlation_id = self._ask(SaslAuthenticateRequest(auth_bytes=token))
        return out

    def failed(self, why: KohortError) -> KohortError:
        return self._error(str(why), is_final=isinstance(why, AuthenticationFailed) or not why.retriable)

    def answered(self, frame: bytes, now_ms: int) -> None:
        """Take a frame that answers the last request.

        Raises AuthenticationFailed for a refusal, ConnectionFailed for one of a renewal, and ProtocolError.
        """
        if self._stage is _Stage.ANSWER and self._raw:
            self._want(frame)
            return
        if self._stage is _Stage.HANDSHAKE:
            response = self._parse(frame, SaslHandshakeRequest)
            assert isinstance(response, SaslHandshakeResponse)
            self._judge_handshake(response)
            self._want(None)
        elif self._stage is _Stage.ANSWER:
            response = self._parse(frame, SaslAuthenticateRequest)
            assert isinstance(response, SaslAuthenticateResponse)
            self._judge(response)
            self._lifetime_ms, self._answered_at_ms = response.session_lifetime_ms, now_ms
            self._want(response.auth_bytes)
        else:
            raise ProtocolError("an answer to nothing that was asked", "SaslAuthenticate")

    def unfinished(self) -> str:
        match self._stage:
            case _Stage.HANDSHAKE:
                return f"SaslHandshake ({self._told}) was not answered"
            case _Stage.TOKEN:
                return f"the login ({self._told}) waits for its own next token"
        return f"the login ({self._told}) was not answered"

    @property
    def _told(self) -> str:
        mechanism = f"sasl.mechanism={self.mechanism}"
        return f"{self.who}, {mechanism}" if self.who else mechanism

    def _want(self, challenge: bytes | None) -> None:
        self._stage = _Stage.TOKEN
        self.wants = Wanted(challenge)

    def _done(self) -> None:
        self._stage = _Stage.IDLE
        self.was_done = True
        if self._lifetime_ms > 0:
            share = AGAIN_FROM + AGAIN_SPREAD * self._rng.random()
            self._again_at_ms = self._answered_at_ms + int(self._lifetime_ms * share)

    def _parse(self, frame: bytes, request: type[Message]) -> Message:
        api = api_of(request())
        correlation_id, response = parse_response(frame, api.response, self._version)
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"response {correlation_id} to request {self._correlation_id}", api.name)
        return response

    def _judge_handshake(self, response: SaslHandshakeResponse) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            return
        enabled = ", ".join(response.mechanisms)
        if code is ErrorCode.UNSUPPORTED_SASL_MECHANISM and enabled:
            raise self._error(f"sasl.mechanism={self.mechanism} is not enabled there; what is: {enabled}")
        if code is ErrorCode.ILLEGAL_SASL_STATE and not enabled and not self.was_done:
            raise self._error(
                "this listener does not use SASL: set security.protocol=PLAINTEXT (or SSL), or name another listener"
            )
        raise self._error(f"SaslHandshake is answered {code.name}")

    def _judge(self, response: SaslAuthenticateResponse) -> None:
        code = error_code(response.error_code)
        if code is ErrorCode.NONE:
            return
        words = problem_in_words(response.error_message or "")
        if code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
            words = f"{code.name}: {words}" if words else code.name
        raise self._error(words or "the broker refuses the login and does not say why")

    def _error(self, words: str, *, is_final: bool = True) -> KohortError:
        """Return the error. A renewal that fails is but a lost connection: the next login tells whether it lasts."""
        told = self.who if f"sasl.mechanism={self.mechanism}" in words else self._told
        text = f"{words}; {told}" if told else words
        if self.was_done:
            return ConnectionFailed(f"the session could not be renewed: {text}")
        return AuthenticationFailed(text) if is_final else ConnectionFailed(text)

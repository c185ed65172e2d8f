"""SaslHandshake (17), SaslAuthenticate (36): how a client logs in. KIP-43, KIP-152.

SaslHandshake names the mechanism. After version 0 the mechanism's tokens follow as frames without a header; after
version 1 each is the body of a SaslAuthenticate.

SaslAuthenticate
- 1: how long the login is good for (KIP-368). 2: flexible.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int16, int64, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    """SaslHandshake: what a client asks."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    """SaslHandshake: what a broker answers."""

    error_code: int = int16()
    mechanisms: list[str] = array(string())


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticate: what a client asks."""

    auth_bytes: bytes = data()


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    """SaslAuthenticate: what a broker answers."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = data()
    session_lifetime_ms: int = int64("1+", ignorable=True)

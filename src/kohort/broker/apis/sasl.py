"""SaslHandshake (17) and SaslAuthenticate (36) outside of a login: ILLEGAL_SASL_STATE.

These handlers serve listeners without SASL and completed logins that do not expire. The connection stays open.
``sasl_login.py`` serves all other logins (protocol/security.md#logins).
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import ONE_NAME, AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import unguarded
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ErrorCode
from kohort.wire.messages import sasl as wire

HANDSHAKE: Final = 17
WORDS: Final = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(_state: BrokerState, _request: Request) -> Answer:
    return wire.SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(_state: BrokerState, _request: Request) -> Answer:
    return wire.SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=WORDS)


SASL_HANDSHAKE = BrokerApi(wire.SaslHandshakeRequest, sasl_handshake, unguarded, ONE_NAME)
SASL_AUTHENTICATE = BrokerApi(
    wire.SaslAuthenticateRequest,
    sasl_authenticate,
    unguarded,
    Cost(AnswerBound.FIXED, one_step="sasl.server.max.receive.size bounds the request"),
)

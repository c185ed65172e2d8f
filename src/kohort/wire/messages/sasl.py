"""SaslHandshake (17), SaslAuthenticate (36): login of a client (KIP-43, KIP-152).

SaslHandshake names the mechanism. After version 0 the mechanism's tokens follow as frames without a header; after
version 1 each is the body of a SaslAuthenticate.
SaslAuthenticate 1: lifetime of the session (KIP-368). 2: flexible.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int8, int16, int32, int64, string


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    error_code: int = int16()
    mechanisms: list[str] = array(string())


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = data()


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = data()
    session_lifetime_ms: int = int64("1+", ignorable=True)


class UserName(Message):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """No users means all."""

    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Message):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


class ScramCredentialDeletion(Message):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Message):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = data()
    salted_password: bytes = data()


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)

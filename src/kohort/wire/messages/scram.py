"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51), both version 0 and flexible. KIP-554.

A client sends a salt and the salted password; the broker derives from them what it keeps.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, data, int8, int16, int32, string


class UserName(Message):
    name: str = string()


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """DescribeUserScramCredentials: what a client asks; no users means all."""

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
    """DescribeUserScramCredentials: what a broker answers."""

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
    """AlterUserScramCredentials: what a client asks."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Message):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    """AlterUserScramCredentials: what a broker answers."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)

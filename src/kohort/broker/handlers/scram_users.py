"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51), version 0: who can log in by SCRAM. KIP-554.

Salted passwords have to be as long as the hash, which Kafka does not ask for (protocol/security.md#scram).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from kohort.broker.request import Answer, Request
from kohort.broker.scram_users import ScramUsers, UserAndMechanism
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.sasl.scram import (
    HASHES,
    ITERATIONS_HIGH,
    ITERATIONS_LOW,
    MECHANISM_NUMBERS,
    ScramCredential,
    credential_of,
)
from kohort.wire.messages.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

MECHANISMS: Final = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}
USERS_MOST: Final = 100_000
"""Users that are kept; one more is refused. Kafka has no limit."""
SALT_MOST: Final = 1_024


def describe_scram_users(state: BrokerState, request: Request) -> Answer:
    message: DescribeUserScramCredentialsRequest = request.message
    known: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), credential in state.logins.users.all().items():
        kept = CredentialInfo(mechanism=MECHANISM_NUMBERS[mechanism], iterations=credential.iterations)
        known.setdefault(user, []).append(kept)
    asked = Counter(u.name for u in message.users or ()) or Counter(dict.fromkeys(known, 1))
    return DescribeUserScramCredentialsResponse(
        results=[_described(user, times, known.get(user)) for user, times in asked.items()]
    )


def _described(user: str, times: int, kept: list[CredentialInfo] | None) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    if kept is None:
        return DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return DescribeUserScramCredentialsResult(user=user, credential_infos=sorted(kept, key=lambda info: info.mechanism))


def alter_scram_users(state: BrokerState, request: Request) -> Answer:
    message: AlterUserScramCredentialsRequest = request.message
    named = Counter([one.name for one in message.deletions] + [one.name for one in message.upsertions])
    refused = {
        user: ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
        for user, times in named.items()
        if times > 1
    }
    users, deleted, upserted = state.logins.users, [], {}
    for deletion in message.deletions:
        if deletion.name not in refused:
            try:
                deleted.append(_known_key(users, deletion))
            except ApiError as error:
                refused[deletion.name] = error
    for upsertion in message.upsertions:
        if upsertion.name not in refused:
            try:
                key = _key(upsertion.name, upsertion.mechanism)
                upserted[key] = _credential(key.mechanism, upsertion)
            except ApiError as error:
                refused[upsertion.name] = error
    if len(users.all()) + len(upserted) > USERS_MOST:
        return _all_refused(named, ApiError(ErrorCode.POLICY_VIOLATION, f"there are {USERS_MOST} users already"))
    if deleted or upserted:
        try:
            users.change(deleted, upserted)
        except ApiError as error:
            return _all_refused(named, error)
    return AlterUserScramCredentialsResponse(results=[_result(user, refused.get(user)) for user in named])


def _known_key(users: ScramUsers, one: ScramCredentialDeletion) -> UserAndMechanism:
    key = _key(one.name, one.mechanism)
    if key not in users.all():
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return key


def _key(name: str, mechanism: int) -> UserAndMechanism:
    if not name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return UserAndMechanism(name, MECHANISMS[mechanism])


def _credential(mechanism: str, one: ScramCredentialUpsertion) -> ScramCredential:
    hash_name, unacceptable = HASHES[mechanism], ErrorCode.UNACCEPTABLE_CREDENTIAL
    if one.iterations < ITERATIONS_LOW:
        raise ApiError(unacceptable, "Too few iterations")
    if one.iterations > ITERATIONS_HIGH:
        raise ApiError(unacceptable, "Too many iterations")
    if not 0 < len(one.salt) <= SALT_MOST:
        raise ApiError(unacceptable, f"A salt has 1 to {SALT_MOST} bytes")
    return credential_of(hash_name, bytes(one.salt), one.iterations, bytes(one.salted_password))


def _all_refused(users: Iterable[str], error: ApiError) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(results=[_result(user, error) for user in users])


def _result(user: str, error: ApiError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=user, error_message=None)
    return AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)

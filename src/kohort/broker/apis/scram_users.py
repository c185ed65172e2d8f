"""DescribeUserScramCredentials (50), AlterUserScramCredentials (51), version 0. KIP-554."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any, Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost, NameKind
from kohort.broker.authorization import REFUSE_US, guard_cluster
from kohort.broker.cluster.security_store import ScramUsers, UserAndMechanism
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import Operation
from kohort.security.sasl.scram import (
    HASHES,
    ITERATIONS_HIGH,
    ITERATIONS_LOW,
    MECHANISM_NUMBERS,
    ScramCredential,
    credential_of,
)
from kohort.steps import Pace, Steps, each
from kohort.wire.messages import sasl as wire
from kohort.wire.schema import Message

MECHANISMS: Final = {number: mechanism for mechanism, number in MECHANISM_NUMBERS.items()}
USERS_MOST: Final = 100_000
"""Maximum number of SCRAM users. Kafka has no limit."""
SALT_MOST: Final = 1_024
Change = wire.ScramCredentialDeletion | wire.ScramCredentialUpsertion
USER_US: Final = 3
COUNT_US: Final = 0.3


def describe_scram_users(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.DescribeUserScramCredentialsRequest = request.message
    pace = Pace()
    known: dict[str, list[wire.CredentialInfo]] = {}
    for (user, mechanism), credential in state.logins.users.all().items():
        kept = wire.CredentialInfo(mechanism=MECHANISM_NUMBERS[mechanism], iterations=credential.iterations)
        known.setdefault(user, []).append(kept)
        if pace.is_due(USER_US):
            yield
    times = Counter(user.name for user in message.users or ())
    if pace.is_due(COUNT_US * len(times)):
        yield
    results = yield from each(
        times or list(known), lambda user: _described(user, times[user], known.get(user)), USER_US
    )
    return wire.DescribeUserScramCredentialsResponse(results=results)


def _described(
    user: str, times: int, kept: list[wire.CredentialInfo] | None
) -> wire.DescribeUserScramCredentialsResult:
    if times > 1:
        return wire.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.DUPLICATE_RESOURCE,
            error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
        )
    if kept is None:
        return wire.DescribeUserScramCredentialsResult(
            user=user,
            error_code=ErrorCode.RESOURCE_NOT_FOUND,
            error_message=f"Attempt to describe a user credential that does not exist: {user}",
        )
    return wire.DescribeUserScramCredentialsResult(
        user=user, credential_infos=sorted(kept, key=lambda info: info.mechanism)
    )


def alter_scram_users(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.AlterUserScramCredentialsRequest = request.message
    pace = Pace()
    named: list[Change] = [*message.deletions, *message.upsertions]
    times = Counter(one.name for one in named)
    if pace.is_due(COUNT_US * len(times)):
        yield
    users, refused = state.logins.users, dict[str, ApiError]()
    deleted: list[UserAndMechanism] = []
    upserted: dict[UserAndMechanism, ScramCredential] = {}
    for one in named:
        try:
            key, credential = _checked(users, one, times[one.name])
        except ApiError as error:
            # copy the error: the original's traceback would keep the request in memory
            refused.setdefault(one.name, ApiError(error.code, error.message))
        else:
            if credential is None:
                deleted.append(key)
            else:
                upserted[key] = credential
        if pace.is_due(USER_US):
            yield
    problem: ApiError | None = None
    if len(users.all()) + len(upserted) > USERS_MOST:
        problem = ApiError(ErrorCode.POLICY_VIOLATION, f"the change exceeds the limit of {USERS_MOST} SCRAM users")
    elif deleted or upserted:
        try:
            users.change(deleted, upserted)
        except ApiError as error:
            problem = ApiError(error.code, error.message)
    results = yield from each(times, lambda user: _result(user, problem or refused.get(user)), USER_US)
    return wire.AlterUserScramCredentialsResponse(results=results)


def _checked(users: ScramUsers, one: Change, times: int) -> tuple[UserAndMechanism, ScramCredential | None]:
    """Check a change of a SCRAM user; return user, mechanism and new credential (None: delete). Raises ApiError."""
    if times > 1:
        raise ApiError(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
    if not one.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if one.mechanism not in MECHANISMS:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    key = UserAndMechanism(one.name, MECHANISMS[one.mechanism])
    if isinstance(one, wire.ScramCredentialUpsertion):
        return key, _credential(key.mechanism, one)
    if key not in users.all():
        raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return key, None


def _credential(mechanism: str, one: wire.ScramCredentialUpsertion) -> ScramCredential:
    hash_name, unacceptable = HASHES[mechanism], ErrorCode.UNACCEPTABLE_CREDENTIAL
    if one.iterations < ITERATIONS_LOW:
        raise ApiError(unacceptable, "Too few iterations")
    if one.iterations > ITERATIONS_HIGH:
        raise ApiError(unacceptable, "Too many iterations")
    if not 0 < len(one.salt) <= SALT_MOST:
        raise ApiError(unacceptable, f"the salt has {len(one.salt)} bytes, expected 1 to {SALT_MOST}")
    return credential_of(hash_name, bytes(one.salt), one.iterations, bytes(one.salted_password))


def _result(user: str, error: ApiError | None) -> wire.AlterUserScramCredentialsResult:
    if error is None:
        return wire.AlterUserScramCredentialsResult(user=user, error_message=None)
    return wire.AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)


def _no_users_altered(message: wire.AlterUserScramCredentialsRequest, code: int, words: str) -> Steps[Message]:
    names = dict.fromkeys(one.name for one in chain[Any](message.deletions, message.upsertions))
    refused = yield from each(
        names,
        lambda name: wire.AlterUserScramCredentialsResult(user=name, error_code=code, error_message=words),
        REFUSE_US,
    )
    return wire.AlterUserScramCredentialsResponse(results=refused)


DESCRIBE_USER_SCRAM_CREDENTIALS = BrokerApi(
    wire.DescribeUserScramCredentialsRequest,
    describe_scram_users,
    guard_cluster(
        Operation.DESCRIBE,
        lambda _message, code, text: wire.DescribeUserScramCredentialsResponse(error_code=code, error_message=text),
    ),
    Cost(AnswerBound.STATE),
    names={"users.name": NameKind.USER},
)
ALTER_USER_SCRAM_CREDENTIALS = BrokerApi(
    wire.AlterUserScramCredentialsRequest,
    alter_scram_users,
    guard_cluster(Operation.ALTER, _no_users_altered),
    Cost(AnswerBound.REQUEST),
    names={"deletions.name": NameKind.USER, "upsertions.name": NameKind.USER},
)

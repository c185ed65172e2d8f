"""Admin operations on SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import pbkdf2_hmac
from typing import Final

from kohort.client.admin.operations import Operation, Results, ask, results_of
from kohort.client.admin.topics import to_controller
from kohort.client.requests.metadata import Metadata
from kohort.clock import Rng
from kohort.errors import ApiError, UsageError, error_code
from kohort.secret import Secret
from kohort.wire.messages import sasl as wire

MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
LEAST_ITERATIONS: Final = 4096
MOST_ITERATIONS: Final = 16384
SALT_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """Public part of a SCRAM credential: the mechanism, and the number of hash iterations."""

    mechanism: str
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """New or changed password of a user for a SCRAM mechanism. The client sends a hash, never the password.

    ``iterations``: number of hash iterations, 4096 to 16384 as in Kafka. Each login of the user repeats them.
    """

    user: str
    password: Secret | str
    mechanism: str = "SCRAM-SHA-256"
    iterations: int = LEAST_ITERATIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "password", Secret(self.password))
        _check_mechanism(self.mechanism)
        if not self.password:
            raise UsageError(f"the password of {self.user!r} is empty")
        if not LEAST_ITERATIONS <= self.iterations <= MOST_ITERATIONS:
            raise UsageError(f"iterations={self.iterations}: expected from {LEAST_ITERATIONS} to {MOST_ITERATIONS}")


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """Deletion of a user's credential for a SCRAM mechanism."""

    user: str
    mechanism: str = "SCRAM-SHA-256"

    def __post_init__(self) -> None:
        _check_mechanism(self.mechanism)


@dataclass(frozen=True, slots=True)
class SaltedPassword:
    salt: bytes
    salted: bytes = field(repr=False)


def _check_mechanism(name: str) -> None:
    if name not in MECHANISMS:
        raise UsageError(f"mechanism={name!r}: expected a SCRAM mechanism, one of {', '.join(MECHANISMS)}")


def salt_password(upsertion: UserScramCredentialUpsertion, rng: Rng) -> SaltedPassword:
    """Salt and hash a password (RFC 5802). It takes milliseconds, so do not call it inside an event loop."""
    salt = rng.getrandbits(8 * SALT_BYTES).to_bytes(SALT_BYTES, "big")
    return SaltedPassword(salt, hashed(Secret(upsertion.password), upsertion.mechanism, salt, upsertion.iterations))


def hashed(password: Secret, mechanism: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted SCRAM hash of a password. Like Kafka, do not apply SASLprep to the password."""
    return pbkdf2_hmac(HASHES[mechanism], password.reveal().encode(), salt, iterations)


def describe_user_scram_credentials(
    users: Sequence[str] | None,
) -> Operation[Results[str, tuple[ScramCredentialInfo, ...]]]:
    requested = None if users is None else [wire.UserName(name=name) for name in users]
    results: Results[str, tuple[ScramCredentialInfo, ...]] = Results()
    if requested == []:  # an empty list in DescribeUserScramCredentials would mean all users
        return results
    response: wire.DescribeUserScramCredentialsResponse = yield from ask(
        wire.DescribeUserScramCredentialsRequest(users=requested)
    )
    if response.error_code:
        text = response.error_message or "DescribeUserScramCredentials"
        raise ApiError(error_code(response.error_code), text)
    names = {number: name for name, number in MECHANISMS.items()}
    for result in sorted(response.results, key=lambda result: result.user):
        infos = tuple(
            ScramCredentialInfo(names.get(info.mechanism, "unknown"), info.iterations)
            for info in sorted(result.credential_infos, key=lambda info: info.mechanism)
        )
        results.add_or_refuse(result.user, infos, result.error_code, result.error_message)
    return results


def alter_user_scram_credentials(
    metadata: Metadata,
    deletions: Sequence[UserScramCredentialDeletion],
    upsertions: Sequence[tuple[UserScramCredentialUpsertion, SaltedPassword]],
) -> Operation[Results[str, None]]:
    request = wire.AlterUserScramCredentialsRequest(
        deletions=[wire.ScramCredentialDeletion(name=d.user, mechanism=MECHANISMS[d.mechanism]) for d in deletions],
        upsertions=[
            wire.ScramCredentialUpsertion(
                name=u.user,
                mechanism=MECHANISMS[u.mechanism],
                iterations=u.iterations,
                salt=made.salt,
                salted_password=made.salted,
            )
            for u, made in upsertions
        ],
    )
    response: wire.AlterUserScramCredentialsResponse = yield from to_controller(
        metadata, request, lambda r: [result.error_code for result in r.results]
    )
    return results_of((result.user, None, result.error_code, result.error_message) for result in response.results)

"""Allowed differences between the logins of kohort and Apache Kafka, each with its reason."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

ILLEGAL_STATE: Final = 34
AT_TOKENS: Final = ("* behind SaslHandshake 1", "* within SCRAM", "* within OAUTHBEARER")
Transcript = list[Any]


@dataclass(frozen=True)
class MayOfLogins:
    """Allowed difference in cases of these names (patterns), if ``only`` is true of both transcripts."""

    cases: tuple[str, ...]
    reason: str
    only: Callable[[Transcript, Transcript], bool] = lambda _ours, _theirs: True


def _both_are_refused(ours: Transcript, theirs: Transcript) -> bool:
    """Return True if both brokers close the connection and answer with the same error code, if any."""
    codes = [[part.get("error_code") for part in parts if isinstance(part, dict)] for parts in (ours, theirs)]
    return codes[0] == codes[1] and ours[-1] == theirs[-1] == "closed"


def _both_are_closed(ours: Transcript, theirs: Transcript) -> bool:
    return ours[-1] == theirs[-1] == "closed"


def _one_of(*apis: str) -> tuple[str, ...]:
    return tuple(state.replace("*", f"{api} v*", 1) for api in apis for state in AT_TOKENS)


LOGINS: Final = (
    MayOfLogins(AT_TOKENS, "beside the error code an answer says nothing; Kafka's says it in words", _both_are_refused),
    MayOfLogins(
        _one_of("Produce"), "what is written without a wish for an answer is answered all the same", _both_are_closed
    ),
    MayOfLogins(
        _one_of("ApiVersions"), "a version that nobody knows has no answer; Kafka's is that of version 0",
        _both_are_closed,
    ),
    MayOfLogins(
        _one_of("DescribeAcls"), "a filter for a kind that there is not is read; Kafka closes over it", _both_are_closed
    ),
    MayOfLogins(("SCRAM-*: a proof too short",), "it is wrong; Kafka fails over it and closes", _both_are_closed),
    MayOfLogins(("another mechanism",), "it is closed at once; Kafka answers the handshake first", _both_are_closed),
    MayOfLogins(
        ("an unknown mechanism", "SaslHandshake v* logged in for a while"), "we say which there are; Kafka closes",
        _both_are_closed,
    ),
)  # fmt: skip


def is_allowed_of_logins(case: str, ours: Transcript, theirs: Transcript) -> bool:
    return any(
        any(fnmatch.fnmatchcase(case, cases) for cases in may.cases) and may.only(ours, theirs) for may in LOGINS
    )

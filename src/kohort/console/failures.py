"""Errors as answers: a status, what was wrong, what to do; never a traceback."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kohort.console.guard import Rejected
from kohort.console.reachability import ClusterUnreachable, GroupUnknown
from kohort.errors import (
    ApiError,
    ApiTimeout,
    AuthenticationFailed,
    ConfigError,
    ConnectionFailed,
    KohortError,
    MissingExtra,
    UsageError,
)
from kohort.results.console import ConsoleFailure
from kohort.verbs.refusals import NothingThere, RefusedByState

logger = logging.getLogger("kohort.console")
UNREACHABLE: Final = (503, "check that the brokers run and that this host reaches them; the console retries by itself")
KINDS: Final[tuple[tuple[type[KohortError], int, str], ...]] = (
    (NothingThere, 404, "look at the list: it may be gone, or be called otherwise"),
    (RefusedByState, 409, "change what stands against it, and make the plan anew"),
    (UsageError, 400, "correct the request"),
    (ConfigError, 400, "correct the request"),
    (ClusterUnreachable, *UNREACHABLE),
    (GroupUnknown, *UNREACHABLE),
    (MissingExtra, 501, "install what is named"),
    (AuthenticationFailed, 502, "the console's own user is not let in by the cluster: look at its options"),
    (ConnectionFailed, *UNREACHABLE),
    (ApiTimeout, *UNREACHABLE),
)


def failure_of(error: Exception) -> tuple[int, ConsoleFailure]:
    """Return the status and the body that tell of an error."""
    if isinstance(error, Rejected):
        members: Sequence[str] = getattr(error, "members", ())
        return error.status, ConsoleFailure(error=error.error, what_to_do=error.what_to_do, members=list(members))
    if isinstance(error, ApiError):
        return _of_broker(error)
    for kind, status, what_to_do in KINDS:
        if isinstance(error, kind):
            return status, ConsoleFailure(error=str(error), what_to_do=what_to_do)
    if isinstance(error, KohortError):
        return 502, ConsoleFailure(error=str(error), what_to_do="see the console's log")
    logger.exception("a request was not answered", exc_info=error)
    return 500, ConsoleFailure(error="the console has a bug", what_to_do="see its log, and report it")


def _of_broker(error: ApiError) -> tuple[int, ConsoleFailure]:
    name = error.code.name
    if "AUTHORIZATION" in name:
        status, what_to_do = 403, "ask for the right to it"
    elif name.startswith("UNKNOWN_TOPIC") or name.endswith("NOT_FOUND"):
        status, what_to_do = 404, "look at the list: it may be gone, or be called otherwise"
    elif error.code.retriable:
        status, what_to_do = 503, "try again"
    else:
        status, what_to_do = 409, f"kohort explain {name} says more"
    return status, ConsoleFailure(error=str(error), what_to_do=what_to_do)

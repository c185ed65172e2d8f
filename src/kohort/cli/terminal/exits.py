"""Exit codes of commands, and interrupts by Ctrl-C and SIGTERM.

====  ================================================================================
0     success
1     any other failure: disk, unreadable record, bug
2     wrong usage: an unknown option, an invalid value, contradicting options
3     not found: a group, a topic, a partition, a user
4     no answer in time; a retry may help
5     conflict with the present state: the group has members, the topic exists already
6     not authorised: a missing right, a failed login
7     a check failed
130   interrupted (Ctrl-C, SIGTERM)
====  ================================================================================

Kafka's own tool exits with 0 for a group that does not exist, so scripts cannot rely on it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from threading import current_thread, main_thread
from types import FrameType, MappingProxyType
from typing import Final

from kohort.errors import (
    ApiError,
    ApiTimeout,
    AuthenticationFailed,
    CommitFailed,
    ConfigError,
    ConnectionFailed,
    ErrorCode,
    KohortError,
    UsageError,
)
from kohort.verbs.refusals import CheckNotMet, NothingThere, RefusedByState


class ExitCode(IntEnum):
    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    REFUSED = 5
    NOT_AUTHORISED = 6
    CHECK_FAILED = 7
    INTERRUPTED = 130


BY_KIND: Final = (
    (NothingThere, ExitCode.NOT_FOUND),
    (RefusedByState, ExitCode.REFUSED),
    (CheckNotMet, ExitCode.CHECK_FAILED),
    (CommitFailed, ExitCode.REFUSED),
    (ConfigError, ExitCode.USAGE),
    (UsageError, ExitCode.USAGE),
    (AuthenticationFailed, ExitCode.NOT_AUTHORISED),
    (ConnectionFailed, ExitCode.UNREACHABLE),
    (ApiTimeout, ExitCode.UNREACHABLE),
)
"""Exit code of each error class. The exit code of an ApiError depends on its error code (``BY_CODE``)."""

_NAMES: Final = MappingProxyType(
    {
        ExitCode.NOT_FOUND: "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID GROUP_ID_NOT_FOUND RESOURCE_NOT_FOUND "
        "TRANSACTIONAL_ID_NOT_FOUND",
        ExitCode.UNREACHABLE: "REQUEST_TIMED_OUT NETWORK_EXCEPTION LEADER_NOT_AVAILABLE NOT_LEADER_OR_FOLLOWER "
        "BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE COORDINATOR_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS "
        "NOT_COORDINATOR NOT_CONTROLLER",
        ExitCode.REFUSED: "NON_EMPTY_GROUP GROUP_SUBSCRIBED_TO_TOPIC UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS "
        "ILLEGAL_GENERATION FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH STALE_MEMBER_EPOCH UNRELEASED_INSTANCE_ID "
        "TOPIC_ALREADY_EXISTS DUPLICATE_RESOURCE REASSIGNMENT_IN_PROGRESS INVALID_TXN_STATE CONCURRENT_TRANSACTIONS",
        ExitCode.NOT_AUTHORISED: "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED SASL_AUTHENTICATION_FAILED",
    }
)
BY_CODE: Final = MappingProxyType({ErrorCode[name]: code for code, names in _NAMES.items() for name in names.split()})
"""Exit code of each error code of a broker. The exit code of all other error codes is FAILED."""


def exit_code_of(error: KohortError) -> ExitCode:
    if isinstance(error, ApiError):
        return BY_CODE.get(error.code, ExitCode.FAILED)
    return next((code for kind, code in BY_KIND if isinstance(error, kind)), ExitCode.FAILED)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C within the ``with`` block."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    on_interrupt = signal.getsignal(signal.SIGINT)
    if callable(on_interrupt):
        on_interrupt(signal.SIGINT, frame)
    else:  # a shell starts background processes with SIGINT ignored: leave it ignored; SIGTERM still interrupts them
        raise KeyboardInterrupt


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Delay the first Ctrl-C or SIGTERM until the ``with`` block ends. A second one raises KeyboardInterrupt at once.

    Without the delay, ``flush`` of stdout may raise KeyboardInterrupt after the reader has received the bytes.
    """
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raising = {number: before for number, before in found.items() if callable(before)}
    # no delay is needed in other threads, or without Python signal handlers: KeyboardInterrupt cannot occur there
    if current_thread() is not main_thread() or not raising:
        yield
        return
    waiting = False

    def note(_number: int, _frame: FrameType | None) -> None:
        nonlocal waiting
        if waiting:
            raise KeyboardInterrupt
        waiting = True

    for number in raising:
        signal.signal(number, note)
    try:
        yield
    finally:
        for number, before in raising.items():
            signal.signal(number, before)
        if waiting:
            raise KeyboardInterrupt

"""Exit codes of commands, and interrupts by Ctrl-C and SIGTERM.

====  =========================================================================================
0     done
1     failed for a reason that is none of these: the disk, a record that cannot be read, a bug
2     wrong usage: an option, its value, what contradicts what
3     not found: a group, a topic, a partition, a user
4     nobody answers, or not in time: another try may help
5     refused by the state of things: a group that has members, a topic that exists already
6     not authorised: no right to it, or not let in at all
7     a check did not hold: what was asked for is not so
130   interrupted (Ctrl-C, SIGTERM)
====  =========================================================================================

Kafka's own tool ends with 0 where a group does not exist, so a script cannot rely on it.
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
"""By the kind of an error; that of an ApiError is in its code."""

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
"""By what a broker answers; every other answer is a failure."""


def exit_code_of(error: KohortError) -> ExitCode:
    if isinstance(error, ApiError):
        return BY_CODE.get(error.code, ExitCode.FAILED)
    return next((code for kind, code in BY_KIND if isinstance(error, kind)), ExitCode.FAILED)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Treat SIGTERM, which service managers send, as Ctrl-C."""
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
    else:  # a process in the background of a shell has SIGINT ignored
        raise KeyboardInterrupt


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Within it, a first Ctrl-C or SIGTERM is raised at the end; a second at once, for a write that never ends.

    A buffered file looks for signals after its bytes have left: without this, ``flush`` may raise for bytes that
    the reader has.
    """
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raising = {number: before for number, before in found.items() if callable(before)}
    if current_thread() is not main_thread() or not raising:  # where no interrupt is ever raised
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

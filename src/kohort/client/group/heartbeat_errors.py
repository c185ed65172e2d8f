"""What the errors of a heartbeat mean to a member whose epoch the coordinator gives (KIP-848).

The rules: protocol/consumer-members.md#what-errors-mean-to-a-member.
"""

from __future__ import annotations

from enum import Enum, auto

from kohort.client.group.membership import COORDINATOR_MOVED
from kohort.client.requests.denials import answer_error
from kohort.config.client import ConsumerConfig
from kohort.errors import ApiError, ErrorCode


class Meaning(Enum):
    """What to do about an error."""

    REPEAT = auto()
    """The coordinator cannot answer now."""
    MOVED = auto()
    """It is another node by now."""
    DENIED = auto()
    """The user is to know, and the heartbeats go on: the right may be given, or the subscription changed."""
    FENCED = auto()
    """The group has gone on without this member, which joins again."""
    FATAL = auto()
    """No repetition mends it."""


def meaning(code: ErrorCode, *, is_joining: bool) -> Meaning:
    """Return what to do about ``code``. A group that is gone can be made again by who joins; whoever cannot join it at
    all is told so."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return Meaning.REPEAT
    if code in COORDINATOR_MOVED:
        return Meaning.MOVED
    if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return Meaning.DENIED
    if code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
        return Meaning.FENCED
    if code is ErrorCode.GROUP_ID_NOT_FOUND and not is_joining:
        return Meaning.FENCED
    return Meaning.FATAL


def heartbeat_error(config: ConsumerConfig, code: ErrorCode, said: str | None) -> ApiError:
    """Return the error for the user: what is wrong, in which group, and what to do; ``said`` is the broker's text."""
    group, instance = f"group {config.group_id!r}", f"group.instance.id={config.group_instance_id!r}"
    reason = f": {said}" if said else ""
    match code:
        case ErrorCode.UNRELEASED_INSTANCE_ID:
            text = (
                f"{instance} is in use in {group}: close the consumer that has it, or wait until its session is over "
                "(group.consumer.session.timeout.ms on the broker, consumer.session.timeout.ms of the group)"
            )
        case ErrorCode.FENCED_INSTANCE_ID:
            text = f"another consumer of {group} has taken {instance}: give each consumer one of its own"
        case ErrorCode.UNSUPPORTED_ASSIGNOR:
            text = f"group.remote.assignor={config.group_remote_assignor!r} cannot be used in {group}{reason}"
        case ErrorCode.GROUP_MAX_SIZE_REACHED:
            text = f"{group} is full (group.consumer.max.size on the broker){reason}"
        case ErrorCode.GROUP_ID_NOT_FOUND:
            text = (
                f"{group} cannot be joined with the group protocol consumer{reason}; "
                "take group.protocol=classic, or another group.id"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            text = f"the broker does not serve the group protocol consumer{reason}; take group.protocol=classic"
        case ErrorCode.INVALID_REGULAR_EXPRESSION:
            text = f"the cluster cannot read the pattern that {group} is subscribed to{reason}"
        case _:
            text = f"a heartbeat to {group}{reason}"
    return answer_error(config, code, text)

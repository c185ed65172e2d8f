"""What goes into the coordinator and what a decision is: records to append, replies to release, timers, journal.

A decision changes nothing but the round of its group. The runtime appends ``records``, replays them, and only then
arms ``timers`` and releases ``replies``; if the append fails, the replies are refused and the round is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol

from kohort.coordinator.journal import JournalEntry, Who
from kohort.coordinator.records import Record
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import ProducerIdAndEpoch
from kohort.wire.schema import Message

TimerKind = Literal[
    "round",
    "sync",
    "session",
    "pending",
    "offsets",
    "member_session",
    "revocation",
    "rejoin",
    "resync",
    "regex",
    "target",
]


class TimerKey(NamedTuple):
    """What a timer of a shard is for; ``member_id`` is empty where the timer is the group's own."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class SetTimer(NamedTuple):
    """Fire ``key`` at ``at_ms``, instead of whatever was set for it before."""

    key: TimerKey
    at_ms: int


class CancelTimer(NamedTuple):
    """Forget ``key``."""

    key: TimerKey


MayDescribe = Callable[[str], bool]


def may_describe_all(_topic: str) -> bool:
    """Return True: where there is no authorizer everybody may know of every topic."""
    return True


@dataclass(slots=True, eq=False)
class GroupRequest:
    """A request as the coordinator sees it: the message, its version, who asks, and where the answer goes.

    ``client_host`` is in Kafka's textual form (``/127.0.0.1``). ``connection`` serves as evidence only: the
    coordinator never acts on a connection's end. ``may_describe`` tells whether the caller may know of a topic: an
    expression that it subscribes by finds no others. ``principal`` is as whom it is logged in, as evidence, too.
    ``software`` is what the client says it is (KIP-511), for the journal; None where it did not say.
    """

    message: Message
    api_version: int
    client_id: str
    client_host: str
    reply_to: Hashable
    connection: int = -1
    may_describe: MayDescribe = may_describe_all
    principal: str = ""
    software: str | None = None

    @property
    def sender(self) -> Who:
        """Who sent it, for the journal, where that is no member: without a member id."""
        return Who("", self.client_id, self.client_host, principal=self.principal)


class Reply(NamedTuple):
    """The answer to one request. ``request`` is the request, so that a reply can be turned into its refusal."""

    request: GroupRequest
    message: Message

    @property
    def to(self) -> Hashable:
        return self.request.reply_to


@dataclass(slots=True)
class Outcome:
    """A decision, to be carried out by the runtime and by nothing else.

    ``round_changed`` says that the decision left marks in the group's round, so that the round must be dropped if
    ``records`` cannot be appended.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[SetTimer | CancelTimer] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)
    round_changed: bool = True
    producer: ProducerIdAndEpoch | None = None
    """Producer in whose transaction ``records`` are."""
    otherwise: list[SetTimer] = field(default_factory=list)
    """Timers in place of ``timers`` if ``records`` cannot be appended: the timer that fired fires again."""
    evidence: Callable[[], JournalEntry] | None = None
    """Makes the entry before ``journal`` once ``records`` are on the log; a failed write has no such entry."""
    worked_us: int = 0
    """Estimated cost of a step of long work."""
    then: Callable[[], Outcome] | None = None
    """Next decision once ``records`` are on the log and replayed, such as the start of a session."""


class TopicsView(Protocol):
    """What the coordinator may know of topics."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int | None: ...

    def names(self) -> Iterable[str]:
        """Return every topic there is, those of the broker's own among them."""

    def end_offset(self, name: str, partition: int) -> int | None:
        """Return the offset that the next record will have, as evidence; None where that is not known here."""

    def made_at_ms(self, name: str) -> int | None:
        """Return when a topic was made, as evidence; None where that was before this broker started."""

    @property
    def version(self) -> int:
        """A number that grows whenever a topic is made, deleted, or given partitions."""


AppendRecords = Callable[[int, Sequence[tuple[bytes, bytes | None]], int, ProducerIdAndEpoch | None], None]
"""Append ``(key, value)`` pairs to a partition of ``__consumer_offsets`` at ``now_ms``, as one batch, whole or not at
all; in the transaction of a producer, if there is one. Raises ApiError or StorageError when it cannot."""


APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
"""What members are told when an append fails with the code on the left (protocol/groups.md#storage-errors)."""


def append_error(error: KohortError) -> ErrorCode:
    """Return the error code for members; other errors than a broker's answer are storage errors."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
    return APPEND_ERRORS.get(code, code)

"""Input and result of a coordinator decision: request, records, responses, timers, journal entries.

A decision changes volatile state only. The runtime appends ``records``, replays them, then sets ``timers`` and sends
``replies``. If the append fails, it sends errors instead and drops the group's rebalance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from kohort.coordinator.journal import ClientIdentity, JournalEntry
from kohort.coordinator.records import Record
from kohort.errors import ApiError, ErrorCode, KohortError
from kohort.model import ProducerIdAndEpoch
from kohort.wire.schema import Message

ConsumerTimer = Literal["member_session", "revocation", "rejoin", "resync", "regex", "target"]
"""Kind of timer in a consumer group."""
TimerKind = Literal["round", "sync", "session", "pending", "offsets"] | ConsumerTimer
M = TypeVar("M", bound=Message)
MayDescribe = Callable[[str], bool]
AppendRecords = Callable[[int, Sequence[tuple[bytes, bytes | None]], int, ProducerIdAndEpoch | None], None]
"""Function that appends ``(key, value)`` pairs to a ``__consumer_offsets`` partition as one batch.

With a producer, the batch belongs to its transaction. Raises ApiError or StorageError.
"""
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
"""Error codes as a dict: error of the failed append -> error in the response to the member."""


class TimerKey(NamedTuple):
    """Key of a coordinator timer. ``member_id`` is empty for a timer of the whole group."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""


class SetTimer(NamedTuple):
    """Set a timer; it replaces a timer with the same key."""

    key: TimerKey
    at_ms: int


class CancelTimer(NamedTuple):
    key: TimerKey


def may_describe_all(_topic: str) -> bool:
    return True


@dataclass(slots=True, eq=False)
class GroupRequest:
    """Request to a group, with its API version, client identity and reply address.

    ``client_host`` has Kafka's form (``/127.0.0.1``). Only the journal uses ``connection``, ``principal`` and
    ``software`` (KIP-511). ``may_describe``: function that is True for topics that the client may describe (ACL).
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

    def message_as(self, kind: type[M]) -> M:
        assert isinstance(self.message, kind)
        return self.message

    @property
    def sender(self) -> ClientIdentity:
        return ClientIdentity("", self.client_id, self.client_host, principal=self.principal)


class Reply(NamedTuple):
    """Response to a request, with its reply address."""

    request: GroupRequest
    message: Message

    @property
    def to(self) -> Hashable:
        return self.request.reply_to


@dataclass(slots=True)
class Outcome:
    """Result of a decision, which the runtime executes.

    ``round_changed``: the decision changed the group's rebalance; a failed append must then drop the rebalance.
    """

    records: list[Record] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[SetTimer | CancelTimer] = field(default_factory=list)
    journal: list[JournalEntry] = field(default_factory=list)
    round_changed: bool = True
    producer: ProducerIdAndEpoch | None = None
    """Producer whose transaction contains ``records``."""
    otherwise: list[SetTimer] = field(default_factory=list)
    """Timers to set instead of ``timers`` after a failed append. Each timer starts another attempt."""
    evidence: Callable[[], JournalEntry] | None = None
    """Function that builds a journal entry about the records; called after their successful append."""
    worked_us: int = 0
    """Estimated cost in microseconds of the decision, if it is one step of a longer computation."""
    then: Callable[[], Outcome] | None = None
    """Function that makes a second decision after the replay of ``records``, for example to start a session."""


class TopicsView(Protocol):
    """Topics of the broker: the queries that coordinator decisions need."""

    def topic_id(self, name: str) -> bytes | None: ...

    def topic_name(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int | None: ...

    def names(self) -> Iterable[str]:
        """Return the names of all topics, including internal ones."""

    def end_offset(self, name: str, partition: int) -> int | None:
        """Return the log end offset of a partition, for the journal; None if unknown."""

    def made_at_ms(self, name: str) -> int | None:
        """Return a topic's creation time in ms, for the journal; None if it was created before the broker started."""

    @property
    def version(self) -> int:
        """Return a number that rises whenever a topic is created, is deleted or gets more partitions."""


def append_error(error: KohortError) -> ErrorCode:
    """Return the error code that members receive after an append failed with ``error``."""
    code = error.code if isinstance(error, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
    return APPEND_ERRORS.get(code, code)

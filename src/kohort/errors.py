"""All errors of kohort, and Kafka's error codes.

KohortError
├── ApiError                 error response of a broker: ``code``, ``retriable`` (Kafka's error codes)
│   └── RecordsRefused       the broker refused a batch because of some records: indexes and reasons
├── ProtocolError            bytes that violate the protocol; ``path`` is the field
│   └── UnsupportedVersion   an unsupported API or version
├── CorruptRecord            a damaged batch: topic, partition, offset
│   └── UndecodableValue     a value in another format than requested, such as JSON
├── StorageError             a failed disk operation, or unusable data
│   ├── DataDirInUse         another broker uses the folder
│   └── CorruptLog           a segment that recovery cannot repair by truncation
├── TableError               a table that cannot take the rows of ``kohort.tables.load``
├── ConfigError              an invalid option: name, value, allowed values
├── UsageError               a call that the object's state forbids (mixed subscriptions, two threads)
├── MissingExtra             a package of ``kohort[...]`` is not installed (an ImportError too)
├── ConnectionFailed         no broker answers, or the connection closed with requests in flight (retriable)
│   └── NotKafka             the server uses another protocol: HTTP, TLS, ...                (not retriable)
├── AuthenticationFailed     brokers reject the login: password, token, certificate
├── ApiTimeout               an operation exceeded ``default.api.timeout.ms``                (retriable)
├── CommitFailed             the member was fenced before its commit
├── TransactionFailed        the transaction must be aborted
├── ProducerFenced           another producer uses the ``transactional.id``
├── NoOffsetForPartition     no committed offset, and ``auto.offset.reset`` is none
├── LogTruncated             read records were truncated, and ``auto.offset.reset`` is none
├── HandlerFailed            a handler of a consumer group raised an error
├── DeadLetterFailed         a failed record cannot be sent to its retry or dead-letter topic
├── SchemaRegistryError      a schema registry refused a request, or does not answer
└── Wakeup                   poll() was interrupted from another thread
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Kafka's error codes (4.4); the names are the protocol's."""

    UNKNOWN_SERVER_ERROR, NONE, OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION = -1, 0, 1, 2, 3
    INVALID_FETCH_SIZE, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT = 4, 5, 6, 7
    BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, MESSAGE_TOO_LARGE, STALE_CONTROLLER_EPOCH = 8, 9, 10, 11
    OFFSET_METADATA_TOO_LARGE, NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS = 12, 13, 14
    COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, INVALID_TOPIC_EXCEPTION, RECORD_LIST_TOO_LARGE = 15, 16, 17, 18
    NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, INVALID_REQUIRED_ACKS, ILLEGAL_GENERATION = 19, 20, 21, 22
    INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, INVALID_SESSION_TIMEOUT = 23, 24, 25, 26
    REBALANCE_IN_PROGRESS, INVALID_COMMIT_OFFSET_SIZE, TOPIC_AUTHORIZATION_FAILED = 27, 28, 29
    GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, INVALID_TIMESTAMP = 30, 31, 32
    UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE, UNSUPPORTED_VERSION, TOPIC_ALREADY_EXISTS = 33, 34, 35, 36
    INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG = 37, 38, 39, 40
    NOT_CONTROLLER, INVALID_REQUEST, UNSUPPORTED_FOR_MESSAGE_FORMAT, POLICY_VIOLATION = 41, 42, 43, 44
    OUT_OF_ORDER_SEQUENCE_NUMBER, DUPLICATE_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 46, 47
    INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, INVALID_TRANSACTION_TIMEOUT = 48, 49, 50
    CONCURRENT_TRANSACTIONS, TRANSACTION_COORDINATOR_FENCED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 51, 52, 53
    SECURITY_DISABLED, OPERATION_NOT_ATTEMPTED, KAFKA_STORAGE_ERROR, LOG_DIR_NOT_FOUND = 54, 55, 56, 57
    SASL_AUTHENTICATION_FAILED, UNKNOWN_PRODUCER_ID, REASSIGNMENT_IN_PROGRESS = 58, 59, 60
    DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_OWNER_MISMATCH = 61, 62, 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTHORIZATION_FAILED, DELEGATION_TOKEN_EXPIRED = 64, 65, 66
    INVALID_PRINCIPAL_TYPE, NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, FETCH_SESSION_ID_NOT_FOUND = 67, 68, 69, 70
    INVALID_FETCH_SESSION_EPOCH, LISTENER_NOT_FOUND, TOPIC_DELETION_DISABLED, FENCED_LEADER_EPOCH = 71, 72, 73, 74
    UNKNOWN_LEADER_EPOCH, UNSUPPORTED_COMPRESSION_TYPE, STALE_BROKER_EPOCH, OFFSET_NOT_AVAILABLE = 75, 76, 77, 78
    MEMBER_ID_REQUIRED, PREFERRED_LEADER_NOT_AVAILABLE, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 79, 80, 81, 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE, ELECTION_NOT_NEEDED, NO_REASSIGNMENT_IN_PROGRESS = 83, 84, 85
    GROUP_SUBSCRIBED_TO_TOPIC, INVALID_RECORD, UNSTABLE_OFFSET_COMMIT, THROTTLING_QUOTA_EXCEEDED = 86, 87, 88, 89
    PRODUCER_FENCED, RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE, UNACCEPTABLE_CREDENTIAL = 90, 91, 92, 93
    INCONSISTENT_VOTER_SET, INVALID_UPDATE_VERSION, FEATURE_UPDATE_FAILED = 94, 95, 96
    PRINCIPAL_DESERIALIZATION_FAILURE, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE, UNKNOWN_TOPIC_ID = 97, 98, 99, 100
    DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED, INCONSISTENT_TOPIC_ID = 101, 102, 103
    INCONSISTENT_CLUSTER_ID, TRANSACTIONAL_ID_NOT_FOUND, FETCH_SESSION_TOPIC_ID_ERROR = 104, 105, 106
    INELIGIBLE_REPLICA, NEW_LEADER_ELECTED, OFFSET_MOVED_TO_TIERED_STORAGE, FENCED_MEMBER_EPOCH = 107, 108, 109, 110
    UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR, STALE_MEMBER_EPOCH, MISMATCHED_ENDPOINT_TYPE = 111, 112, 113, 114
    UNSUPPORTED_ENDPOINT_TYPE, UNKNOWN_CONTROLLER_ID, UNKNOWN_SUBSCRIPTION_ID = 115, 116, 117
    TELEMETRY_TOO_LARGE, INVALID_REGISTRATION, TRANSACTION_ABORTABLE, INVALID_RECORD_STATE = 118, 119, 120, 121
    SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, FENCED_STATE_EPOCH, INVALID_VOTER_KEY = 122, 123, 124, 125
    DUPLICATE_VOTER, VOTER_NOT_FOUND, INVALID_REGULAR_EXPRESSION, REBOOTSTRAP_REQUIRED = 126, 127, 128, 129
    STREAMS_INVALID_TOPOLOGY, STREAMS_INVALID_TOPOLOGY_EPOCH, STREAMS_TOPOLOGY_FENCED = 130, 131, 132
    SHARE_SESSION_LIMIT_REACHED, GROUP_DELETION_FAILED, STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 133, 134, 135
    CONTROLLER_ID_NOT_REGISTERED = 136

    @property
    def retriable(self) -> bool:
        """True if a client may repeat the same request unchanged."""
        return self in RETRIABLE


RETRIABLE: Final = frozenset({
    ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_CONTROLLER, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.LISTENER_NOT_FOUND,
    ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.SHARE_SESSION_NOT_FOUND,
    ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_LIMIT_REACHED,
})  # fmt: skip


def error_code(value: int) -> ErrorCode:
    """Return the code of a number from the wire; UNKNOWN_SERVER_ERROR for an unknown number."""
    return _CODES.get(value, ErrorCode.UNKNOWN_SERVER_ERROR)


_CODES: Final = {code.value: code for code in ErrorCode}


class KohortError(Exception):
    """Base class of all errors of kohort."""

    retriable: bool = False


class ApiError(KohortError):
    """Error response of a broker: Kafka's ``code``, the broker's ``message``, ``retriable`` if a retry can succeed.

    The broker raises it, too, and sends it as the error code of a response.
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message
        self.retriable = code.retriable


class RecordsRefused(ApiError):
    """A batch that a broker refused because of some of its records (KIP-467).

    ``refused``: index and reason of the first refused records; ``count``: number of all refused records.
    """

    def __init__(self, code: ErrorCode, refused: Sequence[tuple[int, str]], count: int) -> None:
        super().__init__(code, f"{count} records of the batch were refused: {refused[0][1]}")
        self.refused = refused
        self.count = count


class ProtocolError(KohortError):
    """Bytes that violate the protocol. ``path`` is the field, as in ``topics[3].partitions``."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(f"{path}: {problem}" if path else problem)
        self.problem = problem
        self.path = path


class UnsupportedVersion(ProtocolError):
    """An unsupported API key or version."""


class CorruptRecord(KohortError):
    """A record batch that fails its checks (length, CRC, count, encoding)."""

    def __init__(self, problem: str, *, topic: str = "", partition: int = -1, offset: int = -1) -> None:
        where = f"{topic}-{partition} at offset {offset}: " if topic else ""
        super().__init__(f"{where}{problem}")
        self.problem = problem
        self.topic = topic
        self.partition = partition
        self.offset = offset


class UndecodableValue(CorruptRecord):
    """A record value that does not match the requested format, such as JSON; ``seek`` behind ``offset`` to skip it."""


class StorageError(KohortError):
    """A failed disk operation, or unusable data on the disk."""


class DataDirInUse(StorageError):
    """The data folder is used by another running broker."""


class CorruptLog(StorageError):
    """A segment that recovery cannot repair by truncation."""


class TableError(KohortError):
    """A table that cannot take the rows of ``kohort.tables.load``: other columns, or offsets of another source."""


class ConfigError(KohortError):
    """An invalid option: its name, the value, and the allowed values."""


class UsageError(KohortError):
    """A method call that the object's state or the arguments do not allow."""


class MissingExtra(KohortError, ImportError):
    """A required package is not installed; ``name`` is the package, the message has the extra."""


class ConnectionFailed(KohortError):
    """No broker answers at the address, or the connection closed with requests in flight."""

    retriable = True


class NotKafka(ConnectionFailed):
    """All addresses answer with another protocol than Kafka's; retries cannot succeed."""

    retriable = False


class AuthenticationFailed(KohortError):
    """The reachable brokers reject the client's login, or the client does not trust their certificate.

    The waiting call raises this error; the next call tries to log in again.
    """


class ApiTimeout(KohortError):
    """A client's call exceeded its timeout."""

    retriable = True


class CommitFailed(KohortError):
    """The group rebalanced without this member before its commit."""


class TransactionFailed(KohortError):
    """Records of the transaction are lost, so it must be aborted; ``__cause__`` is the first error."""


class ProducerFenced(KohortError):
    """Another producer uses the same ``transactional.id``, or the coordinator aborted this one's transaction.

    This producer cannot send any more. Close it, and create a new one unless it was replaced intentionally.
    """


class NoOffsetForPartition(KohortError):
    """The partition has no committed offset, and ``auto.offset.reset`` is ``none``."""


class HandlerFailed(KohortError):
    """The handler method ``consume_claim`` of a consumer group raised ``__cause__``, which ended the session."""

    def __init__(self, partition: str, error: BaseException) -> None:
        super().__init__(f"consume_claim of {partition} failed: {type(error).__name__}: {error}")
        self.partition = partition


class DeadLetterFailed(KohortError):
    """A failed record cannot be sent to its retry or dead-letter topic; its offset is not committed."""


class LogTruncated(KohortError):
    """The log was truncated below the position, from ``divergent_offset`` on (None: unknown)."""

    def __init__(
        self, partition: str, position: int, divergent_offset: int | None, *, is_recreated: bool = False
    ) -> None:
        where = "an unknown offset" if divergent_offset is None else f"offset {divergent_offset}"
        problem = "the topic was deleted and created again" if is_recreated else f"the log was truncated at {where}"
        super().__init__(f"{partition}: read up to {position}, but {problem}; seek() to a new position")
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


class SchemaRegistryError(KohortError):
    """Error of a schema registry: its ``code`` (such as 40401, or the HTTP status; 0: no answer) and the ``subject``.

    ``retriable``: True if a later retry can succeed.
    """

    def __init__(self, problem: str, *, code: int = 0, subject: str | None = None, retriable: bool = False) -> None:
        super().__init__(problem)
        self.code = code
        self.subject = subject
        self.retriable = retriable


class Wakeup(KohortError):
    """A waiting call of a consumer was interrupted by wakeup() from another thread."""

"""The tree of all errors, and Kafka's error codes.

KohortError
├── ApiError                 the answer of a broker: ``code``, ``retriable`` (Kafka's error codes)
│   └── RecordsRefused       some of a batch's records are not taken, so none is: which, and why
├── ProtocolError            bytes that are not what the protocol says; ``path`` names the field
│   └── UnsupportedVersion   an API or a version that this side does not speak
├── CorruptRecord            a batch that fails its checks: topic, partition and offset are named
│   └── UndecodableValue     a value that is not what the consumer asked for, such as JSON
├── StorageError             the disk refused, or what it holds cannot be used
│   ├── DataDirInUse         another broker owns the folder
│   └── CorruptLog           a segment that recovery cannot mend by cutting its tail
├── ConfigError              the user's option: its name, its value, what is allowed
├── UsageError               a call that the state of the object forbids (mixed subscriptions, two threads)
├── MissingExtra             a package is not installed; ``kohort[...]`` brings it (an ImportError too)
├── ConnectionFailed         nobody answers, or the connection ended with requests under way  (retriable)
│   └── NotKafka             what answers there speaks another protocol: HTTP, TLS, ...       (not retriable)
├── AuthenticationFailed     brokers are there, and do not let this client in: password, token, certificate
├── ApiTimeout               an operation outlived ``default.api.timeout.ms``                 (retriable)
├── CommitFailed             the member was fenced out of its group before its commit
├── TransactionFailed        the transaction cannot be committed any more; abort it
├── ProducerFenced           another producer has taken over the ``transactional.id``; this one is done
├── NoOffsetForPartition     nothing committed, and ``auto.offset.reset`` is none
├── LogTruncated             the log lost what was read, and ``auto.offset.reset`` is none
├── HandlerFailed            a handler of a consumer group raised: the partition, and what it raised
└── Wakeup                   poll() was interrupted from another thread
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Kafka's error codes (4.4); the names are the protocol's."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133
    GROUP_DELETION_FAILED = 134
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135
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
    """Error response of a broker: ``code`` is Kafka's, ``message`` the broker's; ``retriable``: a retry can succeed.

    The broker's own code raises it too; it becomes the error field of a response.
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
    """A value that does not match the requested format; ``seek`` behind ``offset`` to skip it."""


class StorageError(KohortError):
    """A failed disk operation, or unusable data on the disk."""


class DataDirInUse(StorageError):
    """The data folder is used by another running broker."""


class CorruptLog(StorageError):
    """A segment that recovery cannot repair by truncation."""


class ConfigError(KohortError):
    """An invalid option: its name, the value, and the allowed values."""


class UsageError(KohortError):
    """A call that is not allowed in the object's state."""


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

    The waiting call raises it; the next call tries again.
    """


class ApiTimeout(KohortError):
    """The operation exceeded its timeout."""

    retriable = True


class CommitFailed(KohortError):
    """The member does not belong to the commit's generation any more."""


class TransactionFailed(KohortError):
    """Records of the transaction are lost, so it must be aborted; ``__cause__`` is the first error."""


class ProducerFenced(KohortError):
    """Another producer uses the same ``transactional.id``, or the coordinator aborted this one's transaction.

    This producer cannot send any more. Close it, and create a new one unless it was replaced intentionally.
    """


class NoOffsetForPartition(KohortError):
    """The partition has no committed offset, and ``auto.offset.reset`` is ``none``."""


class HandlerFailed(KohortError):
    """``consume_claim`` of a consumer group's handler raised ``__cause__``; its session has ended."""

    def __init__(self, partition: str, error: BaseException) -> None:
        super().__init__(f"consume_claim of {partition} failed: {type(error).__name__}: {error}")
        self.partition = partition


class LogTruncated(KohortError):
    """The log was truncated before the position; ``divergent_offset`` is the first different offset, None if
    unknown.
    """

    def __init__(
        self, partition: str, position: int, divergent_offset: int | None, *, is_recreated: bool = False
    ) -> None:
        where = "an unknown offset" if divergent_offset is None else f"offset {divergent_offset}"
        problem = "the topic was deleted and created again" if is_recreated else f"the log was truncated at {where}"
        super().__init__(f"{partition}: read up to {position}, but {problem}; seek() to a new position")
        self.partition = partition
        self.position = position
        self.divergent_offset = divergent_offset


class Wakeup(KohortError):
    """A waiting call of a consumer was interrupted by wakeup() from another thread."""

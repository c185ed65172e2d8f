"""Catalogue of causes and error codes, and the functions with which ``kohort explain`` searches it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kohort.errors import ErrorCode
from kohort.insight.causes.table import REBALANCE_CAUSES
from kohort.insight.evidence import CauseEntry
from kohort.insight.patterns import PATTERNS
from kohort.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """Catalogue entry of an error code: its meaning for a group member, advice, and related causes."""

    meaning: str
    advice: str
    causes: tuple[str, ...] = ()


GROUP_ERRORS: Final[Mapping[ErrorCode, ErrorEntry]] = {
    ErrorCode.NONE: ErrorEntry("No error.", "no action needed"),
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorEntry(
        "The broker failed without a specific error code.", "read the broker's log"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorEntry(
        "The member is not in the group: it was removed, or it never joined.",
        "the client rejoins by itself; records handled since the removal are handled twice. Find the removal's reason",
        ("CLIENT_RESET", "ZOMBIE_COMMIT", "SESSION_TIMEOUT", "JOIN_TIMEOUT"),
    ),
    ErrorCode.ILLEGAL_GENERATION: ErrorEntry(
        "The request has another generation than the group: the group rebalanced before the member sent the request.",
        "the client rejoins by itself; a commit with this error has no effect",
        ("ZOMBIE_COMMIT", "GENERATION_LOST"),
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorEntry(
        "The group rebalances: the member must rejoin.",
        "no action needed, unless the rebalance lasts long: then one member does not poll",
        ("JOIN_TIMEOUT",),
    ),
    ErrorCode.MEMBER_ID_REQUIRED: ErrorEntry(
        "The coordinator gave a new member its id (KIP-394).",
        "no action needed: the client joins with this id",
        ("NEW_MEMBER",),
    ),
    ErrorCode.FENCED_INSTANCE_ID: ErrorEntry(
        "Another process uses the same group.instance.id.",
        "give every process its own instance id",
        ("STATIC_DUPLICATE",),
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorEntry(
        "The group.instance.id belongs to a member that has not left (KIP-848).",
        "wait until its session expires, or end the other process",
        ("STATIC_DUPLICATE",),
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorEntry(
        "The member's epoch is wrong (KIP-848): the coordinator removed the member, or the member missed an epoch.",
        "the client revokes its partitions and rejoins by itself",
        ("ZOMBIE_COMMIT", "REVOCATION_TIMEOUT", "SESSION_TIMEOUT"),
    ),
    ErrorCode.STALE_MEMBER_EPOCH: ErrorEntry(
        "The member commits or fetches offsets with an earlier one of its epochs (KIP-848).",
        "the client retries with its present epoch, unless it has lost the partition",
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ErrorEntry(
        "The group has group.max.size members.",
        "raise group.max.size, or run fewer members",
        ("GROUP_FULL", "OVER_CAPACITY"),
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ErrorEntry(
        "The member shares no assignor with all other members, or the group has another protocol type.",
        "give every member a common entry in partition.assignment.strategy; another program may use this group.id",
        ("INCOMPATIBLE_ASSIGNORS", "ASSIGNOR_CHANGED"),
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: ErrorEntry(
        "The broker has no such assignor (KIP-848).",
        "use an assignor that the broker lists in group.consumer.assignors",
        ("ASSIGNOR_CHANGED",),
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: ErrorEntry(
        "The subscription pattern is invalid.",
        "use RE2 syntax, without look-around or back references",
        ("REGEX_RESOLVED",),
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: ErrorEntry(
        "session.timeout.ms is out of bounds.", "choose a value within the broker's group.{min,max}.session.timeout.ms"
    ),
    ErrorCode.INVALID_GROUP_ID: ErrorEntry("The group.id is empty or invalid.", "give the consumer a group.id"),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorEntry(
        "The group does not exist, or has another type than the request expects.",
        "list the groups: kohort groups; a group without members expires with its last offset",
        ("GROUP_DELETED",),
    ),
    ErrorCode.NON_EMPTY_GROUP: ErrorEntry(
        "The group has members, but the request needs an empty group.", "stop the group's members first"
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ErrorEntry(
        "Offsets of a subscribed topic cannot be deleted.", "stop the group's members, or unsubscribe first"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorEntry(
        "The client may not use this group.", "grant the client READ on the group: kohort acls add"
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorEntry(
        "The client may not read a topic; members with different rights see different topics.",
        "grant the client READ on the topic: kohort acls add",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorEntry(
        "The coordinator still loads the group from its log.",
        "no action needed: clients retry",
        ("COORDINATOR_FAILOVER",),
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorEntry(
        "The group has no coordinator.",
        "if it lasts, check the leaders of __consumer_offsets",
        ("COORDINATOR_FAILOVER",),
    ),
    ErrorCode.NOT_COORDINATOR: ErrorEntry(
        "The group has moved to another broker.", "no action needed: clients find it", ("COORDINATOR_FAILOVER",)
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: ErrorEntry(
        "The metadata of a committed offset is too long.", "keep the metadata below offset.metadata.max.bytes"
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorEntry(
        "A commit is larger than the largest allowed record.", "commit fewer partitions at once"
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorEntry(
        "An open transaction has offsets of the group (KIP-447).",
        "no action needed: the client waits; if it lasts: kohort transactions list, and find-hanging",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: ErrorEntry(
        "The committed offset is before the start of the log, or after its end.",
        "auto.offset.reset sets the next offset; check that retention is longer than the lag",
        ("OFFSETS_RESET",),
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorEntry(
        "A topic does not exist, or the client may not see it.",
        "list the topics: kohort topics list; the deletion of a subscribed topic rebalances the group",
        ("TOPIC_DELETED", "TOPIC_CREATED"),
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorEntry(
        "No topic has this id: the topic was deleted, and possibly recreated under its name.",
        "no action needed: clients refresh their metadata; committed offsets of the old topic are invalid",
        ("TOPIC_DELETED", "TOPIC_CREATED"),
    ),
    ErrorCode.INVALID_CONFIG: ErrorEntry(
        "An option has an invalid value.", "read the error message, which names the option", ("CONFIG_CHANGED",)
    ),
    ErrorCode.TRANSACTION_ABORTABLE: ErrorEntry(
        "The transaction cannot be committed; the producer can continue after an abort.",
        "abort, and read the input again from the group's offsets",
    ),
    ErrorCode.PRODUCER_FENCED: ErrorEntry(
        "Another producer has the same transactional.id, or the consumer's partitions moved to another member.",
        "end this producer; give each process its own transactional.id",
    ),
    ErrorCode.UNSUPPORTED_VERSION: ErrorEntry(
        "The broker does not support this version of the request: group.protocol=consumer needs Kafka 4.0.",
        "use group.protocol=classic, or a newer broker",
        ("PROTOCOL_MIGRATION",),
    ),
    ErrorCode.GROUP_DELETION_FAILED: ErrorEntry(
        "The broker could not delete the group, though it is empty.", "retry; if it fails again, read the broker's log"
    ),
}


CAUSES: Final[Mapping[str, CauseEntry]] = {**REBALANCE_CAUSES, **{entry.code: entry for entry in PATTERNS}}


def find_cause_entry(word: str) -> CauseEntry | None:
    """Find the catalogue entry of a cause. ``word`` is its code or the code's last part, such as ``frozen``."""
    wanted = _plain(word)
    for code, entry in CAUSES.items():
        if wanted in (_plain(code), _plain(code.rpartition(".")[2])):
            return entry
    return None


def find_error(word: str) -> ErrorCode | None:
    """Return the Kafka error code for a number (``22``), a name or a Java class (``IllegalGenerationException``)."""
    text = word.strip()
    if text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) < 7:
        return next((code for code in ErrorCode if code == int(text)), None)
    wanted = _plain(text)
    names = {_plain(code.name): code for code in ErrorCode}
    return names.get(wanted) or names.get(wanted.removesuffix("exception"))


def explain_error(code: ErrorCode) -> ErrorEntry:
    entry = GROUP_ERRORS.get(code)
    if entry is not None:
        return entry
    if code.retriable:
        return ErrorEntry(
            "The error does not concern the group: the request can be repeated unchanged.", "clients try again"
        )
    return ErrorEntry("The error does not concern the group.", "read the client's log: it names the failed call")


def suggestion(word: str) -> str:
    """Return ``"; did you mean X?"`` with the most similar name in the catalogue, or an empty string."""
    known = [*CAUSES, *(code.name for code in ErrorCode)]
    return did_you_mean(word[:100].strip().upper().replace("-", "_").replace(" ", "_"), known)


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "").replace("-", "").replace(" ", "")

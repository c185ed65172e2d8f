"""Catalogue of causes and of error codes, with the lookups of ``kohort explain``."""

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
    """Meaning of a protocol's error code for a member of a group, and the advice."""

    meaning: str
    advice: str
    causes: tuple[str, ...] = ()


GROUP_ERRORS: Final[Mapping[ErrorCode, ErrorEntry]] = {
    ErrorCode.NONE: ErrorEntry("No error.", "nothing to do"),
    ErrorCode.UNKNOWN_SERVER_ERROR: ErrorEntry(
        "The broker failed in a way that has no code.", "read the broker's log at that time"
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorEntry(
        "The group does not know this member, or not any more: it was put out, or never got in.",
        "it joins anew by itself; what it handled since it was out is handled twice. Find out why it was out",
        ("CLIENT_RESET", "ZOMBIE_COMMIT", "SESSION_TIMEOUT", "JOIN_TIMEOUT"),
    ),
    ErrorCode.ILLEGAL_GENERATION: ErrorEntry(
        "The request is of another generation than the group's: handling outlasted a rebalance.",
        "it joins again by itself; a commit with this error did not happen",
        ("ZOMBIE_COMMIT", "GENERATION_LOST"),
    ),
    ErrorCode.REBALANCE_IN_PROGRESS: ErrorEntry(
        "The group rebalances: the member is to join again.",
        "nothing, unless it goes on for long: then somebody does not poll",
        ("JOIN_TIMEOUT",),
    ),
    ErrorCode.MEMBER_ID_REQUIRED: ErrorEntry(
        "A new member was given an id and is to come back with it (KIP-394); this is no fault.",
        "nothing: the client joins again at once, with the id",
        ("NEW_MEMBER",),
    ),
    ErrorCode.FENCED_INSTANCE_ID: ErrorEntry(
        "Another process has taken the place of this group.instance.id.",
        "give every process an instance id of its own; a client does not recover from this by itself",
        ("STATIC_DUPLICATE",),
    ),
    ErrorCode.UNRELEASED_INSTANCE_ID: ErrorEntry(
        "The group.instance.id is in use by a member that has not left (KIP-848).",
        "wait until its session ends, or end the other process",
        ("STATIC_DUPLICATE",),
    ),
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorEntry(
        "The member's epoch is not one that the coordinator gave it (KIP-848): it was put out, or missed much.",
        "it gives up its partitions and joins anew by itself",
        ("ZOMBIE_COMMIT", "REVOCATION_TIMEOUT", "SESSION_TIMEOUT"),
    ),
    ErrorCode.STALE_MEMBER_EPOCH: ErrorEntry(
        "A commit or fetch of offsets under an earlier epoch of the member (KIP-848).",
        "the client tries again with its present epoch, unless it has lost the partition since",
        ("ZOMBIE_COMMIT",),
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: ErrorEntry(
        "The group has as many members as group.max.size allows.",
        "raise group.max.size, or run fewer members",
        ("GROUP_FULL", "OVER_CAPACITY"),
    ),
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: ErrorEntry(
        "The member shares no assignor with all the others, or the group is not one of consumers.",
        "give every member a common entry in partition.assignment.strategy; another program may use this group.id",
        ("INCOMPATIBLE_ASSIGNORS", "ASSIGNOR_CHANGED"),
    ),
    ErrorCode.UNSUPPORTED_ASSIGNOR: ErrorEntry(
        "The broker has no assignor of that name (KIP-848).",
        "group.remote.assignor must be one of group.consumer.assignors of the broker",
        ("ASSIGNOR_CHANGED",),
    ),
    ErrorCode.INVALID_REGULAR_EXPRESSION: ErrorEntry(
        "The pattern of a subscription cannot be read (RE2, not Java's).",
        "mend the pattern: RE2 has no look-around and no back references",
        ("REGEX_RESOLVED",),
    ),
    ErrorCode.INVALID_SESSION_TIMEOUT: ErrorEntry(
        "session.timeout.ms is out of the broker's bounds.",
        "keep it between group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    ErrorCode.INVALID_GROUP_ID: ErrorEntry("The group.id is empty, or not one.", "give the consumer a group.id"),
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorEntry(
        "There is no such group, or it is of another kind than the request is for.",
        "look at kohort groups; a group without offsets and members is forgotten",
        ("GROUP_DELETED",),
    ),
    ErrorCode.NON_EMPTY_GROUP: ErrorEntry(
        "The group has members, and what was asked for needs an empty one.", "stop its members first"
    ),
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ErrorEntry(
        "Offsets of a topic that members subscribe to cannot be deleted.", "stop its members, or unsubscribe first"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ErrorEntry(
        "The client may not use this group.", "grant it READ on the group: kohort acls add"
    ),
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ErrorEntry(
        "The client may not read a topic: members of one group with different rights see different topics.",
        "grant it READ on the topic: kohort acls add",
    ),
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorEntry(
        "The coordinator is still reading the group from its log.",
        "nothing: clients try again",
        ("COORDINATOR_FAILOVER",),
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorEntry(
        "Nobody coordinates the group right now.",
        "nothing, for a while; for long: look at the leaders of __consumer_offsets",
        ("COORDINATOR_FAILOVER",),
    ),
    ErrorCode.NOT_COORDINATOR: ErrorEntry(
        "Another broker coordinates the group: it has moved.",
        "nothing: clients look for it",
        ("COORDINATOR_FAILOVER",),
    ),
    ErrorCode.OFFSET_METADATA_TOO_LARGE: ErrorEntry(
        "The text with a committed offset is too long.", "keep it under offset.metadata.max.bytes"
    ),
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE: ErrorEntry(
        "A commit is too large to be written.", "commit fewer partitions at once"
    ),
    ErrorCode.UNSTABLE_OFFSET_COMMIT: ErrorEntry(
        "A transaction has offsets of the group that are not decided yet (KIP-447).",
        "nothing: the client waits; for long: kohort transactions list, and find-hanging",
    ),
    ErrorCode.OFFSET_OUT_OF_RANGE: ErrorEntry(
        "The committed offset is before the start of the log, or after its end.",
        "auto.offset.reset decides where reading goes on; look whether retention is shorter than the lag",
        ("OFFSETS_RESET",),
    ),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorEntry(
        "A topic is not there, or must not be seen.",
        "look at kohort topics list; a group that reads a deleted topic rebalances",
        ("TOPIC_DELETED", "TOPIC_CREATED"),
    ),
    ErrorCode.UNKNOWN_TOPIC_ID: ErrorEntry(
        "A topic with this id is not there: it was deleted, and maybe made anew under its name.",
        "nothing: clients refresh what they know; committed offsets of the old topic do not count",
        ("TOPIC_DELETED", "TOPIC_CREATED"),
    ),
    ErrorCode.INVALID_CONFIG: ErrorEntry(
        "An option has a value that is not allowed.", "the answer's words name it", ("CONFIG_CHANGED",)
    ),
    ErrorCode.TRANSACTION_ABORTABLE: ErrorEntry(
        "The transaction cannot be committed, but the producer may go on after it has aborted it.",
        "abort, and read the input again from the group's offsets",
    ),
    ErrorCode.PRODUCER_FENCED: ErrorEntry(
        "Another producer has the same transactional.id: of one that reads from a group, its partitions moved on.",
        "end this producer; give each process a transactional.id of its own",
    ),
    ErrorCode.UNSUPPORTED_VERSION: ErrorEntry(
        "The broker does not speak this request in that version: group.protocol=consumer needs Kafka 4.0.",
        "use group.protocol=classic, or a newer broker",
        ("PROTOCOL_MIGRATION",),
    ),
    ErrorCode.GROUP_DELETION_FAILED: ErrorEntry(
        "The group could not be deleted, though it is empty.", "try again; read the broker's log if it stays so"
    ),
}


CAUSES: Final[Mapping[str, CauseEntry]] = {**REBALANCE_CAUSES, **{entry.code: entry for entry in PATTERNS}}
"""By code, in the order of the pages."""


def find_cause_entry(word: str) -> CauseEntry | None:
    """Return the cause that ``word`` names, in any spelling; ``frozen`` is SESSION_TIMEOUT.frozen."""
    wanted = _plain(word)
    for code, entry in CAUSES.items():
        if wanted in (_plain(code), _plain(code.rpartition(".")[2])):
            return entry
    return None


def find_error(word: str) -> ErrorCode | None:
    """Return the error code that ``word`` names: ``22``, ``ILLEGAL_GENERATION`` or ``IllegalGenerationException``."""
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
        return ErrorEntry("It says nothing about the group: a request may be repeated as it is.", "clients try again")
    return ErrorEntry("It says nothing about the group.", "the client's own log says which call it ended")


def suggestion(word: str) -> str:
    """Return ``"; did you mean X?"``, or nothing without a similar name."""
    known = [*CAUSES, *(code.name for code in ErrorCode)]
    return did_you_mean(word[:100].strip().upper().replace("-", "_").replace(" ", "_"), known)


def _plain(word: str) -> str:
    return word.strip().lower().replace("_", "").replace("-", "").replace(" ", "")

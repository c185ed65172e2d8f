"""The journal of group events: what the coordinator saw, when, with the evidence, as values that go to JSON and back.

The coordinator writes entries and never reads them; ``kohort.insight`` makes causes and sentences of them. An entry
states facts (who, how long silent, which reason text came with the request), not conclusions. Free text from clients is
kept as it came: code that shows it has to escape it.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal

SCHEMA: Final = "kohort/journal/1"

TriggerEvent = Literal[
    "member_joined",  # a new member
    "member_rejoined",  # a member whose protocols changed, or the leader, sent JoinGroup again
    "member_left",  # LeaveGroup
    "session_expired",  # no sign of life within the session timeout
    "new_member_expired",  # a new member whose first generation did not come within five minutes
    "sync_timeout",  # members did not send SyncGroup in time
    "static_replaced",  # a static member came back under a new id, and the group could not go on as it was
    "over_capacity",  # loaded with more members than group.max.size
    "append_failed",  # the generation could not be written
]
Removal = Literal[
    "left",
    "session_expired",
    "new_member_expired",
    "join_timeout",  # did not rejoin while the round was open
    "sync_timeout",
    "group_full",
    "pending_left",
    "pending_expired",  # was given an id and never came back with it
]


@dataclass(frozen=True, slots=True)
class Who:
    """A member as people know it."""

    member_id: str
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What was known of a member at the time of the entry."""

    session_timeout_ms: int
    rebalance_timeout_ms: int
    last_seen_ms: int
    longest_gap_ms: int = 0
    """The longest silence between two of its requests since it joined the generation."""
    connection_closed_at_ms: int | None = None
    """When the connection of its last request closed; None if it is open, as far as is known."""
    commits: int = 0
    last_progress_ms: int | None = None
    """When a commit of this member last moved an offset forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """How a rejoining member differs from what it was."""

    was_leader: bool = False
    protocols_before: tuple[str, ...] = ()
    protocols_after: tuple[str, ...] = ()
    topics_added: tuple[str, ...] = ()
    topics_removed: tuple[str, ...] = ()
    owned_changed: bool = False
    """The subscription differs in the partitions owned, as in the second round of a cooperative rebalance."""
    partitions_changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Subscribed topics whose number of partitions changed since the generation began: before and after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Why a round was opened: what happened, to whom, and what the client said about it."""

    event: TriggerEvent
    who: Who | None = None
    reason: str | None = None
    api_version: int | None = None
    vitals: Vitals | None = None
    change: Change | None = None
    others: tuple[Who, ...] = ()
    """Further members of the same event, such as a LeaveGroup of several."""
    leader_lost: bool = False
    """The leader is among those who are gone."""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """Something that happened to a group."""

    CLAIMS_WRITTEN: ClassVar[bool] = False
    """The entry says that records are on the log, so it goes when their append fails."""

    at_ms: int
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOpened(JournalEntry):
    """The group began to rebalance: members must join again."""

    trigger: Trigger
    from_generation: int
    members: tuple[Who, ...]
    timeout_ms: int
    initial: bool = False
    """The group was empty and waits ``timeout_ms`` for more members to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberArrived(JournalEntry):
    """A JoinGroup was parked in the open round, ``after_ms`` after it opened."""

    who: Who
    after_ms: int
    new: bool
    reason: str | None = None
    api_version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRemoved(JournalEntry):
    """A member, or a pending one, is gone."""

    who: Who
    why: Removal
    reason: str | None = None
    api_version: int | None = None
    by: Who | None = None
    """Who asked for it, where that was not the member itself."""
    vitals: Vitals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClosed(JournalEntry):
    """The join phase is over: a new generation, or an empty group."""

    generation: int
    members: tuple[Who, ...]
    leader: str | None
    protocol_type: str
    protocol: str | None
    took_ms: int


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that changed hands; ``None`` is nobody."""

    topic: str
    partition: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentWritten(JournalEntry):
    """The leader's assignment is on the log; ``took_ms`` after the join phase ended."""

    CLAIMS_WRITTEN: ClassVar[bool] = True

    generation: int
    took_ms: int
    partitions: dict[str, dict[str, tuple[int, ...]]] | None
    """Member id to topic to partitions; None where the protocol is not the consumers'."""
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSettled(JournalEntry):
    """The last member has its assignment, ``took_ms`` after it was written."""

    CLAIMS_WRITTEN: ClassVar[bool] = True

    generation: int
    last: Who
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundDropped(JournalEntry):
    """Records could not be appended: the round under way was given up and its requests were refused."""

    error: str
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticReplaced(JournalEntry):
    """A static member came back under a new id and kept its partitions, without a rebalance."""

    CLAIMS_WRITTEN: ClassVar[bool] = True

    who: Who
    old_member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFenced(JournalEntry):
    """A request was refused because its sender is not, or no longer, what it believes to be."""

    who: Who
    api: str
    error: str
    generation: int
    """What the request named; the group is at ``current``."""
    current: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLoaded(JournalEntry):
    """The group was read from the log, at a start or when this broker became its coordinator."""

    generation: int
    members: tuple[Who, ...]
    partitions: dict[str, dict[str, tuple[int, ...]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupUnloaded(JournalEntry):
    """This broker is no longer the group's coordinator."""

    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeleted(JournalEntry):
    """The group is gone: by DeleteGroups, or because its last offset expired."""

    CLAIMS_WRITTEN: ClassVar[bool] = True

    why: Literal["deleted", "expired"]
    by: Who | None = None


KINDS: Final[dict[str, type[JournalEntry]]] = {
    "round_opened": RoundOpened,
    "member_arrived": MemberArrived,
    "member_removed": MemberRemoved,
    "round_closed": RoundClosed,
    "assignment_written": AssignmentWritten,
    "round_settled": RoundSettled,
    "round_dropped": RoundDropped,
    "static_replaced": StaticReplaced,
    "request_fenced": RequestFenced,
    "group_loaded": GroupLoaded,
    "group_unloaded": GroupUnloaded,
    "group_deleted": GroupDeleted,
}
_KIND_OF = {cls: kind for kind, cls in KINDS.items()}


def to_json(entry: JournalEntry) -> dict[str, Any]:
    """``entry`` as a dictionary of JSON's types; what has its default value is left out."""
    head = {"schema": SCHEMA, "kind": _KIND_OF[type(entry)], "at_ms": entry.at_ms, "group": entry.group}
    fields: dict[str, Any] = _plain(entry)
    return head | fields


def from_json(data: Any) -> JournalEntry:
    """The entry of such a dictionary. Raises ValueError for a kind yet unknown or for fields that do not fit.

    Fields that this version does not know are ignored, so that an older tool reads a newer broker's journal.
    """
    kind = data.get("kind") if isinstance(data, dict) else None
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise ValueError(f"not a journal entry of {SCHEMA}: kind {kind!r}")
    try:
        entry: JournalEntry = _typed(cls, data)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"a journal entry of kind {data['kind']!r} that does not fit: {error}") from error
    return entry


def read_entry(value: bytes) -> JournalEntry:
    """The entry that a record of the journal holds. Raises ValueError for any other bytes."""
    try:
        data = json.loads(value)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    return from_json(data)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(v) for f in dataclasses.fields(value) if not _is_default(f, v := getattr(value, f.name))}
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return value


def _is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    if f.default is not dataclasses.MISSING:
        return bool(value == f.default)
    return f.default_factory is not dataclasses.MISSING and not value


@lru_cache(maxsize=64)
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _typed(kind: Any, value: Any) -> Any:
    """``value``, as JSON gives it, in the type that a field declares."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(
            **{f.name: _typed(hints[f.name], value[f.name]) for f in dataclasses.fields(kind) if f.name in value}
        )
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        inner = [a for a in args if a is not type(None)]
        return None if value is None else _typed(inner[0], value)
    if origin is tuple:
        item_kinds = [args[0]] * len(value) if args[-1] is Ellipsis else args
        return tuple(_typed(k, v) for k, v in zip(item_kinds, value, strict=True))
    if origin is dict:
        return {key: _typed(args[1], v) for key, v in value.items()}
    if kind in (int, str, bool) and type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value

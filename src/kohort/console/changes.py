"""Changes that are confirmed: a plan says what it will do and the command that does the same; only its token does it.

A plan is kept here, with what the group was like. It is carried out once, as it was shown, if the group is still as it
was; else it is refused with what is different.
"""

from __future__ import annotations

import secrets
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from kohort.console.guard import Rejected
from kohort.console.routes import AskedRoute, Route
from kohort.errors import KohortError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.results.groups import (
    GroupsDeleted,
    MembersRemoved,
    OffsetsDeleted,
    OffsetsReset,
)
from kohort.results.result import Result
from kohort.verbs.durations import LONGEST_MS, parse_duration_ms
from kohort.verbs.groups import check_inactive, describe, described_or_none, find_members, remove_members, removed_rows
from kohort.verbs.offsets import (
    Moved,
    OffsetTarget,
    clone_offsets,
    committed_of,
    deleted_rows,
    move,
    moved_rows,
    parse_time,
    read_plan,
)
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription
    from kohort.watch.opening import WatchClients

MOST_PLANS: Final = 100
PLAN_S: Final = 600.0
MOST_NAMES: Final = 1_000
LONGEST_REASON: Final = 1_000
MEMBERS_NAMED: Final = 20
TO: Final = {
    "earliest": "to-earliest",
    "latest": "to-latest",
    "current": "to-current",
    "offset": "to-offset",
    "shift": "shift-by",
    "datetime": "to-datetime",
    "duration": "by-duration",
    "file": "from-file",
    "group": "",
}
"""Values of ``to`` and their options; ``group`` is ``kohort group clone``."""
FILE: Final = "offsets.csv"
Kind = Literal["offsets", "offsets:delete", "members:remove", "group:delete"]
KINDS: Final[tuple[Kind, ...]] = ("offsets", "offsets:delete", "members:remove", "group:delete")


class ChangeAsked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of a plan, or of its act with ``confirm``."""

    to: str | None = None
    value: str | int | None = None
    topics: list[str] = []
    members: list[str] = []
    reason: str = ""
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is to be done, and what the group was like."""

    kind: Kind
    group: str
    asked: ChangeAsked
    state: tuple[str, tuple[str, ...]]
    committed: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int | OffsetAndMetadata]
    made_s: float
    user: str | None


class Changes:
    """Plans, and their acts."""

    def __init__(self, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._clock, self._now_ms = clock, now_ms
        self._plans: OrderedDict[str, PlannedChange] = OrderedDict()

    def plan(self, clients: WatchClients, kind: Kind, group: str, asked: ChangeAsked, user: str | None) -> Any:
        """Return the result that the act would have, with ``confirm`` and ``command``. Nothing is changed.

        Raises UsageError for what cannot be asked, NothingThere for what is not there, RefusedByState.
        """
        check_asked(kind, asked)
        with clients.admin() as admin:
            about = None if kind == "offsets" else describe(admin, group)
            told, committed, after = self._planned(admin, kind, group, asked, about)
            about = about if about is not None else _described(told)
        result = (
            told
            if isinstance(told, Result)
            else OffsetsReset(executed=False, partitions=moved_rows({group: told}), refused=[])
        )
        confirm = secrets.token_urlsafe(24)
        self._plans[confirm] = PlannedChange(kind, group, asked, _state(about), committed, after, self._clock(), user)
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        members = [] if about is None else _names(about)
        fields = msgspec.to_builtins(result)
        return {**fields, "confirm": confirm, "command": command_of(kind, group, asked), "members": members}

    def _planned(
        self, admin: Admin, kind: Kind, group: str, asked: ChangeAsked, about: GroupDescription | None
    ) -> tuple[Result | Moved, Mapping[TopicPartition, int], Mapping[TopicPartition, int | OffsetAndMetadata]]:
        if kind == "offsets":
            if asked.to == "group":
                moved = clone_offsets(admin, str(asked.value or ""), group, execute=False)
            else:
                moved = move(admin, group, asked.topics, self._way(asked), execute=False)
            return moved, moved.before, moved.written
        assert about is not None
        committed = _committed(admin, group)
        if kind == "offsets:delete":
            wanted = committed_of(committed, asked.topics)
            if not wanted:
                raise UsageError(f"group {group!r} has committed nothing for {', '.join(asked.topics)}")
            rows = deleted_rows(wanted, committed)
            return OffsetsDeleted(group=group, deleted=rows), committed, dict.fromkeys(wanted, 0)
        if kind == "members:remove":
            return MembersRemoved(group=group, removed=removed_rows(find_members(about, asked.members))), {}, {}
        check_inactive(about, "deleted")
        return GroupsDeleted(deleted=[group]), committed, {}

    def _way(self, asked: ChangeAsked) -> OffsetTarget:
        name = TO.get(asked.to or "")
        if not name:
            raise UsageError(f"to: expected one of {', '.join(TO)}")
        if name in ("to-offset", "shift-by"):
            return OffsetTarget(name, _whole(asked.value, least=0 if name == "to-offset" else -(2**63)))
        if name == "to-datetime":
            return OffsetTarget(name, parse_time(str(asked.value)))
        if name == "by-duration":
            return OffsetTarget(name, max(0, self._now_ms() - _span_ms(asked.value)))
        if name == "from-file":
            return OffsetTarget(name, plan=read_plan(str(asked.value or ""), one_group=True))
        return OffsetTarget(name)

    def apply(self, clients: WatchClients, kind: Kind, group: str, asked: ChangeAsked, user: str | None) -> Result:
        """Do what was planned. Raises Rejected (409) without the token of a plan that is this one, or where the group
        is not as it was; what the coordinator refuses is an error, too."""
        plan = self._plans.pop(asked.confirm or "", None)
        if plan is None or self._clock() - plan.made_s > PLAN_S:
            raise Rejected(409, "there is no such plan (any more)", "make the plan anew, and confirm that")
        same = msgspec.structs.replace(asked, confirm=None) == msgspec.structs.replace(plan.asked, confirm=None)
        if (plan.kind, plan.group, plan.user) != (kind, group, user) or not same:
            raise Rejected(409, "the plan was of something else", "make the plan anew, and confirm that")
        with clients.admin() as admin:
            about = described_or_none(admin, group)
            if kind == "offsets" and about is not None and about.members:
                raise StillHasMembers(group, about)
            if _state(about) != plan.state:
                raise ChangedSince(group, about)
            if kind in ("offsets", "offsets:delete") and _committed(admin, group) != dict(plan.committed):
                raise ChangedSince(group, about)
            return _done(admin, plan, about)


class ChangedSince(Rejected):
    """The group is not as it was when the plan was made."""

    def __init__(self, group: str, about: GroupDescription | None) -> None:
        super().__init__(409, f"group {group!r} has changed since the plan was made", "look at the plan anew")
        self.members = [] if about is None else _names(about)


class StillHasMembers(Rejected):
    """The group works, and its offsets are its members'."""

    def __init__(self, group: str, about: GroupDescription) -> None:
        what = f"group {group!r} is {about.state} and cannot be reset while it has members"
        super().__init__(409, what, "stop its members, and make the plan anew")
        self.members = _names(about)


def check_asked(kind: Kind, asked: ChangeAsked) -> None:
    """Raise UsageError for a body that does not fit the change."""
    if max(len(asked.topics), len(asked.members)) > MOST_NAMES or len(asked.reason) > LONGEST_REASON:
        raise UsageError(f"at most {MOST_NAMES} topics or members, and {LONGEST_REASON} letters of reason")
    if asked.to in ("file", "group") and asked.topics:
        raise UsageError("topics are one scope, a file or another group is another: choose one")
    if kind == "offsets:delete" and not asked.topics:
        raise UsageError("topics: say which")
    if kind == "members:remove" and not asked.members:
        raise UsageError("members: say whom")


def command_of(kind: Kind, group: str, asked: ChangeAsked) -> str:
    """Return the command that does the same."""
    topics = [part for topic in asked.topics for part in ("--topic", topic)]
    if kind == "offsets" and asked.to == "group":
        words = ["clone", str(asked.value), group, "--execute"]
    elif kind == "offsets":
        name = TO[asked.to or ""]
        value = [] if name in ("to-earliest", "to-latest", "to-current") else [_said(name, asked.value)]
        words = ["reset-offsets", group, *topics, f"--{name}", *value, "--execute"]
    elif kind == "offsets:delete":
        words = ["delete-offsets", group, *topics]
    elif kind == "members:remove":
        words = ["remove-member", group, *asked.members, *(["--reason", asked.reason] if asked.reason else [])]
    else:
        words = ["delete", group]
    return shlex.join(["kohort", "group", *words])


def _said(name: str, value: str | int | None) -> str:
    if name == "from-file":
        return FILE
    return f"{value}ms" if name == "by-duration" and isinstance(value, int) else str(value)


def _span_ms(value: str | int | None) -> int:
    found = value if isinstance(value, int) else parse_duration_ms(str(value).strip().lower())
    if found is None or not 0 <= found <= LONGEST_MS:
        raise UsageError(f"value: {str(value)[:40]!r} is no duration such as 30m or PT2H")
    return found


def _whole(value: str | int | None, *, least: int) -> int:
    text = str(value)
    figures = text.removeprefix("-")
    if not (figures.isascii() and figures.isdecimal() and len(figures) < 19) or int(text) < least:
        raise UsageError(f"value: {text[:40]!r} is no whole number{' of 0 or more' if least == 0 else ''}")
    return int(text)


def _described(told: Result | Moved) -> GroupDescription | None:
    return told.about if isinstance(told, Moved) else None


def _state(about: GroupDescription | None) -> tuple[str, tuple[str, ...]]:
    if about is None:
        return "", ()
    return "there", tuple(sorted(member.member_id for member in about.members))


def _names(about: GroupDescription) -> list[str]:
    return [f"{m.client_id or m.member_id} at {m.client_host}" for m in about.members[:MEMBERS_NAMED]]


def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    found = admin.list_group_offsets(group, timeout_ms=ADMIN_MS)
    if found.errors:
        return {}
    return {tp: at.offset for tp in found if (at := found[tp]) is not None}


def _done(admin: Admin, plan: PlannedChange, about: GroupDescription | None) -> Result:
    group = plan.group
    if plan.kind == "offsets":
        failed = admin.alter_group_offsets(group, dict(plan.after), check=False, timeout_ms=ADMIN_MS).errors
        after = {tp: at if isinstance(at, int) else at.offset for tp, at in plan.after.items()}
        rows = moved_rows({group: Moved(plan.committed, after, about, failed)})
        return OffsetsReset(executed=True, partitions=rows, refused=[])
    if plan.kind == "offsets:delete":
        results = admin.delete_group_offsets(group, list(plan.after), check=False, timeout_ms=ADMIN_MS)
        _raise_first(results.errors, len(plan.after))
        gone = [tp for tp in plan.after if tp not in results.errors]
        return OffsetsDeleted(group=group, deleted=deleted_rows(gone, plan.committed))
    if plan.kind == "group:delete":
        admin.delete_groups([group], timeout_ms=ADMIN_MS)
        return GroupsDeleted(deleted=[group])
    assert about is not None
    chosen = find_members(about, plan.asked.members)
    removed, left = remove_members(admin, group, chosen, plan.asked.reason)
    _raise_first(left.errors, len(chosen))
    return MembersRemoved(group=group, removed=removed_rows(removed))


def _raise_first(errors: Mapping[Any, KohortError], wanted: int) -> None:
    if errors and len(errors) >= wanted:
        raise next(iter(errors.values()))


def _allowed(changes: Changes | None) -> Changes:
    if changes is None:
        raise Rejected(403, "this console changes nothing", "start it with --allow-changes")
    return changes


def _routes_of(kind: Kind) -> tuple[Route[Changes | None], ...]:
    def plan(changes: Changes | None, asked: AskedRoute, names: Sequence[str]) -> Any:
        may = _allowed(changes)
        return may.plan(asked.with_clients(), kind, names[0], asked.told(ChangeAsked), asked.user)

    def act(changes: Changes | None, asked: AskedRoute, names: Sequence[str]) -> Any:
        may = _allowed(changes)
        return may.apply(asked.with_clients(), kind, names[0], asked.told(ChangeAsked), asked.user)

    return Route(f"groups/{{}}/{kind}:plan", plan, "POST"), Route(f"groups/{{}}/{kind}:apply", act, "POST")


CHANGES: Final = tuple(route for kind in KINDS for route in _routes_of(kind))

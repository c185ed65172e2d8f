"""Changes of a group, each in two requests.

The first request plans the change and returns a token. The second request sends the token to execute the plan.
A plan can be executed only once, and not after the group has changed.
"""

from __future__ import annotations

import secrets
import shlex
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from kohort.console.guard import Rejected
from kohort.console.routes import ApiQuery, Route
from kohort.errors import KohortError, UsageError
from kohort.model import OffsetAndMetadata, TopicPartition
from kohort.results.groups import GroupsDeleted, MembersRemoved, OffsetsDeleted, OffsetsReset
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
from kohort.watch.cluster_queries import ADMIN_MS

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
"""Option of ``kohort group reset-offsets`` for each value of ``to`` in a request.

The value ``group`` has no such option: its command is ``kohort group clone``.
"""
FILE: Final = "offsets.csv"
Kind = Literal["offsets", "offsets:delete", "members:remove", "group:delete"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


class ChangeRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of a request that plans a change.

    The request that executes the plan has the same body, plus the token ``confirm``.
    """

    to: str | None = None
    value: str | int | None = None
    topics: list[str] = []
    members: list[str] = []
    reason: str = ""
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A planned change, and the group's state when the change was planned."""

    kind: Kind
    group: str
    request: ChangeRequest
    state: tuple[str, tuple[str, ...]]
    committed: Mapping[TopicPartition, int]
    after: Mapping[TopicPartition, int | OffsetAndMetadata]
    made_s: float
    user: str | None


class Changes:
    def __init__(self, clock: Callable[[], float], now_ms: Callable[[], int]) -> None:
        self._clock, self._now_ms = clock, now_ms
        self._plans: OrderedDict[str, PlannedChange] = OrderedDict()

    def plan(self, clients: WatchClients, kind: Kind, group: str, request: ChangeRequest, user: str | None) -> Any:
        """Plan a change. Return its effect, the token ``confirm`` that executes it, and its ``kohort`` command.

        Raises UsageError for an invalid request, NothingThere for a missing group or member, and RefusedByState
        if the group's state prevents the change.
        """
        check_request(kind, request)
        with clients.admin() as admin:
            about = None if kind == "offsets" else describe(admin, group)
            planned, committed, after = self._planned(admin, kind, group, request, about)
        if isinstance(planned, Result):
            result = planned
        else:
            about = planned.about
            result = OffsetsReset(executed=False, partitions=moved_rows({group: planned}), refused=[])
        confirm = secrets.token_urlsafe(24)
        self._plans[confirm] = PlannedChange(kind, group, request, _state(about), committed, after, self._clock(), user)
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)
        fields = msgspec.to_builtins(result)
        return {**fields, "confirm": confirm, "command": command_of(kind, group, request), "members": _names(about)}

    def _planned(
        self, admin: Admin, kind: Kind, group: str, request: ChangeRequest, about: GroupDescription | None
    ) -> tuple[Result | Moved, Mapping[TopicPartition, int], Mapping[TopicPartition, int | OffsetAndMetadata]]:
        if kind == "offsets":
            if request.to == "group":
                moved = clone_offsets(admin, str(request.value or ""), group, execute=False)
            else:
                moved = move(admin, group, request.topics, self._way(request), execute=False)
            return moved, moved.before, moved.written
        assert about is not None
        committed = _committed(admin, group)
        if kind == "offsets:delete":
            chosen = committed_of(committed, request.topics)
            if not chosen:
                raise UsageError(f"group {group!r} has no committed offset for {', '.join(request.topics)}")
            rows = deleted_rows(chosen, committed)
            return OffsetsDeleted(group=group, deleted=rows), committed, dict.fromkeys(chosen, 0)
        if kind == "members:remove":
            return MembersRemoved(group=group, removed=removed_rows(find_members(about, request.members))), {}, {}
        check_inactive(about, "deleted")
        return GroupsDeleted(deleted=[group]), committed, {}

    def _way(self, request: ChangeRequest) -> OffsetTarget:
        name = TO.get(request.to or "")
        if not name:
            raise UsageError(f"to: expected one of {', '.join(TO)}")
        if name in ("to-offset", "shift-by"):
            return OffsetTarget(name, _whole(request.value, least=0 if name == "to-offset" else -(2**63)))
        if name == "to-datetime":
            return OffsetTarget(name, parse_time(str(request.value)))
        if name == "by-duration":
            return OffsetTarget(name, max(0, self._now_ms() - _span_ms(request.value)))
        if name == "from-file":
            return OffsetTarget(name, plan=read_plan(str(request.value or ""), one_group=True))
        return OffsetTarget(name)

    def apply(self, clients: WatchClients, kind: Kind, group: str, request: ChangeRequest, user: str | None) -> Result:
        """Execute a planned change.

        Raises Rejected (409) if the plan is unknown or expired, or if the request or the group has changed since.
        """
        plan = self._plans.pop(request.confirm or "", None)
        if plan is None or self._clock() - plan.made_s > PLAN_S:
            raise Rejected(409, "unknown or expired plan", "create a new plan, and confirm it")
        same = msgspec.structs.replace(request, confirm=None) == msgspec.structs.replace(plan.request, confirm=None)
        if (plan.kind, plan.group, plan.user) != (kind, group, user) or not same:
            raise Rejected(409, "the plan was made for a different change", "create a new plan, and confirm it")
        with clients.admin() as admin:
            about = described_or_none(admin, group)
            if kind == "offsets" and about is not None and about.members:
                error = f"group {group!r} is {about.state} and cannot be reset while it has members"
                raise Rejected(409, error, "stop the members of the group, and create a new plan", _names(about))
            changes_offsets = kind in ("offsets", "offsets:delete")
            if _state(about) != plan.state or (changes_offsets and _committed(admin, group) != dict(plan.committed)):
                error = f"group {group!r} has changed since the plan was made"
                raise Rejected(409, error, "create a new plan", _names(about))
            return _execute(admin, plan, about)


def check_request(kind: Kind, request: ChangeRequest) -> None:
    if max(len(request.topics), len(request.members)) > MOST_NAMES or len(request.reason) > LONGEST_REASON:
        raise UsageError(
            f"expected at most {MOST_NAMES} topics or members, and a reason of at most {LONGEST_REASON} characters"
        )
    if request.to in ("file", "group") and request.topics:
        raise UsageError(f"topics cannot be combined with to={request.to}")
    if kind == "offsets:delete" and not request.topics:
        raise UsageError("topics: expected at least one topic")
    if kind == "members:remove" and not request.members:
        raise UsageError("members: expected at least one member")


def command_of(kind: Kind, group: str, request: ChangeRequest) -> str:
    """Return the ``kohort group`` command that has the same effect as a change request."""
    topics = [part for topic in request.topics for part in ("--topic", topic)]
    if kind == "offsets" and request.to == "group":
        words = ["clone", str(request.value), group, "--execute"]
    elif kind == "offsets":
        name = TO[request.to or ""]
        value = [] if name in ("to-earliest", "to-latest", "to-current") else [_value_text(name, request.value)]
        words = ["reset-offsets", group, *topics, f"--{name}", *value, "--execute"]
    elif kind == "offsets:delete":
        words = ["delete-offsets", group, *topics]
    elif kind == "members:remove":
        words = ["remove-member", group, *request.members, *(["--reason", request.reason] if request.reason else [])]
    else:
        words = ["delete", group]
    return shlex.join(["kohort", "group", *words])


def _value_text(name: str, value: str | int | None) -> str:
    if name == "from-file":
        return FILE
    return f"{value}ms" if name == "by-duration" and isinstance(value, int) else str(value)


def _span_ms(value: str | int | None) -> int:
    found = value if isinstance(value, int) else parse_duration_ms(str(value).strip().lower())
    if found is None or not 0 <= found <= LONGEST_MS:
        raise UsageError(f"value: expected a duration such as 30m or PT2H, not {str(value)[:40]!r}")
    return found


def _whole(value: str | int | None, *, least: int) -> int:
    text = str(value)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 19) or int(text) < least:
        raise UsageError(f"value: expected a whole number{' of 0 or more' if least == 0 else ''}, not {text[:40]!r}")
    return int(text)


def _state(about: GroupDescription | None) -> tuple[str, tuple[str, ...]]:
    if about is None:
        return "", ()
    return "there", tuple(sorted(member.member_id for member in about.members))


def _names(about: GroupDescription | None) -> list[str]:
    members = () if about is None else about.members[:MEMBERS_NAMED]
    return [f"{m.client_id or m.member_id} at {m.client_host}" for m in members]


def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    found = admin.list_group_offsets(group, timeout_ms=ADMIN_MS)
    if found.errors:
        return {}
    return {tp: at.offset for tp in found if (at := found[tp]) is not None}


def _execute(admin: Admin, plan: PlannedChange, about: GroupDescription | None) -> Result:
    group = plan.group
    if plan.kind == "offsets":
        failed = admin.alter_group_offsets(group, dict(plan.after), check=False, timeout_ms=ADMIN_MS).errors
        after = {tp: at if isinstance(at, int) else at.offset for tp, at in plan.after.items()}
        rows = moved_rows({group: Moved(plan.committed, after, about, failed)})
        return OffsetsReset(executed=True, partitions=rows, refused=[])
    if plan.kind == "offsets:delete":
        results = admin.delete_group_offsets(group, list(plan.after), check=False, timeout_ms=ADMIN_MS)
        _raise_first(results.errors, len(plan.after))
        deleted = [tp for tp in plan.after if tp not in results.errors]
        return OffsetsDeleted(group=group, deleted=deleted_rows(deleted, plan.committed))
    if plan.kind == "group:delete":
        admin.delete_groups([group], timeout_ms=ADMIN_MS)
        return GroupsDeleted(deleted=[group])
    assert about is not None
    chosen = find_members(about, plan.request.members)
    removed, outcome = remove_members(admin, group, chosen, plan.request.reason)
    _raise_first(outcome.errors, len(chosen))
    return MembersRemoved(group=group, removed=removed_rows(removed))


def _raise_first(errors: Mapping[Any, KohortError], count: int) -> None:
    """If the change failed for all ``count`` partitions or members, raise the first of the errors."""
    if errors and len(errors) >= count:
        raise next(iter(errors.values()))


def _answer(kind: Kind, act: Callable[..., Any], changes: Changes | None, query: ApiQuery, names: Sequence[str]) -> Any:
    if changes is None:
        raise Rejected(403, "this console allows no changes", "start kohort console with --allow-changes")
    return act(changes, query.with_clients(), kind, names[0], query.parse_body(ChangeRequest), query.user)


CHANGES: Final[tuple[Route[Changes | None], ...]] = tuple(
    Route(f"groups/{{}}/{kind}:{name}", partial(_answer, kind, act), "POST")
    for kind in KINDS
    for name, act in (("plan", Changes.plan), ("apply", Changes.apply))
)

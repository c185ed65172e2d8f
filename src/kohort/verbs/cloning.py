"""What a group has committed, given to another: the plan, and the act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.errors import UsageError
from kohort.verbs.group_state import describe, described_or_none, names_of_members
from kohort.verbs.refusals import NothingThere, RefusedByState
from kohort.verbs.resetting import Moved
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin


def clone_offsets(admin: Admin, source: str, target: str, *, execute: bool) -> Moved:
    """Return where ``target`` goes: to all that ``source`` has committed, with its metadata; with ``execute`` it is
    there. Raises UsageError for a group and itself, NothingThere, RefusedByState for a target that has members."""
    if source == target:
        raise UsageError(f"{source!r} and {target!r} are the same group")
    describe(admin, source)
    found = admin.list_group_offsets(source, timeout_ms=ADMIN_MS).check()
    given = {tp: at for tp in sorted(found) if (at := found[tp]) is not None}
    if not given:
        raise NothingThere(f"group {source!r} has committed nothing")
    about = described_or_none(admin, target)
    before = admin.list_group_offsets(target, timeout_ms=ADMIN_MS).check() if about is not None else {}
    if execute and about is not None and about.members:
        raise RefusedByState(
            f"group {target!r} is {about.state} and cannot be moved while it has members: "
            f"{names_of_members(about, most=10)}"
        )
    failed = admin.alter_group_offsets(target, given, check=False, timeout_ms=ADMIN_MS).errors if execute else {}
    committed = {tp: at.offset for tp in before if (at := before[tp]) is not None}
    return Moved(committed, {tp: at.offset for tp, at in given.items()}, about, failed, with_metadata=given)

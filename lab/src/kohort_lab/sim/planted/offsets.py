"""Bugs of committed offsets."""

from __future__ import annotations

from typing import Any

from kohort.coordinator.offsets import commit, committing, delete, fetch
from kohort.coordinator.offsets.state import GroupOffsets
from kohort.coordinator.outcome import Outcome
from kohort.coordinator.records import OffsetCommitted
from kohort.coordinator.replay import replay_offset
from kohort.errors import ErrorCode
from kohort_lab.sim.planted.bugs import bug
from kohort_lab.sim.planted.patch import Patch


@bug("offsets", "a commit is acknowledged but not persisted")
def commit_not_written(patch: Patch) -> None:
    def decide(real: Any, *args: Any) -> Outcome:
        out: Outcome = real(*args)
        out.records.clear()
        return out

    patch.function(commit.decide_commit, decide)


@bug("offsets", "only the first partition of a commit is persisted")
def commit_first_only(patch: Patch) -> None:
    def decide(real: Any, *args: Any) -> Outcome:
        out: Outcome = real(*args)
        del out.records[1:]
        return out

    patch.function(commit.decide_commit, decide)


@bug("offsets", "a member's commit succeeds with any generation")
def fenced_member_commits(patch: Patch) -> None:
    def member(real: Any, groups: Any, group_id: str, commit: Any, missing: Any) -> Any:
        group = groups.by_id.get(group_id)
        if group is not None and commit.member_id in group.round.members:
            return group.round.members[commit.member_id]
        return real(groups, group_id, commit, missing)

    patch.function(committing.check_commit, member)


@bug("offsets", "a commit from outside succeeds while the group has members")
def strangers_commit(patch: Patch) -> None:
    patch.function(committing.check_commit, lambda *_: None)


@bug("offsets", "OffsetFetch returns no offsets")
def fetch_finds_nothing(patch: Patch) -> None:
    patch.function(fetch._valid, lambda *_: (fetch.NOTHING, ErrorCode.NONE))


@bug("offsets", "OffsetFetch returns offsets that are off by one")
def fetch_off_by_one(patch: Patch) -> None:
    def valid(real: Any, *args: Any) -> Any:
        value, code = real(*args)
        if value.offset >= 1:
            value = type(value)(offset=value.offset + 1, leader_epoch=value.leader_epoch)
        return value, code

    patch.function(fetch._valid, valid)


@bug("offsets", "offsets of a group without a generation are not loaded")
def offsets_not_loaded(patch: Patch) -> None:
    def replay(real: Any, groups: Any, record: Any, now_ms: int) -> None:
        group = groups.by_id.get(record.group_id)
        if group is not None and group.persisted is not None:
            real(groups, record, now_ms)

    patch.function(replay_offset, replay)


@bug("offsets", "an older commit is kept instead of the latest one")
def older_commit_stays(patch: Patch) -> None:
    def put(real: Any, offsets: GroupOffsets, topic: str, partition: int, *what: Any) -> None:
        if offsets.get(topic, partition) is None:
            real(offsets, topic, partition, *what)

    patch.method(GroupOffsets, "put", put)


@bug("offsets", "tombstones of offsets are not replayed")
def offset_tombstone_ignored(patch: Patch) -> None:
    def replay(real: Any, groups: Any, record: OffsetCommitted, now_ms: int) -> None:
        if record.value is not None:
            real(groups, record, now_ms)

    patch.function(replay_offset, replay)


@bug("offsets", "offsets expire while their group has members")
def working_offsets_expire(patch: Patch) -> None:
    def expired(_real: Any, _group: Any, _topic: str, value: Any, now_ms: int, retention_ms: int) -> bool:
        return bool(now_ms - value.commit_timestamp >= retention_ms)

    patch.function(delete.has_expired, expired)

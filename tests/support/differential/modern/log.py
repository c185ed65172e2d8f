"""Compare the records of a group in ``__consumer_offsets`` of both brokers.

Times and counters of each broker are left out. Adjacent records of one kind are compared as a set: Kafka writes them in
the order of a hash table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from kohort.coordinator.records import parse_record
from kohort.wire.record_batch import ReadRecord, read_batch, split_batches
from support.differential.modern.both import Both, Parted
from support.machines.broker_stage import Peer
from support.raw.raw_client import RawClient

TOPIC = "__consumer_offsets"
PARTITIONS = 5
OWN = ("metadata_hash", "assignment_timestamp", "timestamp", "version", "commit_timestamp", "expire_timestamp",
       "leader_epoch", "current_state_timestamp")  # fmt: skip


def compare_logs(both: Both, group: str) -> None:
    """Raise Parted at the first record that differs."""
    ours = _runs(_written(both, both.ours.connect(), group))
    theirs = _runs(_written(both, both.theirs.wire, group))
    for i, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != (_led_alike(one, other) if i and _ends_modern(ours[i - 1]) else other):
            before = "\n".join(map(str, ours[max(i - 3, 0) : i]))
            raise Parted(f"records {i}: after {before}\nours   {ours[i : i + 4]}\ntheirs {theirs[i : i + 4]}\n")
    if len(ours) != len(theirs):
        raise Parted(f"more records: ours {ours[len(theirs) :]}, theirs {theirs[len(ours) :]}")


def _led_alike(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return ``theirs`` without the leader of a group that just became classic and has no assignment, where kohort
    has none (docs/deviations.md). Later generations have a leader.
    """
    at = [i for i, record in enumerate(ours[: len(theirs)]) if _is_unled(record)]
    if len(at) != 1 or theirs[at[0]]["value"] is None:
        return theirs
    (i,) = at
    return [*theirs[:i], {**theirs[i], "value": {**theirs[i]["value"], "leader": None}}, *theirs[i + 1 :]]


def _ends_modern(run: list[dict[str, Any]]) -> bool:
    return any(record["record"] == "EpochWritten" and record["value"] is None for record in run)


def _is_unled(record: dict[str, Any]) -> bool:
    value = record["value"]
    return record["record"] == "GroupWritten" and bool(value) and bool(value["members"]) and value["leader"] is None


def _written(both: Both, wire: Peer | RawClient, group: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for partition in range(PARTITIONS):
        for batch in _batches(wire, partition):
            parsed = [parse_record(record.key or b"", record.value) for record in batch]
            found += [both.words.plain(one) for one in parsed if getattr(one, "group_id", "") == group]
    return [_without_own(record) for record in _without_needless(found)]


def _batches(wire: Peer | RawClient, partition: int) -> Iterator[list[ReadRecord]]:
    offset = 0
    while True:
        got = wire.fetch(TOPIC, offset, partition=partition)
        data = bytes((got.responses[0].partitions[0] if isinstance(wire, Peer) else got).records or b"")
        if not data:
            return
        for at, header in split_batches(data):
            offset = header.next_offset
            if not header.is_control:
                yield list(read_batch(data, at))


def _without_needless(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records without Kafka's needless tombstones.

    Kafka deletes records that do not exist: of a classic group with offsets only, of an unresolved pattern. It also
    deletes an offset twice if the offset is committed again in a transaction.
    """
    written: set[tuple[str, str]] = set()
    ended: set[tuple[str, int]] = set()
    kept = []
    for record in records:
        if record["record"] == "OffsetCommitted":
            place = record["topic"], record["partition"]
            if record["value"] is not None:
                ended.discard(place)
            elif place in ended:
                continue
            else:
                ended.add(place)
        of = record["record"], record.get("regex", "")
        if of[0] in ("GroupWritten", "RegexResolved"):
            if record["value"] is not None:
                written.add(of)
            elif of not in written:
                continue
            else:
                written.remove(of)
        kept.append(record)
    return kept


def _without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bool(v) if k in OWN else _without_own(v) for k, v in value.items()}
    return [_without_own(v) for v in value] if isinstance(value, list) else value


def _runs(records: list[dict[str, Any]]) -> list[Any]:
    """Sort each run of records of one kind."""
    return [sorted(run, key=repr) for _, run in groupby(records, key=_kind)]


def _kind(record: dict[str, Any]) -> str:
    """Return the kind of a record. Kafka removes several members in random order."""
    return "the end of a member" if record["value"] is None and "member_id" in record else record["record"]

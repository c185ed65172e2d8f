"""Find the first record at or after an offset with Fetch requests.

Control batches, aborted records and compacted records are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kohort.client.admin.model import FirstRecord, PartitionOffset
from kohort.client.admin.offsets import by_leader_of
from kohort.client.admin.operations import Ask, Operation, Pause, Results, is_transient
from kohort.client.admin.topics import cluster
from kohort.client.reading.list_offsets import ISOLATION_LEVELS
from kohort.client.requests.metadata import Metadata
from kohort.columns.batches import OffsetRange, ReadOptions, next_offset, sections
from kohort.columns.plain import read_section
from kohort.errors import ApiError, CorruptRecord, ErrorCode, KohortError, error_code
from kohort.model import Record, TopicPartition, by_topic
from kohort.wire.codec import Buffer
from kohort.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

BY_NAME: Final = 12
MAX_PARTITIONS: Final = 100
PARTITION_BYTES: Final = 32 * 1024
ROUNDS: Final = 20
"""Maximum number of Fetch requests to find one record. After the last one the search fails."""


@dataclass(slots=True)
class _Search:
    offset: int
    alone: bool = False
    error: KohortError | None = None


def first_records(
    metadata: Metadata, places: Iterable[PartitionOffset], *, isolation_level: str
) -> Operation[Results[PartitionOffset, FirstRecord | None]]:
    """Return the first record at or after each offset; None if no record is visible at ``isolation_level``.

    Fails with OFFSET_OUT_OF_RANGE for an offset before the log start offset or after the log end offset.
    """
    results: Results[PartitionOffset, FirstRecord | None] = Results()
    pending = {place: _Search(place.offset) for place in places}
    level = ISOLATION_LEVELS[isolation_level]
    for attempt in range(1, ROUNDS + 1):
        if not pending:
            return results
        partitions = dict.fromkeys(place.partition for place in pending)
        response = yield from cluster(metadata, sorted({tp.topic for tp in partitions}))
        deleted: Results[TopicPartition, None] = Results()
        leaders = by_leader_of(response, dict.fromkeys(partitions), deleted)
        for place in [place for place in pending if place.partition in deleted.errors]:
            results.refuse(place, deleted.errors[place.partition])
            del pending[place]
        for place, search in pending.items():
            search.error = ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(place.partition))
        node_of = {tp: node_id for node_id, tps in leaders.items() for tp in tps}
        requests = _requests({p: s for p, s in pending.items() if p.partition in node_of}, node_of)
        answers = yield [Ask(_fetch(requested, pending, level), node, BY_NAME) for node, requested in requests]
        advanced = False
        for (_, requested), answer in zip(requests, answers, strict=True):
            for place, error in _read(requested, answer, pending, results, level):
                pending[place].error = error
            advanced = advanced or not isinstance(answer, KohortError)
        if pending and not advanced:
            yield Pause(attempt)
    for place, search in pending.items():
        text = f"{place.partition}: no record from offset {place.offset} to {search.offset}"
        results.refuse(place, search.error or ApiError(ErrorCode.REQUEST_TIMED_OUT, text))
    return results


def _requests(
    pending: dict[PartitionOffset, _Search], node_of: dict[TopicPartition, int]
) -> list[tuple[int, dict[TopicPartition, PartitionOffset]]]:
    """Build Fetch requests for all pending searches. A request has at most one search for each partition."""
    requests: list[tuple[int, dict[TopicPartition, PartitionOffset]]] = []
    shared: dict[tuple[int, int], dict[TopicPartition, PartitionOffset]] = {}
    offsets_of: Counter[TopicPartition] = Counter()
    for place, search in pending.items():
        tp = place.partition
        if search.alone:
            requests.append((node_of[tp], {tp: place}))
        else:
            shared.setdefault((node_of[tp], offsets_of[tp]), {})[tp] = place
            offsets_of[tp] += 1
    for (node_id, _), requested in shared.items():
        items = list(requested.items())
        requests += [(node_id, dict(items[at : at + MAX_PARTITIONS])) for at in range(0, len(items), MAX_PARTITIONS)]
    return requests


def _fetch(
    requested: dict[TopicPartition, PartitionOffset], pending: dict[PartitionOffset, _Search], level: int
) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=topic,
            partitions=[
                FetchPartition(
                    partition=number,
                    fetch_offset=pending[requested[TopicPartition(topic, number)]].offset,
                    partition_max_bytes=PARTITION_BYTES,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(requested).items()
    ]
    return FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=level, topics=topics)


def _read(
    requested: dict[TopicPartition, PartitionOffset],
    answer: FetchResponse | KohortError,
    pending: dict[PartitionOffset, _Search],
    results: Results[PartitionOffset, FirstRecord | None],
    level: int,
) -> Sequence[tuple[PartitionOffset, KohortError]]:
    """Process a Fetch response: store the first records in ``results``, and advance the unfinished searches.

    Returns the searches to retry, with their errors.
    """
    if isinstance(answer, KohortError):
        if answer.retriable:
            return [(place, answer) for place in requested.values()]
        for place in requested.values():
            results.refuse(place, answer)
            del pending[place]
        return []
    parts = {TopicPartition(t.topic, p.partition_index): p for t in answer.responses for p in t.partitions}
    failed: list[tuple[PartitionOffset, KohortError]] = []
    for tp, place in requested.items():
        part = parts.get(tp)
        if part is None:
            failed.append((place, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the Fetch response lacks {tp}")))
        elif is_transient(part.error_code):
            failed.append((place, ApiError(error_code(part.error_code), str(tp))))
        elif part.error_code:
            results.add_or_refuse(place, None, part.error_code)
            del pending[place]
        else:
            _search(place, part, pending, results, level)
    return failed


def _search(
    place: PartitionOffset,
    part: PartitionData,
    pending: dict[PartitionOffset, _Search],
    results: Results[PartitionOffset, FirstRecord | None],
    level: int,
) -> None:
    search = pending[place]
    end = part.last_stable_offset if level and part.last_stable_offset >= 0 else part.high_watermark
    data = part.records if part.records is not None and not isinstance(part.records, list) else b""
    try:
        found = _first_of(place.partition, search.offset, data, part)
        after = next_offset(data, search.offset)
    except CorruptRecord as error:
        results.refuse(place, error)
        del pending[place]
        return
    if found is not None or max(after, search.offset) >= end:
        results.add(place, None if found is None else FirstRecord(found.offset, found.timestamp_ms))
        del pending[place]
        return
    if after == search.offset and search.alone:
        results.refuse(
            place,
            ApiError(
                ErrorCode.REQUEST_TIMED_OUT, f"{place.partition}: a fetch at offset {after} returned no whole batch"
            ),
        )
        del pending[place]
        return
    search.alone = after == search.offset
    search.offset = after
    search.error = None


def _first_of(partition: TopicPartition, offset: int, data: Buffer, part: PartitionData) -> Record | None:
    aborted = [(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()]
    offsets = OffsetRange(partition.topic, partition.partition, offset)
    for section in sections(data, offsets, ReadOptions(aborted=aborted)):
        records: list[Record] = []
        read_section(section, offsets, records)
        if records:
            return records[0]
    return None

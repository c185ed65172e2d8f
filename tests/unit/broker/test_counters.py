"""Counters of a broker."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from kohort.broker.counters import ENTRIES_KEPT, ENTRIES_KEPT_BYTES, ITEM_US, BrokerCounters, Durations
from kohort.coordinator.journal import ClientIdentity, GroupLoaded, GroupUnloaded, RequestFenced
from kohort.coordinator.journal_evidence import GROUPS_MOST, NAMES_MOST_BYTES, FencedCounters
from kohort.errors import ErrorCode
from kohort.steps import STEP_US, Pace, at_once
from kohort.wire.apis import APIS, PRODUCE
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.group_classic import HeartbeatRequest
from kohort.wire.messages.produce import ProduceResponse
from kohort.wire.record_batch import NewRecord, build_batch
from support.machines.broker_stage import BrokerStage, fetch_request, produce_request
from support.raw.group_member import RawMember

HEARTBEAT = HeartbeatRequest.API_KEY
FETCH = FetchRequest.API_KEY


def never(_us: float) -> bool:
    return False


def timed(stage: BrokerStage) -> BrokerCounters:
    counters = stage.broker.state.counters
    counters.time_ns = count(0, 1_000).__next__
    return counters


def test_requests_are_counted_by_api_with_their_duration(stage):
    counters = timed(stage)
    peer = stage.connect()
    peer.create("t")

    for _ in range(3):
        peer.produce("t", b"x")

    took = counters.by_api[PRODUCE].took
    assert (took.count, took.total_ns) == (3, 3_000)
    assert took.by_size[(1_000).bit_length()] == 3


def test_waiting_fetch_is_counted_once_with_its_waiting_time(stage):
    counters = stage.broker.state.counters
    counters.time_ns = lambda: stage.now_ms * 1_000_000
    peer = stage.connect()
    peer.create("t")

    peer.send(fetch_request("t", max_wait_ms=500), 12)
    assert counters.by_api[FETCH].took.count == 0
    stage.advance(500)

    assert counters.by_api[FETCH].took.count == 1
    assert counters.by_api[FETCH].took.total_ns == 500_000_000
    assert (stage.broker.state.purgatory.parked, stage.broker.state.purgatory.expired) == (1, 1)


def test_produce_without_response_is_counted(stage):
    counters = timed(stage)
    peer = stage.connect()
    peer.create("t")

    batch = build_batch([NewRecord(None, b"x", (), stage.now_ms)])
    peer.send(produce_request("t", batch, acks=0), 9, answered=False)

    assert counters.by_api[PRODUCE].took.count == 1


def test_errors_are_counted_by_code_at_any_depth(stage):
    counters = timed(stage)
    peer = stage.connect()

    peer.produce("nothing-of-that-name", b"x")
    peer.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="nobody"), 3)

    assert counters.by_api[PRODUCE].errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 1}
    (refused,) = counters.by_api[HEARTBEAT].errors.values()
    assert refused == 1


def test_errors_of_each_response_type_can_be_counted():
    counters = BrokerCounters()

    for key, api in APIS.items():
        counters.by_api[key].answered(0, api.response())  # default values include no error code
    assert not any(api.errors for api in counters.by_api.values())
    assert all(api.took.count == 1 for api in counters.by_api.values())


def test_errors_are_counted_only_in_the_first_entries_of_a_long_array():
    counters = BrokerCounters()
    topics: Any = next(f for f in ProduceResponse.FIELDS if f.name == "responses")
    (parts,) = [f for f in topics.of.FIELDS if f.name == "partition_responses"]
    many = [parts.of(index=n, error_code=6) for n in range(5_000)]

    at_once(
        counters.by_api[PRODUCE].find_errors(ProduceResponse(responses=[topics.of(partition_responses=many)]), never)
    )

    assert counters.by_api[PRODUCE].errors == {6: 1_000}


def test_errors_of_many_arrays_are_counted_in_steps():
    counters = BrokerCounters()
    topics: Any = next(f for f in ProduceResponse.FIELDS if f.name == "responses")
    (parts,) = [f for f in topics.of.FIELDS if f.name == "partition_responses"]
    refused = [parts.of(index=n, error_code=6) for n in range(1_000)]
    answer = ProduceResponse(responses=[topics.of(partition_responses=refused) for _ in range(100)])

    steps = sum(1 for _ in counters.by_api[PRODUCE].find_errors(answer, Pace(goes_on=True).is_due))

    assert counters.by_api[PRODUCE].errors == {6: 100_000}
    assert steps == 100_100 * ITEM_US // STEP_US


def test_bytes_and_opened_and_closed_connections_are_counted(stage):
    counters = stage.broker.state.counters
    peer = stage.connect()
    peer.create("t")
    before = counters.bytes_in, counters.bytes_out

    request = peer.request_bytes(produce_request("t", b""), 9)
    peer.send_bytes(request)
    assert counters.bytes_in - before[0] == len(request)
    assert counters.bytes_out > before[1]

    peer.send_bytes(b"\xff\xff\xff\xff")
    assert counters.closed == {"frame": 1}
    assert stage.broker.state.connections.opened == 1


@pytest.mark.heavy
def test_written_and_expired_offsets_are_counted(stage):
    ann = RawMember(stage.connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": [0, 1]}})
    for partition, offset in ((0, 0), (1, 0), (0, 1)):
        ann.commit("t", partition, offset)

    counted = stage.broker.state.coordinator.counters
    assert (counted.committed, counted.expired, counted.deleted) == (3, 0, 0)

    ann.leave()
    stage.advance(stage.config.offsets_retention_minutes * 60_000 + stage.config.offsets_retention_check_interval_ms)
    assert (counted.committed, counted.expired, counted.deleted) == (3, 2, 0)


def test_appends_rolled_segments_and_deletions_of_logs_are_counted(stage):
    peer = stage.connect()
    counted = stage.broker.state.topics.counters
    peer.create("t", retention_ms="1000", segment_ms="1000")
    before = counted.batches, counted.records

    peer.produce("t", b"x", b"y")
    stage.advance(10_000)
    peer.produce("t", b"z")
    assert (counted.batches - before[0], counted.records - before[1], counted.rolled_segments) == (2, 3, 1)

    stage.advance(stage.config.log_retention_check_interval_ms)
    assert counted.deleted_segments >= 1
    assert counted.deleted_bytes > 0


def test_copy_of_the_log_counters_does_not_change(stage):
    counted = stage.broker.state.topics.counters
    peer = stage.connect()
    peer.create("t")
    copy = replace(counted)
    before = copy.batches, copy.records, copy.bytes

    peer.produce("t", b"x")

    assert (copy.batches, copy.records, copy.bytes) == before
    assert counted.batches == copy.batches + 1


def test_journal_entries_are_counted_and_are_kept_if_metrics_need_them():
    counters = BrokerCounters()
    fenced = RequestFenced(
        at_ms=1,
        group="g",
        member=ClientIdentity("m"),
        api="Heartbeat",
        error="UNKNOWN_MEMBER_ID",
        generation=1,
        current=2,
    )

    counters.journal_written([fenced, GroupUnloaded(at_ms=1, group="g", generation=1)])
    assert counters.journal[RequestFenced] == 1
    assert counters.take_entries() == []

    counters.keeps_entries = True
    counters.journal_written([fenced])
    assert counters.take_entries() == [fenced]
    assert counters.take_entries() == []


def test_number_of_kept_journal_entries_is_limited():
    counters = BrokerCounters()
    counters.keeps_entries = True
    entry = GroupUnloaded(at_ms=1, group="g", generation=1)

    for _ in range(3):
        counters.journal_written([entry] * ENTRIES_KEPT)

    assert len(counters.take_entries()) == ENTRIES_KEPT
    assert counters.entries_forgotten == 2 * ENTRIES_KEPT


def test_bytes_of_kept_journal_entries_are_limited():
    counters = BrokerCounters()
    counters.keeps_entries = True
    members = tuple(ClientIdentity(f"m{number}", "c" * 1_000) for number in range(1_000))
    large = GroupLoaded(at_ms=1, group="g", generation=1, members=members)

    counters.journal_written([large] * 100)

    kept = len(counters.take_entries())
    assert 20 < kept <= ENTRIES_KEPT_BYTES // 1_000_000
    assert counters.entries_forgotten == 100 - kept


def test_rejected_requests_of_outdated_members_are_counted(stage):
    ann = RawMember(stage.connect(), "g", ["t"])
    ann.wire.create("t", 2)
    ann.start_join()
    stage.advance(0)
    ann.end_join()
    ann.sync({ann.member_id: {"t": [0, 1]}})
    ann.generation = 99
    for _ in range(5):
        ann.heartbeat()
    ann.commit("t", 0, 0)

    refused = {("Heartbeat", "ILLEGAL_GENERATION"): 5, ("OffsetCommit", "ILLEGAL_GENERATION"): 1}
    fenced = stage.broker.state.coordinator.fenced
    assert (fenced.by_kind, fenced.by_group) == (refused, {"g": refused})
    assert stage.broker.state.counters.journal[RequestFenced] == 2, "one journal entry for each kind of rejection"


def test_number_of_groups_with_counted_rejections_is_limited():
    fenced = FencedCounters()
    for number in range(GROUPS_MOST + 10):
        fenced.refused(f"g{number}", "Heartbeat", "ILLEGAL_GENERATION")
    assert len(fenced.by_group) == GROUPS_MOST
    assert fenced.by_kind.total() == GROUPS_MOST + 10

    for number in range(1_000):
        fenced.refused(f"{number}" * 10_000, "Heartbeat", "ILLEGAL_GENERATION")
    assert sum(map(len, fenced.by_group)) <= NAMES_MOST_BYTES

    fenced.keep({"999" * 10_000})
    assert list(fenced.by_group) == ["999" * 10_000]


def test_histogram_counts_durations_of_any_length():
    took = Durations()
    for ns in (0, 1, 2**62, 999):
        took.add(ns)

    assert took.count == 4
    assert took.copy().by_size == took.by_size


def test_loading_of_groups_is_counted_with_its_duration(stage):
    counters = stage.broker.state.counters
    counters.loaded(5)
    counters.loaded(15)

    assert (counters.loads, counters.load_ms_total, counters.load_ms_longest) == (2, 20, 15)

"""Changes of the wall clock: timers continue, record timestamps follow."""

import json

import pytest

from kohort.broker.io import WallClockSet
from kohort.coordinator.records import OffsetCommitted, parse_record
from kohort.log.catalogue import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.wire.messages.transactions import DescribeTransactionsRequest
from kohort.wire.record_batch import NewRecord, build_batch, read_batch, split_batches
from support.machines.broker_stage import BrokerStage
from support.raw.group_member import RawMember
from support.raw.transactional import Transactional

HOUR_MS = 3_600_000
TWO_HOURS_MS = 2 * HOUR_MS


def member_of(stage: BrokerStage) -> RawMember:
    member = RawMember(stage.connect(), "g", ["a"])
    member.wire.create("a")
    member.start_join()
    stage.advance(0)
    member.end_join()
    member.sync({member.member_id: {"a": [0]}})
    return member


def records_of(stage: BrokerStage, topic: str):
    found = []
    for log in stage.broker.state.topics.get(topic).partitions:
        data = b"".join(bytes(one) for one in log.read(0, 1 << 20)) if log.log_end_offset else b""
        found += [record for at, _ in split_batches(data) for record in read_batch(data, at)]
    return found


def journal_of(stage: BrokerStage) -> list[dict]:
    stage.broker.close(stage.now_ms)  # write the delayed journal entries
    return [json.loads(record.value) for record in records_of(stage, "__kohort_journal")]


@pytest.mark.parametrize("ahead_ms", [TWO_HOURS_MS, -TWO_HOURS_MS])
def test_changed_wall_clock_expires_no_session_connection_or_transaction(stage, ahead_ms):
    member = member_of(stage)
    producer = Transactional(stage.connect())
    producer.peer.create("t")
    producer.init()
    producer.send("t", b"1")

    stage.give(WallClockSet(ahead_ms))
    stage.advance(5_000)

    assert member.heartbeat() == 0
    assert producer.end(commit=True) == 0
    assert [peer.closed for peer in stage.peers.values()] == [None, None]


@pytest.mark.parametrize(("ahead_ms", "way"), [(TWO_HOURS_MS, "forward"), (-TWO_HOURS_MS, "back")])
def test_changed_wall_clock_is_logged(stage, ahead_ms, way):
    stage.give(WallClockSet(ahead_ms))

    assert stage.log_lines() == [f"the wall clock moved {way} by 7200.0 s: record timestamps follow, timers do not"]


def test_log_append_time_follows_the_wall_clock_forward_and_backward(stage, peer):
    peer.create("a", message_timestamp_type="LogAppendTime")
    times = []
    for ahead_ms in (TWO_HOURS_MS, 0, -HOUR_MS):
        stage.give(WallClockSet(ahead_ms))
        times.append(peer.produce("a", b"v").log_append_time_ms - stage.now_ms)

    assert times == [TWO_HOURS_MS, 0, -HOUR_MS]


def test_record_timestamp_check_follows_the_wall_clock(stage, peer):
    peer.create("a", message_timestamp_after_max_ms=str(HOUR_MS))
    ahead = build_batch([NewRecord(None, b"v", (), stage.now_ms + TWO_HOURS_MS)])
    assert peer.produce("a", batch=ahead).error_code != 0

    stage.give(WallClockSet(TWO_HOURS_MS))

    assert peer.produce("a", batch=ahead).error_code == 0


def test_retention_follows_the_wall_clock(stage, peer):
    peer.create("a", retention_ms=str(HOUR_MS))
    peer.produce("a", b"v")
    log = stage.broker.state.topics.log("a", 0)
    stage.give(WallClockSet(TWO_HOURS_MS))
    stage.give(WallClockSet(0))
    stage.advance(400_000)
    assert log.log_start_offset == 0, "the clock was corrected before the retention check"

    stage.give(WallClockSet(TWO_HOURS_MS))
    stage.advance(400_000)

    assert log.log_start_offset == 1


def test_committed_offset_has_wall_time_in_the_log_but_not_in_memory(stage):
    member = member_of(stage)
    stage.give(WallClockSet(-TWO_HOURS_MS))
    assert member.commit("a", 0, 7) == 0

    (written,) = [
        (record.timestamp_ms, parsed.value.commit_timestamp)
        for record in records_of(stage, OFFSETS_TOPIC)
        if isinstance(parsed := parse_record(record.key, record.value), OffsetCommitted)
    ]
    assert written == (stage.now_ms - TWO_HOURS_MS,) * 2
    offsets = stage.broker.state.coordinator.committed("g")
    assert [value.commit_timestamp for _, _, value in offsets] == [stage.now_ms]


def test_journal_entries_have_wall_time(stage):
    member = member_of(stage)
    stage.give(WallClockSet(TWO_HOURS_MS))
    last_seen_ms = stage.now_ms
    stage.advance(member.session_timeout_ms)

    (removed,) = [entry for entry in journal_of(stage) if entry["kind"] == "member_removed"]
    assert removed["at_ms"] == stage.now_ms + TWO_HOURS_MS
    assert removed["vitals"]["last_seen_ms"] == last_seen_ms + TWO_HOURS_MS


def test_transaction_has_wall_time_in_the_log_and_in_its_description(stage, peer):
    peer.create("t")
    stage.give(WallClockSet(TWO_HOURS_MS))
    producer = Transactional(peer, timeout_ms=10_000)
    producer.init()
    producer.send("t", b"1")
    began_ms = stage.now_ms

    (found,) = peer.ask(DescribeTransactionsRequest(transactional_ids=["t"]), 0).transaction_states
    assert found.transaction_start_time_ms == began_ms + TWO_HOURS_MS
    assert records_of(stage, TRANSACTIONS_TOPIC)[-1].timestamp_ms == began_ms + TWO_HOURS_MS

    stage.give(WallClockSet(0))
    stage.advance(9_999)
    assert producer.end(commit=True) == 0

"""The fast ways of loading a log give what the plain ways give, for any log and any bytes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.offsets.groups import Groups
from kohort.coordinator.records import GroupWritten, OffsetCommitted, build_record, parse_record
from kohort.coordinator.replay import Skipped, replay, replay_log
from kohort.errors import CorruptLog, CorruptRecord
from kohort.wire.compression import Codec
from kohort.wire.messages.group_records import GroupMetadataValue, OffsetCommitValue
from kohort.wire.record_batch import HEADER_BYTES, NewRecord, build_batch, parse_batch_header, read_batch, read_pairs
from kohort_lab.sim.checks.group_invariants import persisted_state

MANY = settings(max_examples=200)
IDS = st.sampled_from([b"t" * 16, b"u" * 16])

plain = st.builds(
    OffsetCommitValue,
    offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 5),
    commit_timestamp=st.integers(0, 2**45),
    topic_id=IDS,
)
offset_commits = st.builds(OffsetCommitValue, offset=st.integers(0, 9), metadata=st.text(max_size=5), topic_id=IDS)
without_topic_id = st.builds(OffsetCommitValue, offset=st.integers(0, 9))
expiring = st.builds(OffsetCommitValue, offset=st.integers(0, 9), expire_timestamp=st.integers(0, 9))
commits = st.builds(
    OffsetCommitted,
    st.sampled_from(["g", "h", "gruppe-ä"]),
    st.sampled_from(["t", "tt", "thema-ö"]),
    st.integers(0, 3) | st.just(-1) | st.just(2**31 - 1),
    plain | plain | offset_commits | without_topic_id | expiring | st.none(),
)
generations = st.builds(
    GroupWritten,
    st.sampled_from(["g", "h"]),
    st.none() | st.builds(GroupMetadataValue, protocol_type=st.just("consumer"), generation=st.integers(0, 9)),
)
legacy = commits.map(lambda commit: (b"\x00\x00" + build_record(commit)[0][2:], build_record(commit)[1]))
records = (commits | commits | generations).map(build_record) | legacy
strangers = st.tuples(st.sampled_from([b"\x00\x09new", b"\x00\x03\x00\x01g"]), st.none() | st.binary(max_size=5))


@MANY
@given(log=st.lists(records | strangers, max_size=40), cut=st.integers(0, 40))
def test_sliced_load_equals_replay_of_single_records(log, cut):
    by_one, in_slices = Groups(), Groups()
    unknown = 0
    for key, value in log:
        try:
            record = parse_record(key, value)
        except CorruptLog:
            record = None
        unknown += record is None
        if record is not None:
            replay(by_one, record, 1)

    skipped = Skipped()
    replay_log(in_slices, log[:cut], 1, skipped)
    replay_log(in_slices, log[cut:], 1, skipped)

    assert skipped.count == unknown
    assert persisted_state(in_slices) == persisted_state(by_one)
    assert in_slices.by_id.keys() == by_one.by_id.keys()
    assert {g: len(o) for g, o in in_slices.offsets.items()} == {g: len(o) for g, o in by_one.offsets.items()}


@MANY
@given(
    log=st.lists(records, min_size=1, max_size=12),
    which=st.integers(0, 11),
    at=st.integers(0, 60),
    byte=st.integers(0, 255),
    of_key=st.booleans(),
)
def test_a_changed_byte_is_read_or_passed_over_alike(log, which, at, byte, of_key):
    key, value = log[which % len(log)]
    changed = bytearray(key if of_key or value is None else value)
    changed[at % len(changed)] = byte
    log[which % len(log)] = (bytes(changed), value) if of_key or value is None else (key, bytes(changed))
    by_one, in_slices = Groups(), Groups()

    refused = 0
    for key, value in log:
        try:
            record = parse_record(key, value)
        except CorruptLog:
            record = None
        refused += record is None
        if record is not None:
            replay(by_one, record, 1)
    skipped = Skipped()
    replay_log(in_slices, log, 1, skipped)

    assert skipped.count == refused
    assert persisted_state(in_slices) == persisted_state(by_one)


blobs = st.none() | st.binary(max_size=90)
headers = st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2)
lots = st.lists(st.builds(NewRecord, blobs, blobs, headers, st.integers(0, 2**45)), min_size=1, max_size=80)


@MANY
@given(lot=lots, codec=st.sampled_from(list(Codec)))
def test_pairs_are_the_keys_and_values_of_the_records(lot, codec):
    batch = build_batch(lot, codec=codec)

    pairs = read_pairs(batch, 0, parse_batch_header(batch))

    assert pairs == [(record.key, record.value) for record in lot]


@MANY
@given(lot=lots, changes=st.lists(st.tuples(st.integers(0, 1 << 14), st.integers(0, 255)), max_size=4))
def test_changed_record_bytes_are_loaded_or_rejected_as_in_replay(lot, changes):
    batch = bytearray(build_batch(lot))
    for at, byte in changes:
        batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] = byte

    found = []
    for read in (
        lambda: [(r.key, r.value) for r in read_batch(batch)],
        lambda: read_pairs(bytes(batch), 0, parse_batch_header(batch)),
    ):
        try:
            found.append(read())
        except CorruptRecord:
            found.append("refused")

    assert found[0] == found[1]

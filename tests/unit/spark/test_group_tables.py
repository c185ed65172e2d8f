from __future__ import annotations

from datetime import UTC, datetime

import pytest

pytest.importorskip("pyarrow")

from kohort.coordinator.records import GroupWritten, OffsetCommitted, build_record
from kohort.spark.group_tables import parse_batch, rebalance_rows, source_options
from kohort.wire.messages.group_records import GroupMetadataValue, OffsetCommitValue

AT = 1_767_225_600_000


def test_group_records_table_has_one_row_for_each_record_of_the_offsets_topic() -> None:
    offset = OffsetCommitValue(offset=42, metadata="here", commit_timestamp=AT)
    generation = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol="range", leader="m1", current_state_timestamp=AT, members=[]
    )
    records = [
        build_record(OffsetCommitted("g", "orders", 1, offset)),
        build_record(OffsetCommitted("g", "orders", 2, None)),
        build_record(GroupWritten("g", generation)),
        build_record(GroupWritten("g", None)),
        (b"\x00\x09what", b"x"),
        (b"", None),
    ]

    rows = parse_batch([key for key, _ in records], [value for _, value in records]).to_pylist()

    assert [(r["kind"], r["group"], r["removed"]) for r in rows] == [
        ("commit", "g", False),
        ("commit", "g", True),
        ("group", "g", False),
        ("group", "g", True),
        ("other", None, None),
        ("other", None, None),
    ]
    assert (rows[0]["topic"], rows[0]["partition"], rows[0]["committed"], rows[0]["metadata"]) == (
        "orders",
        1,
        42,
        "here",
    )
    assert rows[0]["at"] == rows[2]["at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert (rows[2]["generation"], rows[2]["protocol"], rows[2]["leader"], rows[2]["members"]) == (3, "range", "m1", 0)


def test_table_of_rebalances_omits_unknown_journal_entries() -> None:
    assert rebalance_rows([b'{"kind": "from-the-future"}', b"not json", None]) == []


def test_options_of_rebalance_table_are_combined_with_brokers_or_profile() -> None:
    secured = {"kafka.security.protocol": "SSL", "subscribe": "another"}
    journal = {"kafka.security.protocol": "SSL", "subscribe": "__kohort_journal"}

    assert source_options("b:1", "", secured) == {**journal, "kafka.bootstrap.servers": "b:1"}
    assert source_options("", "prod", secured) == {**journal, "profile": "prod"}
    assert secured["subscribe"] == "another"

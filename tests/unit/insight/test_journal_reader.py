"""Records of the journal, parsed as entries."""

from kohort.coordinator.journal import GroupUnloaded, build_entry
from kohort.insight.journal_reader import JournalReader

OURS = GroupUnloaded(at_ms=1, group="g\udc80", generation=1)
OTHERS = GroupUnloaded(at_ms=2, group="h", generation=2)
RECORDS = [
    (b"g\xed\xb2\x80", build_entry(OURS)),
    (b"h", build_entry(OTHERS)),
    (b"g\xed\xb2\x80", b'{"kind":"invented"}'),
    (b"h", b"\xff"),
    (b"g\xed\xb2\x80", None),
]


def read(group=None):
    reader = JournalReader(group)
    for key, value in RECORDS:
        reader.add(key, value)
    return reader


def test_reader_finds_group_by_id_even_if_invalid_unicode():
    assert read("g\udc80").entries == [OURS]
    assert read("h").entries == [OTHERS]
    assert read("i").entries == []


def test_reader_without_group_returns_all_in_order():
    assert read().entries == [OURS, OTHERS]


def test_unreadable_records_are_skipped_and_counted():
    assert [read("g\udc80").unread, read("h").unread, read().unread] == [1, 1, 2]

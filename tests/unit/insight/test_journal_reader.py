"""Journal records, parsed into journal entries."""

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


def test_journal_reader_finds_entries_of_group_id_with_invalid_unicode():
    assert read("g\udc80").entries == [OURS]
    assert read("h").entries == [OTHERS]
    assert read("i").entries == []


def test_journal_reader_without_group_returns_entries_of_all_groups_in_order():
    assert read().entries == [OURS, OTHERS]


def test_journal_reader_skips_and_counts_unreadable_records():
    assert [read("g\udc80").unread, read("h").unread, read().unread] == [1, 1, 2]

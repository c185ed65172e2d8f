"""Progress of a watcher, in the headers of the last record of the journal topic."""

import pytest

from kohort.model import Record
from kohort.watch.topic_journal import HEADER, PROGRESS_HEADER, WatcherProgress, progress_of

PROGRESS = b'{"topic_id": "x", "until": {"3": [9, 1]}}'


def record(*headers):
    return Record("__kohort_journal", 0, 0, 77, None, None, headers)


def test_record_of_a_watcher_has_progress_with_store_id_entry_id_and_offsets():
    found = progress_of(record((HEADER, b"abc/12"), (PROGRESS_HEADER, PROGRESS)))

    assert found == WatcherProgress("abc", 12, "x", {3: (9, 1)}, 77)


@pytest.mark.parametrize("header", [b"", b"abc", b"abc/", b"abc/-1", b"abc/1.5", b"abc/" + b"9" * 5000, b"\xff", None])
def test_record_without_entry_id_has_no_progress(header):
    assert progress_of(record((HEADER, header), (PROGRESS_HEADER, PROGRESS))) is None


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"{",
        b'{"topic_id": "x"}',
        PROGRESS.replace(b"9", b"1e999"),
        PROGRESS.replace(b"9", b"9" * 5000),
        None,
    ],
)
def test_record_with_invalid_progress_header_has_progress_without_offsets(header):
    found = progress_of(record((HEADER, b"abc/12"), (PROGRESS_HEADER, header)))

    assert found is not None
    assert found.until == {}

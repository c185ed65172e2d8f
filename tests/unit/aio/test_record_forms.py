from __future__ import annotations

import pytest

from kohort.aio.producing.record_forms import checked_lots
from kohort.client.writing.accumulator import SendColumns
from kohort.errors import UsageError

NOW_MS = 77


def lots(records, size=1000):
    found = checked_lots(records, lambda: NOW_MS, size)
    return [SendColumns([*lot.keys], [*lot.values], [*lot.timestamps], lot.headers) for lot in found]


def test_send_batch_accepts_values_pairs_and_tuples():
    assert lots([b"a", None]) == [SendColumns([None, None], [b"a", None], [NOW_MS] * 2, {})]
    assert lots([(b"k", b"a"), (None, b"b")]) == [SendColumns([b"k", None], [b"a", b"b"], [NOW_MS] * 2, {})]
    assert lots([b"a", ("k", "ä"), ("k", None, {"h": b"1"}), (None, b"v", (), 99)]) == [
        SendColumns([None, b"k", b"k", None], [b"a", "ä".encode(), None, b"v"], [77, 77, 77, 99], {2: [("h", b"1")]})
    ]


def test_record_text_and_memoryviews_become_bytes():
    assert lots([b"a", "b"])[0].values == [b"a", b"b"]
    assert lots([(b"k", b"a"), (memoryview(b"l"), bytearray(b"b"))]) == [
        SendColumns([b"k", b"l"], [b"a", b"b"], [NOW_MS] * 2, {})
    ]


def test_records_of_send_batch_are_split_into_chunks():
    assert [len(lot.values) for lot in lots((b"%d" % n for n in range(25)), size=10)] == [10, 10, 5]
    assert lots([]) == []


@pytest.mark.parametrize("wrong", [5, (b"k",), (b"k", b"v", (), 1, 2), (1, b"v"), (b"k", 2.5), [b"k", b"v"]])
def test_invalid_record_raises_usage_error(wrong):
    for records in ([wrong], [b"a", wrong], [(b"k", b"v"), wrong]):
        with pytest.raises(UsageError):
            lots(records)

from __future__ import annotations

import io

import pytest

from kohort.cli.records import produce as input_lines
from kohort.cli.records.produce import InputError, InputLine, LineFormat, read_lines


def read(text, **options):
    faults = []
    data = text if isinstance(text, bytes) else text.encode()
    found = list(read_lines(io.BytesIO(data), "in.txt", LineFormat(**options), faults.append))
    return found, [str(fault) for fault in faults]


def test_raw_line_becomes_value_without_line_end():
    assert read(b"a\r\nb \n\n\xff") == (
        [InputLine(None, b"a"), InputLine(None, b"b "), InputLine(None, b""), InputLine(None, b"\xff")],
        [],
    )
    assert read("") == ([], [])


def test_raw_line_without_key_separator_is_malformed():
    assert read("k::v\nlonely\n::\n", key_separator=b"::") == (
        [InputLine(b"k", b"v"), InputLine(b"", b"")],
        ["in.txt:2: the line has no key separator '::'"],
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON: Expecting property name"),
        (b"", "not JSON: Expecting value at column 1"),
        (b'{"a": "\xff"}', "not JSON: not UTF-8 at byte 7"),
        (b"[" * 100_000, "JSON is nested too deeply"),
        (b"[1]", "the JSON has no key field 'id'"),
        (b'{"a": 1}', "the JSON has no key field 'id'"),
    ],
)
def test_malformed_json_line_is_reported_with_file_and_line_number(line, problem):
    found, (fault,) = read(b'{"id": 1}\n' + line + b"\n", kind="json", key_field="id")

    assert found == [InputLine(b"1", b'{"id": 1}')]
    assert fault.startswith(f"in.txt:2: {problem}")


def test_line_over_16_mib_is_rejected(monkeypatch):
    monkeypatch.setattr(input_lines, "LONGEST_LINE", 1 << 20)

    with pytest.raises(InputError, match=r"in.txt:1: the line is longer than 1 MiB"):
        read(bytes(2 << 20))


def test_byte_order_mark_is_removed_from_first_json_record():
    assert read('\ufeff{"id": 1}\n', kind="json") == ([InputLine(None, b'{"id": 1}')], [])

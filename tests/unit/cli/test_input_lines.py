"""Stories of lines that become records to send, or errors that name their place."""

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


def test_raw_lines_lose_only_their_ends():
    assert read(b"a\r\nb \n\n\xff") == (
        [InputLine(None, b"a"), InputLine(None, b"b "), InputLine(None, b""), InputLine(None, b"\xff")],
        [],
    )
    assert read("") == ([], [])


def test_a_raw_line_without_the_separator_is_a_fault():
    assert read("k::v\nlonely\n::\n", key_separator=b"::") == (
        [InputLine(b"k", b"v"), InputLine(b"", b"")],
        ["in.txt:2: no key separator '::' in the line"],
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"{", "not JSON: Expecting property name"),
        (b"", "not JSON: Expecting value at column 1"),
        (b'{"a": "\xff"}', "not JSON: not UTF-8 at byte 7"),
        (b"[" * 100_000, "not JSON that can be read: nested too deeply"),
        (b"[1]", "no field 'id' for the key"),
        (b'{"a": 1}', "no field 'id' for the key"),
    ],
)
def test_json_faults_say_what_and_where(line, problem):
    found, (fault,) = read(b'{"id": 1}\n' + line + b"\n", kind="json", key_field="id")

    assert found == [InputLine(b"1", b'{"id": 1}')]
    assert fault.startswith(f"in.txt:2: {problem}")


def test_csv_takes_names_from_its_first_line_and_leaves_empty_lines_out():
    found, faults = read("\ufeffid,name\n1,Ann\n\n2,\u00c9va\n", kind="csv", key_field="id")

    assert found == [
        InputLine(b"1", b'{"id":"1","name":"Ann"}'),
        InputLine(b"2", '{"id":"2","name":"\u00c9va"}'.encode()),
    ]
    assert faults == []


def test_csv_faults_name_the_line_where_the_row_begins():
    found, faults = read(b'a,b\n1\n"x\ny",2\n\xff,3\n4,5\n', kind="csv")

    assert [line.value for line in found] == [b'{"a":"x\\ny","b":"2"}', b'{"a":"4","b":"5"}']
    assert faults == ["in.txt:2: 1 fields where the first line names 2 columns", "in.txt:5: not UTF-8"]


def test_a_key_column_that_is_not_there_cannot_be_skipped():
    with pytest.raises(InputError, match=r"in.txt:1: no column 'id' for the key; there are a, b"):
        read("a,b\n1,2\n", kind="csv", key_field="id")
    assert read("", kind="csv", key_field="id") == ([], [])


def test_a_file_without_line_ends_is_not_read_into_memory(monkeypatch):
    monkeypatch.setattr(input_lines, "LONGEST_LINE", 1 << 20)

    with pytest.raises(InputError, match=r"in.txt:1: the line is longer than 1 MiB"):
        read(bytes(2 << 20))


def test_csv_quote_that_is_not_closed_makes_only_its_line_malformed():
    rows = [f'{n},"row {n}"' for n in range(10_000)]
    rows[4_999] = '4999,"5" pipe'

    found, faults = read("n,name\n" + "\n".join(rows) + "\n", kind="csv")

    assert len(found) == 9_999
    assert faults == ["in.txt:5001: ',' expected after '\"'"]


def test_csv_open_quote_names_the_lines_that_it_would_take():
    found, faults = read('n,name\n1,"open\n2,b\n3,"c"\n4,d\n', kind="csv")

    assert [line.value for line in found] == [
        b'{"n":"2","name":"b"}', b'{"n":"3","name":"c"}', b'{"n":"4","name":"d"}'
    ]  # fmt: skip
    assert faults == ["in.txt:2: ',' expected after '\"' (read as one record with the lines to 4)"]

    found, faults = read('n,name\n1,"open\n2,b\n', kind="csv")
    assert [line.value for line in found] == [b'{"n":"2","name":"b"}']
    assert faults == ["in.txt:2: unexpected end of data (read as one record with the lines to 3)"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b,a\n1,2,3\n", "in.txt:1: two columns are called 'a': rename one of them"),
        ("a\tb\n1\t2\n", r"in.txt:1: tabs and no comma between the names of the columns: give --separator '\\t'"),
        ("a,b\n1,2\n".encode("utf-16"), "in.txt: the file is UTF-16: convert it to UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), "in.txt: the file is UTF-16: convert it to UTF-8"),
    ],
)
def test_csv_first_line_that_does_not_name_each_column_is_rejected(text, problem):
    with pytest.raises(InputError) as error:
        read(text, kind="csv")
    assert str(error.value).startswith(problem.replace("\\\\", "\\"))


def test_csv_separator_may_be_a_tab_or_any_character():
    assert read("a\tb\n1\t2,3\n", kind="csv", separator="\t") == ([InputLine(None, b'{"a":"1","b":"2,3"}')], [])
    assert read("a;b\n1;2\n", kind="csv", separator=";") == ([InputLine(None, b'{"a":"1","b":"2"}')], [])


def test_json_byte_order_mark_is_no_part_of_the_first_record():
    assert read('\ufeff{"id": 1}\n', kind="json") == ([InputLine(None, b'{"id": 1}')], [])

"""The reference to a registered schema: prefix and header forms, message paths, damaged bytes."""

from __future__ import annotations

import pytest

from kohort.errors import UndecodableValue
from kohort.schemas.framing import KEY_HEADER, VALUE_HEADER, Frame, read_frame, reference_bytes, schema_header

GUID = "89791762-2336-4186-9674-299b90a802e2"
GUID_BYTES = bytes.fromhex("01 89791762 2336 4186 9674 299b90a802e2")


def test_prefix_of_a_schema_id_is_a_zero_byte_and_four_bytes() -> None:
    assert reference_bytes(7) == b"\0\0\0\0\7"
    assert read_frame(b"\0\0\0\0\7payload") == Frame(7, b"payload")
    assert read_frame(b"\0\xff\xff\xff\xff") == Frame(0xFFFF_FFFF, b"")


def test_header_with_a_guid_leaves_the_payload_bare() -> None:
    assert schema_header(GUID, is_key=False) == (VALUE_HEADER, GUID_BYTES)
    assert schema_header(GUID, is_key=True) == (KEY_HEADER, GUID_BYTES)
    for payload in (b"", b"\2", b"\0\0\0\0\7payload"):
        assert read_frame(payload, ((VALUE_HEADER, GUID_BYTES),)) == Frame(GUID, payload)


def test_header_with_an_id_wins_over_the_prefix() -> None:
    assert read_frame(b"\0\0\0\0\7x", ((VALUE_HEADER, b"\0\0\0\0\1"),)) == Frame(1, b"\0\0\0\0\7x")


def test_last_of_several_headers_names_the_schema() -> None:
    headers = ((VALUE_HEADER, b"\0\0\0\0\1"), ("other", None), (VALUE_HEADER, b"\0\0\0\0\2"))
    assert read_frame(b"x", headers).schema == 2


def test_header_of_the_key_does_not_apply_to_the_value() -> None:
    headers = ((KEY_HEADER, GUID_BYTES),)
    assert read_frame(b"\0\0\0\0\7x", headers) == Frame(7, b"x")
    assert read_frame(b"x", headers, is_key=True) == Frame(GUID, b"x")


@pytest.mark.parametrize(
    ("path", "encoded"),
    [((0,), b"\0"), ((1,), b"\2\2"), ((2, 0), b"\4\4\0"), ((0, 0), b"\4\0\0"), ((300,), b"\2\xd8\4")],
)
def test_message_path_is_read_as_written(path: tuple[int, ...], encoded: bytes) -> None:
    assert reference_bytes(7, path) == b"\0\0\0\0\7" + encoded
    assert read_frame(b"\0\0\0\0\7" + encoded + b"x", has_path=True) == Frame(7, b"x", path)
    header = schema_header(GUID, is_key=False, path=path)
    assert read_frame(b"x", [header], has_path=True) == Frame(GUID, b"x", path)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "0 bytes"),
        (b"\0\0\0\7", "4 bytes, expected byte 00 and a schema id"),
        (b"\1" + bytes(15), "16 bytes, expected byte 01"),
        (b'{"a": 1}', "the first byte is 7b"),
    ],
)
def test_bytes_without_a_reference_are_rejected(data: bytes, problem: str) -> None:
    with pytest.raises(UndecodableValue, match=problem):
        read_frame(data)
    with pytest.raises(UndecodableValue, match=f"^header {VALUE_HEADER}: {problem}"):
        read_frame(b"x", ((VALUE_HEADER, data),))


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        (b"", "ends within an index"),
        (b"\4\0", "path of 2 indexes, but 1 bytes follow"),
        (b"\xfe\xff\xff\xff\x0f" + bytes(20), "path of 2147483647 indexes"),
        (b"\1", "path of -1 indexes"),
        (b"\2\1", "negative index -1"),
        (b"\2\x80", "ends within an index"),
        (b"\xff" * 11, "varint exceeds ten bytes"),
        (b"\2" + b"\xff" * 11, "varint exceeds ten bytes"),
    ],
)
def test_damaged_message_path_is_rejected(path: bytes, problem: str) -> None:
    with pytest.raises(UndecodableValue, match=problem):
        read_frame(b"\0\0\0\0\7" + path, has_path=True)


def test_every_cut_of_a_frame_is_parsed_or_rejected() -> None:
    frame = reference_bytes(7, (2, 0)) + b"payload"
    for size in range(len(frame)):
        try:
            assert read_frame(frame[:size], has_path=True).schema == 7
        except UndecodableValue:
            assert size < 8

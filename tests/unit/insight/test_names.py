"""Texts that show members, times and numbers."""

import pytest

from kohort.coordinator.journal import ClientIdentity
from kohort.insight.names import count, limit, name_and_place, name_of, printable, seconds

UUID = "1a2b3c4d-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("member", "name"),
    [
        (ClientIdentity(f"demo-2-{UUID}", "demo-2", "/127.0.0.1"), "demo-2-1a2b3c4d"),
        (ClientIdentity(f"node-7-{UUID}", "demo", "/127.0.0.1", "node-7"), "node-7-1a2b3c4d"),
        (ClientIdentity(UUID, "rdkafka"), "rdkafka/1a2b3c4d"),
        (ClientIdentity(f"-{UUID}"), "-1a2b3c4d"),
        (ClientIdentity("", "admin"), "admin"),
        (ClientIdentity(""), "an unknown client"),
        (ClientIdentity("x" * 100, ""), "x" * 60 + "…"),
    ],
)
def test_name_of_member_is_client_id_and_first_characters_of_member_id(member, name):
    assert name_of(member) == name


def test_member_name_with_host_also_has_the_client_id_or_instance_id():
    assert name_and_place(ClientIdentity(f"a-{UUID}", "a", "/10.0.0.1")) == "a-1a2b3c4d (client a at /10.0.0.1)"
    assert name_and_place(ClientIdentity(f"i-{UUID}", "a", "/h", "i")) == "i-1a2b3c4d (static i, client a at /h)"
    assert name_and_place(ClientIdentity("m")) == "m"


def test_texts_from_clients_are_shown_without_control_characters():
    assert printable("a\x1b[2Jb\nc\u202e") == "a?[2Jb?c?"
    assert printable("x" * 300) == "x" * 255 + "…"


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (99, "99 ms"),
        (100, "0.1 s"),
        (3149, "3.1 s"),
        (119_999, "120.0 s"),
        (185_000, "3 min 5 s"),
        (600_000, "10 min"),
    ],
)
def test_durations_are_shown_in_ms_seconds_or_minutes(ms, text):
    assert seconds(ms) == text


def test_timeouts_are_shown_without_decimals():
    assert [limit(ms) for ms in (10_000, 1500, 300_000)] == ["10 s", "1.5 s", "5 min"]
    assert [count(n, "member") for n in (0, 1, 2)] == ["no members", "1 member", "2 members"]

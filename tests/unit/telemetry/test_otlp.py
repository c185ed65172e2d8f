import math

import pytest

from kohort.steps import at_once, shortest_steps
from kohort.telemetry.otlp import LABELS_MOST, TEXT_MOST, VALUES_MOST, BadTelemetry, parse_metrics
from kohort.telemetry.report import MetricValue
from support.telemetry.otlp_bytes import field, gauge, label, metrics_data, total, varint


def parsed(data):
    return at_once(parse_metrics(data))


def test_gauges_and_sums_are_parsed_with_their_labels():
    data = metrics_data(
        gauge("poll.idle.ratio.avg", 0.25),
        total("rebalance.total", 7, topic="orders", partition="3"),
        group_id="g",
        group_member_id="m-1",
    )

    pushed = parsed(data)

    assert pushed.labels == {"group_id": "g", "group_member_id": "m-1"}
    assert pushed.values == [
        MetricValue("poll.idle.ratio.avg", 0.25),
        MetricValue("rebalance.total", 7.0, {"topic": "orders", "partition": "3"}),
    ]
    assert not pushed.is_cut


def test_metrics_of_several_resources_are_merged():
    data = metrics_data(gauge("a", 1), group_id="g") + metrics_data(gauge("b", 2), client_rack="r")

    pushed = parsed(data)

    assert pushed.labels == {"group_id": "g", "client_rack": "r"}
    assert [one.name for one in pushed.values] == ["a", "b"]


def test_empty_metrics_message_is_valid():
    assert parsed(b"").values == []


def test_data_points_without_value_are_skipped():
    none = field(1, b"a") + field(5, field(1, b""))

    pushed = parsed(metrics_data(gauge("avg", math.nan), gauge("max", -math.inf), none, gauge("", 1.0)))

    assert pushed.values == []


def test_labels_of_other_types_become_text():
    kinds = {
        "yes": b"\x10\x01",
        "many": b"\x18" + varint((1 << 64) - 5),
        "half": b"\x21" + bytes.fromhex("000000000000e03f"),
        "list": field(5, b""),
    }
    resource = b"".join(field(1, field(1, name.encode()) + field(2, value)) for name, value in kinds.items())

    pushed = parsed(field(1, field(1, resource)))

    assert pushed.labels == {"yes": "true", "many": "-5", "half": "0.5", "list": ""}


def test_values_beyond_the_limit_are_dropped():
    pushed = parsed(metrics_data(*(gauge(f"m{n}", n) for n in range(VALUES_MOST + 1))))

    assert len(pushed.values) == VALUES_MOST
    assert pushed.is_cut


def test_long_names_and_many_labels_are_cut():
    many = {f"l{n}": "x" * 1000 for n in range(LABELS_MOST + 1)}

    (value,) = parsed(metrics_data(gauge("n" * 1000, 1, **many))).values

    assert len(value.name) == TEXT_MOST
    assert {len(text) for text in value.labels.values()} == {TEXT_MOST}
    assert len(value.labels) == LABELS_MOST
    assert len(parsed(metrics_data(**many)).labels) == LABELS_MOST


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0a\x05abc", "field at byte 2 has 5 bytes, but 3 are left"),
        (b"\x0a", "incomplete varint"),
        (b"\x80" * 11, "varint of more than ten bytes"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x01", "field number 0"),
        (b"\x09\x01", "field at byte 1 has 8 bytes, but 1 are left"),
        (metrics_data(field(1, b"\xff")), "invalid UTF-8 at byte 10"),
        (metrics_data(b"\x18\x01" * 1001), "more than 1000 fields"),
        (metrics_data(label("a", "b")[:-1]), "left"),
    ],
)
def test_malformed_message_error_names_the_position(data, words):
    with pytest.raises(BadTelemetry, match=words):
        parsed(data)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "data",
    [
        b"\x18\x01" * 400_000,
        field(1, field(2, b"\x18\x01" * 400_000)),
        field(1, field(1, b"\x18\x01" * 900) * 400),
        metrics_data(field(1, b"a") + field(5, b"\x0a\x00" * 400_000)),
        metrics_data(field(1, b"a") + field(5, field(1, b"\x18\x01" * 900) * 400)),
        metrics_data(*[b"\x18\x01" * 900] * 400),
    ],
    ids=["top", "scope", "resources", "empty points", "points", "metrics"],
)
def test_megabyte_of_garbage_is_scanned_in_steps(data):
    steps = sum(1 for _ in parse_metrics(data))

    assert steps > 50, "each step takes about five milliseconds"


def test_parsed_metrics_do_not_depend_on_the_step_length():
    data = metrics_data(*(gauge(f"m{n}", n, topic="t") for n in range(50)), group_id="g")
    at_once_ = parsed(data)

    with shortest_steps():
        assert parsed(data) == at_once_

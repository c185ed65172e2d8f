"""Any pushed bytes are accepted or rejected: no other error, bounded memory, equal results for any slices."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from kohort.steps import at_once, shortest_steps
from kohort.telemetry.otlp import LABELS_MOST, TEXT_MOST, VALUES_MOST, BadTelemetry, parse_metrics
from kohort.telemetry.report import ClientReport, build_report, parse_report
from support.telemetry.otlp_bytes import field, gauge, label, metrics_data, total, varint

NAMES = st.text(max_size=8)
LABELS = st.dictionaries(st.sampled_from(["topic", "partition", "node_id"]), NAMES, max_size=3)
WHOLE = st.integers(-(1 << 63), (1 << 63) - 1)
NUMBERS = st.one_of(st.floats(), st.floats(allow_nan=False, allow_infinity=False))
METRICS = st.one_of(
    st.builds(lambda name, value, labels: gauge(name, value, **labels), NAMES, NUMBERS, LABELS),
    st.builds(lambda name, value, labels: total(name, value, **labels), NAMES, WHOLE, LABELS),
    st.binary(max_size=20),
    st.builds(field, st.integers(1, 12), st.binary(max_size=20)),
    st.builds(lambda name, points: field(1, name.encode()) + field(9, points), NAMES, st.binary(max_size=9)),
)  # fmt: skip
PUSHES = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda metrics: metrics_data(*metrics, group_id="g"), st.lists(METRICS, max_size=6)),
    st.builds(
        lambda metrics, at, byte: bytes(
            byte if place == at else original for place, original in enumerate(metrics_data(*metrics, group_id="g"))
        ),
        st.lists(METRICS, min_size=1, max_size=4),
        st.integers(0, 120),
        st.integers(0, 255),
    ),
    st.builds(lambda number, size, rest: varint(number << 3 | 2) + varint(size) + rest,
              st.integers(0, 1 << 30), st.integers(0, 1 << 64), st.binary(max_size=9)),
    st.builds(lambda labels: field(1, field(1, b"".join(field(1, label(*one)) for one in labels))),
              st.lists(st.tuples(NAMES, NAMES), max_size=20)),
)  # fmt: skip


def outcome(data):
    try:
        return at_once(parse_metrics(data))
    except BadTelemetry as error:
        return str(error)


@given(PUSHES)
def test_a_push_is_read_within_bounds_or_refused(data):
    found = outcome(data)
    if isinstance(found, str):
        assert found
        return

    assert len(found.values) <= VALUES_MOST
    assert len(found.labels) <= LABELS_MOST
    for value in found.values:
        assert math.isfinite(value.value)
        assert value.name
        assert max(map(len, [value.name, *value.labels, *value.labels.values()])) <= TEXT_MOST
    report = ClientReport(
        at_ms=1, client_instance_id="i", client_id="c", host="/h", node_id=1, interval_ms=1,
        labels=found.labels, values=tuple(found.values),
    )  # fmt: skip
    assert parse_report(build_report(report)) == report, "what was read can be kept"


@given(PUSHES)
def test_the_steps_make_no_difference(data):
    whole = outcome(data)

    with shortest_steps():
        assert outcome(data) == whole


@given(st.lists(st.tuples(NAMES.filter(bool), st.floats(allow_nan=False, allow_infinity=False), LABELS), max_size=10))
def test_encoded_metrics_are_decoded_unchanged(metrics):
    found = at_once(parse_metrics(metrics_data(*(gauge(name, value, **labels) for name, value, labels in metrics))))

    assert [(one.name, one.value, one.labels) for one in found.values] == metrics

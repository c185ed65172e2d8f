"""Options of the broker for modern groups: what Apache Kafka refuses at its start is refused here."""

import pytest

from kohort.config.broker import BrokerConfig
from kohort.config.options import parse_config
from kohort.errors import ConfigError

CLASSES = "org.apache.kafka.coordinator.group.assignor."


def parsed(**options: str) -> BrokerConfig:
    return parse_config(BrokerConfig, {f"group.consumer.{name.replace('_', '.')}": v for name, v in options.items()})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"session_timeout_ms": "1000"},
            "group.consumer.session.timeout.ms=1000: expected at least group.consumer.min.session.timeout.ms, "
            "which is 45000",
        ),
        (
            {"min_session_timeout_ms": "70000"},
            "group.consumer.max.session.timeout.ms=60000: expected at least group.consumer.min.session.timeout.ms, "
            "which is 70000",
        ),
        (
            {"heartbeat_interval_ms": "20000"},
            "group.consumer.heartbeat.interval.ms=20000: expected at most group.consumer.max.heartbeat.interval.ms, "
            "which is 15000",
        ),
        (
            {"max_assignment_interval_ms": "100"},
            "group.consumer.assignment.interval.ms=1000: expected at most group.consumer.max.assignment.interval.ms, "
            "which is 100",
        ),
        (
            {"max_heartbeat_interval_ms": "45000", "heartbeat_interval_ms": "45000"},
            "group.consumer.heartbeat.interval.ms=45000: expected less than group.consumer.session.timeout.ms, "
            "which is 45000",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_sentence(options, sentence):
    with pytest.raises(ConfigError) as refused:
        parsed(**options)

    assert str(refused.value) == sentence


def test_bounds_themselves_are_allowed():
    config = parsed(session_timeout_ms="60000", heartbeat_interval_ms="15000", assignment_interval_ms="0")

    assert (config.group_consumer_session_timeout_ms, config.group_consumer_assignment_interval_ms) == (60_000, 0)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("uniform", ["uniform"]),
        (" range , uniform ", ["range", "uniform"]),
        (f"{CLASSES}UniformAssignor", ["uniform"]),
        (f"{CLASSES}RangeAssignor,uniform", ["range", "uniform"]),
        ("uniform,uniform", ["uniform"]),
    ],
)
def test_assignors_are_named_by_name_or_by_kafkas_class(text, names):
    config = parsed(assignors=text)

    assert config.consumer_assignors == names


@pytest.mark.parametrize(
    "text",
    ["", "Uniform", f"{CLASSES}uniformassignor", f"{CLASSES}UniformAssignor,uniform", "foo", "java.lang.String"],
)
def test_others_are_refused_with_what_may_be_named(text):
    with pytest.raises(ConfigError, match=r"expected uniform, range, or both"):
        parsed(assignors=text)

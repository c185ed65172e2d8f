"""The options of format("kohort"): the connector's names, refusals, and the nearest name for a typing error."""

from __future__ import annotations

import pytest

from kohort.errors import ConfigError
from kohort.spark.options import parse_source_options

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_the_connectors_options_are_taken_whatever_their_case() -> None:
    options = parse_source_options(
        {"KAFKA.Bootstrap.Servers": "a:1,b:2", "SUBSCRIBE": "orders, refunds", "MaxOffsetsPerTrigger": "500"},
        streaming=True,
    )

    assert options.bootstrap_servers == "a:1,b:2"
    assert options.subscribe == ("orders", "refunds")
    assert options.max_offsets_per_trigger == 500


def test_kafka_properties_go_to_the_client() -> None:
    options = parse_source_options({**GIVEN, "kafka.request.timeout.ms": "5000"}, streaming=True)

    assert options.client == {"request.timeout.ms": "5000"}


@pytest.mark.parametrize("name", ["group.id", "kafka.group.id"])
def test_a_group_is_named_either_way_and_a_stream_then_starts_from_it(name: str) -> None:
    options = parse_source_options({**GIVEN, name: "orders-pipeline"}, streaming=True)

    assert (options.group_id, options.commits, options.stream_start) == ("orders-pipeline", True, "group")


def test_without_a_group_a_stream_starts_at_the_end_and_a_batch_at_the_beginning() -> None:
    options = parse_source_options(GIVEN, streaming=True)

    assert (options.stream_start, options.batch_start, options.commits) == ("latest", "earliest", False)


@pytest.mark.parametrize(
    ("given", "streaming", "said"),
    [
        ({"subscribe": "orders"}, True, "'kafka.bootstrap.servers' is missing"),
        ({"kafka.bootstrap.servers": "a:1"}, True, "exactly one of subscribe, subscribePattern and assign: none"),
        ({**GIVEN, "assign": '{"orders": [0]}'}, True, "subscribe and assign are given"),
        ({**GIVEN, "startingOfsets": "earliest"}, True, "did you mean startingOffsets?"),
        ({**GIVEN, "startingOffsets": "begin"}, True, "expected earliest, latest, group, or JSON"),
        ({**GIVEN, "startingOffsets": "group"}, True, "needs the option 'group.id'"),
        ({**GIVEN, "startingOffsets": "latest"}, False, "reads nothing in a batch"),
        ({**GIVEN, "startingOffsets": '{"orders": {"0": -1}}'}, False, "reads nothing in a batch"),
        ({**GIVEN, "endingOffsets": "latest"}, True, "for batch reads"),
        ({**GIVEN, "endingOffsets": '{"orders": {"0": -2}}'}, False, "is no end"),
        ({**GIVEN, "kafka.auto.offset.reset": "earliest"}, True, "refused: use startingOffsets"),
        ({**GIVEN, "kafka.enable.auto.commit": "true"}, True, "is refused"),
        ({**GIVEN, "kafka.value.deserializer": "x"}, True, "is refused"),
        ({**GIVEN, "minPartitions": "4"}, True, "'minPartitions' of the Kafka connector is not served"),
        ({**GIVEN, "maxOffsetsPerTrigger": "0"}, True, "a whole number of at least 1"),
        ({**GIVEN, "failOnDataLoss": "maybe"}, True, "expected true or false"),
        ({"kafka.bootstrap.servers": "a:1", "assign": '{"orders": "0"}'}, True, "expected JSON such as"),
        ({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, True, "not a regular expression"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_is_allowed(
    given: dict[str, str], streaming: bool, said: str
) -> None:
    with pytest.raises(ConfigError, match=said.replace("(", "\\(").replace("?", "\\?")):
        parse_source_options(given, streaming=streaming)


def test_the_pin_names_the_start_and_nothing_else() -> None:
    pins = {
        start: parse_source_options({**GIVEN, "startingOffsets": start, "group.id": "g"}, streaming=True).pin
        for start in ("earliest", "latest", '{"orders": {"0": 5}}')
    }
    other_limit = parse_source_options(
        {**GIVEN, "startingOffsets": "latest", "group.id": "g", "maxOffsetsPerTrigger": "9"}, streaming=True
    )

    assert len(set(pins.values())) == 3
    assert other_limit.pin == pins["latest"]

"""Options and columns of the Spark sink."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from kohort.errors import ConfigError
from kohort.spark.options.sink import parse_sink_options
from kohort.spark.sending.sink import check_sink_schema

GIVEN = {"kafka.bootstrap.servers": "localhost:9092"}
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def test_sink_accepts_spark_connector_options_and_passes_kafka_options_to_the_producer() -> None:
    options = parse_sink_options(
        {**GIVEN, "TOPIC": "orders", "kafka.acks": "all", "checkpointLocation": "/tmp/x", "queryName": "q"},
        streaming=True,
    )

    assert (options.topic, options.include_headers, options.delivery_headers) == ("orders", True, True)
    assert options.client == {"bootstrap.servers": "localhost:9092", "acks": "all", "client.id": "kohort-spark"}


def test_batch_write_has_no_delivery_headers_by_default() -> None:
    assert not parse_sink_options(GIVEN, streaming=False).delivery_headers
    assert parse_sink_options({**GIVEN, "deliveryHeaders": "true"}, streaming=False).delivery_headers


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"topic": "a"}, "'kafka.bootstrap.servers' is missing"),
        ({**GIVEN, "topics": "a"}, "did you mean topic?"),
        ({**GIVEN, "kafka.ack": "all"}, "did you mean kafka.acks?"),
        ({**GIVEN, "kafka.acks": "most"}, "acks='most'"),
        ({**GIVEN, "kafka.value.serializer": "x"}, "is not supported: values are text or binary"),
        ({**GIVEN, "includeHeaders": "yes"}, "expected true or false"),
    ],
)
def test_invalid_sink_options_are_rejected(given: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("?", "\\?")):
        parse_sink_options(given, streaming=True)


def test_sink_accepts_dataframe_with_record_columns() -> None:
    plain = parse_sink_options({**GIVEN, "topic": "t"}, streaming=True)

    assert check_sink_schema([("value", "string"), ("key", "binary"), HEADERS], plain) == ("value", "key", "headers")
    source = [("value", "binary"), ("offset", "bigint"), ("timestamp", "timestamp"), ("timestampType", "int")]
    assert check_sink_schema(source, plain) == ("value",), "the sink ignores other columns of the source"
    without = parse_sink_options({**GIVEN, "topic": "t", "includeHeaders": "false"}, streaming=True)
    assert check_sink_schema([("value", "string"), HEADERS], without) == ("value",)


@pytest.mark.parametrize(
    ("fields", "topic", "said"),
    [
        ([("value", "string"), ("amount", "double")], "t", "a record has key, value"),
        ([("value", "double")], "t", "'value' must be binary or string, not double"),
        ([("key", "string")], "t", "column 'value' is missing"),
        ([("value", "string")], "", "give the option 'topic', or a column"),
        ([("value", "string"), ("partition", "bigint")], "t", "'partition' must be int, not bigint"),
    ],
)
def test_sink_rejects_dataframe_with_unsupported_columns(fields: list[tuple[str, str]], topic: str, said: str) -> None:
    options = parse_sink_options({**GIVEN, "topic": topic}, streaming=True)

    with pytest.raises(ConfigError, match=said):
        check_sink_schema(fields, options)

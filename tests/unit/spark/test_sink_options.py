"""Options and columns of the Spark sink."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from kohort.errors import ConfigError
from kohort.spark.options.sink import parse_sink_options
from kohort.spark.sending.sink import check_sink_schema

REQUIRED = {"kafka.bootstrap.servers": "localhost:9092"}
HEADERS = ("headers", "array<struct<key:string,value:binary>>")


def test_sink_accepts_spark_connector_options_and_passes_kafka_options_to_the_producer() -> None:
    options = parse_sink_options(
        {**REQUIRED, "TOPIC": "orders", "kafka.acks": "all", "checkpointLocation": "/tmp/x", "queryName": "q"},
        streaming=True,
    )

    assert (options.topic, options.include_headers, options.delivery_headers) == ("orders", True, True)
    assert options.client == {"bootstrap.servers": "localhost:9092", "acks": "all", "client.id": "kohort-spark"}


def test_batch_write_has_no_delivery_headers_by_default() -> None:
    assert not parse_sink_options(REQUIRED, streaming=False).delivery_headers
    assert parse_sink_options({**REQUIRED, "deliveryHeaders": "true"}, streaming=False).delivery_headers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "a"}, "'kafka.bootstrap.servers' is missing"),
        ({**REQUIRED, "topics": "a"}, "did you mean topic?"),
        ({**REQUIRED, "kafka.ack": "all"}, "did you mean kafka.acks?"),
        ({**REQUIRED, "kafka.acks": "most"}, "acks='most'"),
        ({**REQUIRED, "kafka.value.serializer": "x"}, "is not supported: values are text or binary"),
        ({**REQUIRED, "includeHeaders": "yes"}, "expected true or false"),
    ],
)
def test_invalid_sink_options_are_rejected(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("?", "\\?")):
        parse_sink_options(options, streaming=True)


def test_sink_accepts_dataframe_with_record_columns() -> None:
    plain = parse_sink_options({**REQUIRED, "topic": "t"}, streaming=True)

    assert check_sink_schema([("value", "string"), ("key", "binary"), HEADERS], plain) == ("value", "key", "headers")
    source = [("value", "binary"), ("offset", "bigint"), ("timestamp", "timestamp"), ("timestampType", "int")]
    assert check_sink_schema(source, plain) == ("value",), "the sink ignores other columns of the source"
    without = parse_sink_options({**REQUIRED, "topic": "t", "includeHeaders": "false"}, streaming=True)
    assert check_sink_schema([("value", "string"), HEADERS], without) == ("value",)


@pytest.mark.parametrize(
    ("fields", "topic", "message"),
    [
        ([("value", "string"), ("amount", "double")], "t", "the sink accepts key, value"),
        ([("value", "double")], "t", "'value' must be binary or string, not double"),
        ([("key", "string")], "t", "column 'value' is missing"),
        ([("value", "string")], "", "give the option 'topic', or a column"),
        ([("value", "string"), ("partition", "bigint")], "t", "'partition' must be int, not bigint"),
    ],
)
def test_sink_rejects_dataframe_with_unsupported_columns(
    fields: list[tuple[str, str]], topic: str, message: str
) -> None:
    options = parse_sink_options({**REQUIRED, "topic": topic}, streaming=True)

    with pytest.raises(ConfigError, match=message):
        check_sink_schema(fields, options)

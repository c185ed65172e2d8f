"""Options of the Spark source."""

from __future__ import annotations

import pytest

from kohort.errors import ConfigError
from kohort.spark.options.source import ByTime, parse_source_options
from kohort.spark.source import check_names

REQUIRED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def test_source_accepts_spark_connector_options_in_upper_or_lower_case() -> None:
    options = parse_source_options(
        {"KAFKA.Bootstrap.Servers": "a:1,b:2", "SUBSCRIBE": "orders, refunds", "MaxOffsetsPerTrigger": "500"},
        streaming=True,
    )

    assert options.bootstrap_servers == "a:1,b:2"
    assert options.subscribe == ("orders", "refunds")
    assert options.max_offsets_per_trigger == 500


def test_source_sizes_and_durations_are_parsed() -> None:
    sizes = {"maxBytesPerTrigger": "64MiB", "maxTriggerDelay": "2 minutes", "minPartitions": "8"}
    options = parse_source_options(
        {
            **REQUIRED,
            **sizes,
            "maxRecordsPerPartition": "500",
            "isolation.level": "read_committed",
            "groupIdPrefix": "x",
        },
        streaming=True,
    )

    assert (options.max_bytes_per_trigger, options.max_trigger_delay_ms) == (64 << 20, 120_000)
    assert (options.min_partitions, options.task_rows) == (8, 500)
    assert options.client == {"isolation.level": "read_committed"}


def test_starting_timestamp_overrides_timestamps_of_partitions_and_starting_offsets() -> None:
    by_partition = {"startingOffsetsByTimestamp": '{"orders": {"0": 7}}', "startingOffsets": "earliest"}
    several = parse_source_options({**REQUIRED, **by_partition}, streaming=True)
    one = parse_source_options({**REQUIRED, **by_partition, "startingTimestamp": "5"}, streaming=True)

    assert several.stream_start == ByTime({"orders": {0: 7}}, strict=True)
    assert one.stream_start == ByTime(5, strict=True)


def test_source_passes_kafka_options_to_the_client() -> None:
    options = parse_source_options({**REQUIRED, "kafka.request.timeout.ms": "5000"}, streaming=True)

    assert options.client == {"request.timeout.ms": "5000"}


@pytest.mark.parametrize("name", ["group.id", "kafka.group.id"])
def test_both_names_of_the_group_option_are_accepted_and_the_stream_starts_at_committed_offsets(name: str) -> None:
    options = parse_source_options({**REQUIRED, name: "orders-pipeline"}, streaming=True)

    assert (options.group_id, options.commits, options.stream_start) == ("orders-pipeline", True, "group")


def test_stream_without_group_starts_at_the_end_and_batch_without_group_at_the_beginning() -> None:
    options = parse_source_options(REQUIRED, streaming=True)

    assert (options.stream_start, options.batch_start, options.commits) == ("latest", "earliest", False)


@pytest.mark.parametrize(
    ("options", "streaming", "message"),
    [
        ({"subscribe": "orders"}, True, "'kafka.bootstrap.servers' is missing"),
        (
            {"kafka.bootstrap.servers": "a:1"},
            True,
            "exactly one of the options subscribe, subscribePattern and assign: none",
        ),
        ({**REQUIRED, "assign": '{"orders": [0]}'}, True, "subscribe and assign are given"),
        ({**REQUIRED, "startingOfsets": "earliest"}, True, "did you mean startingOffsets?"),
        ({**REQUIRED, "startingOffsets": "begin"}, True, "expected earliest, latest, group, or JSON"),
        ({**REQUIRED, "startingOffsets": "group"}, True, "needs the option 'group.id'"),
        ({**REQUIRED, "startingOffsets": "latest"}, False, "a batch read would return no records"),
        ({**REQUIRED, "startingOffsets": '{"orders": {"0": -1}}'}, False, "a batch read would return no records"),
        ({**REQUIRED, "endingOffsets": "latest"}, True, "is only for batch reads"),
        ({**REQUIRED, "endingOffsets": '{"orders": {"0": -2}}'}, False, "a batch read would return no records"),
        ({**REQUIRED, "kafka.auto.offset.reset": "earliest"}, True, "is not supported: use startingOffsets"),
        ({**REQUIRED, "kafka.enable.auto.commit": "true"}, True, "is not supported"),
        ({**REQUIRED, "kafka.value.deserializer": "x"}, True, "is not supported"),
        ({**REQUIRED, "kafka.fetch.min.byte": "4"}, True, "did you mean kafka.fetch.min.bytes?"),
        ({**REQUIRED, "kafka.fetch.min.bytes": "few"}, True, "fetch.min.bytes='few': expected"),
        ({**REQUIRED, "endingTimestamp": "5"}, True, "'endingTimestamp' is only for batch reads"),
        ({**REQUIRED, "endingOffsets": "group"}, False, "endingOffsets=group needs the option 'group.id'"),
        ({**REQUIRED, "startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, True, "found a negative number"),
        (
            {**REQUIRED, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            True,
            "minOffsetsPerTrigger=9 is more than maxOffsetsPerTrigger=8",
        ),
        ({**REQUIRED, "maxTriggerDelay": "soon"}, True, "a duration such as 15m, 30s or 250ms"),
        ({**REQUIRED, "maxBytesPerTrigger": "much"}, True, "a size such as 64m"),
        ({**REQUIRED, "value.format": "xml"}, True, "expected one of raw, json, csv"),
        ({**REQUIRED, "value.format": "json", "badRecords": "dlq"}, True, "needs the option 'deadLetterTopic'"),
        ({**REQUIRED, "badRecords": "drop"}, True, "badRecords needs decoded values"),
        ({**REQUIRED, "maxOffsetsPerTrigger": "0"}, True, "an integer >= 1"),
        ({**REQUIRED, "failOnDataLoss": "maybe"}, True, "expected true or false"),
        ({"kafka.bootstrap.servers": "a:1", "assign": '{"orders": "0"}'}, True, "expected JSON such as"),
        ({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, True, "not a regular expression"),
    ],
)
def test_invalid_source_options_are_rejected_with_the_allowed_values(
    options: dict[str, str], streaming: bool, message: str
) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", "\\(").replace("?", "\\?")):
        parse_source_options(options, streaming=streaming)


def test_commit_metadata_of_start_offsets_depends_only_on_the_starting_options() -> None:
    pins = {
        start: parse_source_options({**REQUIRED, "startingOffsets": start, "group.id": "g"}, streaming=True).pin
        for start in ("earliest", "latest", '{"orders": {"0": 5}}')
    }
    other_limit = parse_source_options(
        {**REQUIRED, "startingOffsets": "latest", "group.id": "g", "maxOffsetsPerTrigger": "9"}, streaming=True
    )

    assert len(set(pins.values())) == 3
    assert other_limit.pin == pins["latest"]


def test_misspelt_option_is_rejected_when_the_source_is_created() -> None:
    check_names(["kafka.bootstrap.servers", "subscribe", "GROUP.ID", "topic", "deliveryHeaders", "checkpointLocation"])

    with pytest.raises(ConfigError, match=r"unknown option 'subscrib'; did you mean subscribe\?"):
        check_names(["kafka.bootstrap.servers", "subscrib"])

"""A transaction that hangs on Apache Kafka, as its own coordinator never knew of it: found, ended, and read past."""

from __future__ import annotations

import json
import time

import pytest
from click.testing import CliRunner

import kohort
from kohort import TopicPartition
from kohort.cli.main import main
from kohort.errors import ErrorCode
from support.peers.apache_kafka import kafka_tool
from support.peers.kafka_tools import kafka
from support.raw.raw_client import RawClient
from support.raw.transactional import Transactional, committed_offset
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(300)]
OLD_MS = 1_700_000_000_000
DEADLINE_S = 60.0
PLACE = TopicPartition("bookings", 0)


@pytest.fixture
def unverified():
    """The address of an Apache Kafka that takes what is written in a transaction without asking its coordinator."""
    with kafka_tool().Kafka(transaction_partition_verification_enable="false") as running:
        yield running.bootstrap


def committed_values(bootstrap, count):
    values = []
    deadline = time.monotonic() + DEADLINE_S
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with kohort.Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([PLACE])
        while len(values) < count and time.monotonic() < deadline:
            values += [record.value for record in consumer.poll(500)]
        values += [record.value for record in consumer.poll(500)]
    return values


def test_what_hangs_on_apache_kafka_is_found_as_by_its_tool_and_ended(unverified):
    def run(*words):
        result = CliRunner(env={"KOHORT_BOOTSTRAP": unverified}).invoke(main, ["transactions", *words])
        assert result.exit_code == 0, result.output
        return result

    def found(*words):
        return json.loads(run("find-hanging", "--output", "json", *words).stdout)["transactions"]

    with RawClient(unverified) as wire, kohort.Admin(bootstrap_servers=unverified) as admin:
        admin.create_topics({PLACE.topic: 1})
        admin.alter_group_offsets("billing", {PLACE: 0})
        with kohort.Producer(bootstrap_servers=unverified, transactional_id="first") as first:
            first.init_transactions()  # the cluster creates transaction coordinators at the first request
        importer = Transactional(wire, "importer-1")
        eventually(lambda: importer.init() == 0, "the coordinator does not serve the id")
        with kohort.Producer(bootstrap_servers=unverified) as producer:
            producer.send(PLACE.topic, b"before", partition=0)
            producer.flush()
            assert importer.write(PLACE.topic, b"hangs").error_code == 0  # a record of 2023 outside of any transaction
            producer.send(PLACE.topic, b"behind", partition=0)
        assert importer.commit_offsets("billing", PLACE.topic, 2, adds=False) == 0
        assert committed_offset(wire, "billing", PLACE.topic, stable=True)[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert committed_values(unverified, 1) == [b"before"]

        (hanging,) = found()
        theirs = kafka("transactions", "--bootstrap-server", unverified, "find-hanging", "--broker-id", "1")
        (producer_state,) = [
            p for p in admin.describe_producers([PLACE])[PLACE] if p.producer_id == importer.producer_id
        ]

        assert (hanging["topic"], hanging["partition"], hanging["start_offset"]) == (*PLACE, 1)
        assert (hanging["producer_id"], hanging["producer_epoch"]) == (importer.producer_id, importer.epoch)
        assert hanging["transactional_id"] == "importer-1", "known, with nothing open"
        assert hanging["silent_seconds"] > 900
        assert (
            producer_state.transaction_start_offset,
            producer_state.last_timestamp_ms,
            producer_state.coordinator_epoch,
        ) == (1, OLD_MS, None)
        rows = [line.split() for line in theirs.splitlines() if line.startswith(PLACE.topic)]
        assert [row[:3] for row in rows] == [[PLACE.topic, "0", str(importer.producer_id)]]

        both = found("--open-for", "0")
        assert [row["topic"] for row in both] == ["__consumer_offsets", PLACE.topic]
        for row in both:
            place = f"{row['topic']}-{row['partition']}"
            run("abort", "--partition", place, "--start-offset", str(row["start_offset"]), "--yes")

        assert committed_values(unverified, 2) == [b"before", b"behind"]
        eventually(
            lambda: committed_offset(wire, "billing", PLACE.topic, stable=True) == (0, 0), "its offset is pending still"
        )
        assert found("--open-for", "0") == []

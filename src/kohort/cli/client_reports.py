"""What clients pushed, read as commands need it: the last of each, not older than is asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from kohort.cli.cluster import ClusterAccess
from kohort.cli.options import ADMIN_MS
from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.telemetry.report import ClientReport

POLL_MS: Final = 200
READ_S: Final = 10.0
CONSUMER: Final = "org.apache.kafka.consumer."
VITALS: Final = (
    ("POLL-IDLE", f"{CONSUMER}poll.idle.ratio.avg"),
    ("LAST-POLL-S", f"{CONSUMER}last.poll.seconds.ago"),
    ("POLL-MAX-MS", f"{CONSUMER}time.between.poll.max"),
    ("COMMIT-MS", f"{CONSUMER}coordinator.commit.latency.avg"),
    ("REBALANCE-MS", f"{CONSUMER}coordinator.rebalance.latency.max"),
)
"""What the table shows of a consumer: by Kafka's names."""
HEADINGS: Final = ("PUSHED-S-AGO", *(heading for heading, _ in VITALS))


def read_reports(cluster: ClusterAccess, admin: Admin, back_ms: int) -> list[ClientReport] | None:
    """Return the last report of each client that pushed within ``back_ms``, the latest first; None where this cluster
    keeps none. Raises ApiError for who may not read them, ApiTimeout where that takes too long."""
    from kohort.telemetry.report import TOPIC
    from kohort.telemetry.report_reader import REPORT_OPTIONS, ReportReader

    described = admin.describe_topics([TOPIC], timeout_ms=ADMIN_MS)
    error = described.errors.get(TOPIC)
    if isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    partitions = [TopicPartition(TOPIC, p.partition) for p in described[TOPIC].partitions]
    reader = ReportReader()
    since_ms = time.time_ns() // 1_000_000 - back_ms
    deadline = time.monotonic() + READ_S
    with cluster.consumer(REPORT_OPTIONS) as consumer:
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        for tp, at in consumer.offsets_for_times(dict.fromkeys(partitions, since_ms)).items():
            consumer.seek(tp, ends[tp] if at is None else at.offset)
        while any(consumer.position(tp, timeout_ms=ADMIN_MS) < ends[tp] for tp in partitions):
            if time.monotonic() > deadline:
                raise ApiTimeout(f"what clients pushed could not be read within {READ_S:.0f} s: ask for a shorter time")
            for record in consumer.poll(POLL_MS):
                reader.add(record.value)
    return sorted(reader.by_instance.values(), key=lambda report: -report.at_ms)


def software_of(report: ClientReport) -> str | None:
    """Return the name and version of a client's software, or None where it did not say."""
    return " ".join(part for part in (report.software_name, report.software_version) if part) or None


def of_client(reports: Sequence[ClientReport], name: str) -> list[ClientReport]:
    """Return those of a client id, or of a client instance id."""
    return [report for report in reports if name in (report.client_id, report.client_instance_id)]


def vitals_of(report: ClientReport, now_ms: int) -> list[float | int | None]:
    """Return the cells under ``HEADINGS``; None for what the client did not say."""
    values = unlabelled(report)
    told = [None if name not in values else rounded(values[name]) for _, name in VITALS]
    return [max(now_ms - report.at_ms, 0) // 1000, *told]


def unlabelled(report: ClientReport) -> dict[str, float]:
    """Return what a client said of itself as a whole, by the names of the metrics."""
    return {one.name: one.value for one in report.values if not one.labels}


def rounded(value: float) -> float | int:
    """Return a value as people read it: whole where it is, else with three digits."""
    return int(value) if value == int(value) else round(value, 3)

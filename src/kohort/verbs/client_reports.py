"""What clients pushed of themselves (KIP-714), read from the cluster's topic: the last of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from kohort.errors import ApiError, ApiTimeout, ErrorCode
from kohort.model import TopicPartition
from kohort.watch.asking import ADMIN_MS

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.aio.consuming.consumer import Consumer
    from kohort.telemetry.report import ClientReport

POLL_MS: Final = 200
READ_S: Final = 10.0
BACK_MS: Final = 900_000
"""What clients of members pushed is looked for so far back."""


def read_reports(
    consumer_with: Callable[[Mapping[str, Any]], Consumer], admin: Admin, back_ms: int
) -> list[ClientReport] | None:
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
    with consumer_with(REPORT_OPTIONS) as consumer:
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

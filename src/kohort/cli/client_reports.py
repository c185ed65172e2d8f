"""What clients pushed, as commands show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kohort.telemetry.report import ClientReport

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

"""The last metrics that a client pushed, as JSON in ``__kohort_client_metrics``, and a reader of this topic.

Fields may be added with a default; none may be renamed, and no default may change: what is left out has its default.
The records come from any consumer, in the order of the topic's one partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

TOPIC: Final = "__kohort_client_metrics"
"""Key: the client instance id as text. Value: the last report, as JSON."""


class MetricValue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One number: the metric's name as KIP-714 has it, its labels, and its value."""

    name: str
    value: float
    labels: dict[str, str] = {}


class ClientReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What one client pushed last, and who it is. Text of clients is kept as it came: who shows it escapes it."""

    at_ms: int
    client_instance_id: str
    client_id: str
    host: str
    node_id: int
    interval_ms: int
    """How often it pushes."""
    software_name: str | None = None
    software_version: str | None = None
    principal: str = ""
    terminating: bool = False
    """It said that this is its last push."""
    labels: dict[str, str] = {}
    """What it said of itself: ``group_id``, ``group_member_id``, ``group_instance_id``, ``client_rack``,
    ``transactional_id``."""
    values: tuple[MetricValue, ...] = ()
    is_cut: bool = False
    """There was more than is kept of one push."""

    def value(self, name: str) -> float | None:
        """Return the value of a metric without labels of its own, or None where it was not pushed."""
        return next((one.value for one in self.values if one.name == name and not one.labels), None)

    @property
    def group(self) -> str | None:
        """The group that it says it is in."""
        return self.labels.get("group_id")

    @property
    def member_id(self) -> str | None:
        return self.labels.get("group_member_id")


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ClientReport)


def build_report(report: ClientReport) -> bytes:
    """Return the JSON of a report."""
    return _encoder.encode(report)


def parse_report(data: bytes) -> ClientReport:
    """Return a report, of its JSON. Raises ValueError for what is none."""
    return _decoder.decode(data)


REPORT_OPTIONS: Final = {"allow.auto.create.topics": False}
"""Options of a consumer that reads them."""


class ReportReader:
    """The last report of each client, by its client instance id."""

    def __init__(self) -> None:
        self.by_instance: dict[str, ClientReport] = {}
        self.unread = 0
        """Records that are no reports, as far as this version knows."""

    def add(self, value: bytes | None) -> None:
        """Take a record of the topic."""
        if value is None:
            return
        try:
            report = parse_report(value)
        except ValueError:
            self.unread += 1
        else:
            self.by_instance[report.client_instance_id] = report


def report_of_member(
    reports: Iterable[ClientReport], group: str, member_id: str, client_id: str, host: str
) -> ClientReport | None:
    """Return what a member said last: by the member id that it names, or else the only client of its group that has
    its client id and comes from its host (librdkafka names only the group)."""
    of_group = [report for report in reports if report.group == group]
    named = [report for report in of_group if report.member_id == member_id]
    if named:
        return max(named, key=lambda report: report.at_ms)
    like = [r for r in of_group if r.member_id is None and (r.client_id, r.host) == (client_id, host)]
    return like[0] if len(like) == 1 else None

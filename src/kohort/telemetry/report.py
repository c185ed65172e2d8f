"""The last metrics of a client, as JSON in the topic ``__kohort_client_metrics``, and a reader of this topic.

Fields may be added with a default, never renamed; a default never changes, because the JSON omits default values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

TOPIC: Final = "__kohort_client_metrics"
"""Key: the client instance id as text. Value: the client's last report, as JSON."""


class MetricValue(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A pushed number: its KIP-714 metric name, labels and value."""

    name: str
    value: float
    labels: dict[str, str] = {}


class ClientReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Last metrics of a client, and its identity. Strings are unescaped client input."""

    at_ms: int
    client_instance_id: str
    client_id: str
    host: str
    node_id: int
    interval_ms: int
    software_name: str | None = None
    software_version: str | None = None
    principal: str = ""
    terminating: bool = False
    labels: dict[str, str] = {}
    """Labels of the client: ``group_id``, ``group_member_id``, ``group_instance_id``, ``client_rack``,
    ``transactional_id``.
    """
    values: tuple[MetricValue, ...] = ()
    is_cut: bool = False
    """True if values beyond the maximum were dropped."""

    def value(self, name: str) -> float | None:
        """Return the value of a metric without labels; None if it was not pushed."""
        return next((one.value for one in self.values if one.name == name and not one.labels), None)

    @property
    def group(self) -> str | None:
        return self.labels.get("group_id")

    @property
    def member_id(self) -> str | None:
        return self.labels.get("group_member_id")


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(ClientReport)


def build_report(report: ClientReport) -> bytes:
    return _encoder.encode(report)


def parse_report(data: bytes) -> ClientReport:
    return _decoder.decode(data)


REPORT_OPTIONS: Final = {"allow.auto.create.topics": False}


class ReportReader:
    """Reads ``__kohort_client_metrics`` and keeps the last report of each client."""

    def __init__(self) -> None:
        self.by_instance: dict[str, ClientReport] = {}
        self.unread = 0

    def add(self, value: bytes | None) -> None:
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
    """Return the last report of a member.

    librdkafka reports only the group, no member id. A report without member id counts if it is the only one of the
    group with this client id and host.
    """
    of_group = [report for report in reports if report.group == group]
    named = [report for report in of_group if report.member_id == member_id]
    if named:
        return max(named, key=lambda report: report.at_ms)
    like = [r for r in of_group if r.member_id is None and (r.client_id, r.host) == (client_id, host)]
    return like[0] if len(like) == 1 else None

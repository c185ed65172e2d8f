"""The last report of each client, from the records of ``__kohort_client_metrics``; and whose report is which member's.

The records come from any consumer, in the order of the topic's one partition.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.telemetry.report import ClientReport, parse_report

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

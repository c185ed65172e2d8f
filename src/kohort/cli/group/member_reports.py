"""What the clients of a group's members pushed last (KIP-714), beside the members."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.cli.terminal.wording import HEADINGS, unlabelled, vitals_of
from kohort.results.groups import MemberMetrics

if TYPE_CHECKING:
    from kohort.cli.group.describe_tables import CellTable
    from kohort.client.admin.model import MemberDescription
    from kohort.telemetry.report import ClientReport


class MemberReports:
    """The last reports of clients, to be asked for those of members."""

    def __init__(self, reports: Sequence[ClientReport]) -> None:
        self._by_group: dict[str | None, list[ClientReport]] = {}
        for report in reports:
            self._by_group.setdefault(report.group, []).append(report)

    def beside(self, table: CellTable, group: str, members: Sequence[MemberDescription]) -> CellTable:
        """Return a table of these members, in their order, with what each said in further columns."""
        columns, rows = table
        now_ms = time.time_ns() // 1_000_000
        nothing = [None] * len(HEADINGS)
        found = [self._of(group, member) for member in members]
        told = [nothing if report is None else vitals_of(report, now_ms) for report in found]
        return (*columns, *HEADINGS), [(*row, *cells) for row, cells in zip(rows, told, strict=True)]

    def of(self, group: str, member: MemberDescription) -> MemberMetrics | None:
        """Return what a member said last, for programs."""
        report = self._of(group, member)
        return None if report is None else MemberMetrics(pushed_at_ms=report.at_ms, values=unlabelled(report))

    def _of(self, group: str, member: MemberDescription) -> ClientReport | None:
        from kohort.telemetry.report import report_of_member

        reports = self._by_group.get(group, [])
        return report_of_member(reports, group, member.member_id, member.client_id, member.client_host)

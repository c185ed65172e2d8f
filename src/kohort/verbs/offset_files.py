"""A plan of new offsets in a file, as Kafka's own tool writes it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Final

from kohort.errors import UsageError
from kohort.model import TopicPartition
from kohort.verbs.offset_targets import Offsets

SHOWN: Final = 80
"""Characters of a line of a file that an error repeats."""


def read_plan(text: str, *, one_group: bool) -> dict[str, dict[TopicPartition, int]]:
    """Return what a file of ``[group,]topic,partition,offset`` says, as ``--export`` writes it. Without the group it is
    for the one that is reset. Raises UsageError that names the line that is wrong."""
    plan: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(_rows_of(text), 1):
        if not row:
            continue
        cells = ["", *row] if len(row) == 3 and one_group else row
        figures = [cell.strip() for cell in cells[2:]]
        if len(cells) != 4 or not all(f.isascii() and f.isdecimal() and len(f) < 19 for f in figures):
            what = (
                "topic,partition,offset or group,topic,partition,offset"
                if one_group
                else ("group,topic,partition,offset")
            )
            raise UsageError(f"line {number}: {','.join(row)[:SHOWN]!r}: expected {what}")
        plan.setdefault(cells[0], {})[TopicPartition(cells[1], int(figures[0]))] = int(figures[1])
    return plan


def _rows_of(text: str) -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text)))
    except csv.Error as error:  # a field of 128 KiB, a NUL
        raise UsageError(f"no CSV: {error}") from None


def export_text(offsets: Mapping[str, Offsets], *, one_group: bool) -> str:
    """Return new offsets as ``read_plan`` takes them, in the format of Kafka's own tool."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    for group_id, moved in offsets.items():
        for tp, offset in moved.items():
            rows.writerow([*([] if one_group else [group_id]), tp.topic, tp.partition, offset])
    return out.getvalue()

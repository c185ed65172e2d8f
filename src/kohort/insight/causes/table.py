"""Catalogue entries of all causes and events; the key is the code of the entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kohort.insight.causes.changes import CHANGES
from kohort.insight.causes.coordination import COORDINATION
from kohort.insight.causes.joining import JOINING
from kohort.insight.causes.leaving import LEAVING
from kohort.insight.causes.silence import SILENCE
from kohort.insight.causes.timeouts import TIMEOUTS
from kohort.insight.events import EVENTS
from kohort.insight.evidence import CauseEntry
from kohort.insight.observed.departures import DEPARTURES

REBALANCE_CAUSES: Final[Mapping[str, CauseEntry]] = {
    entry.code: entry
    for entry in (*JOINING, *LEAVING, *SILENCE, *TIMEOUTS, *DEPARTURES, *CHANGES, *COORDINATION, *EVENTS)
}


def advice_for(cause: str) -> str | None:
    return REBALANCE_CAUSES[cause].advice

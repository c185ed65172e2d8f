"""Explain causes of rebalances, patterns of rebalances, and Kafka's error codes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import msgspec

from kohort.insight.names import printable
from kohort.results.programs import CauseExplained, ErrorExplained, Explained
from kohort.verbs.refusals import NothingThere

if TYPE_CHECKING:
    from kohort.errors import ErrorCode
    from kohort.insight.evidence import CauseEntry


def explained(word: str) -> Explained:
    """Explain a cause of rebalances or a Kafka error code.

    For an unknown word, raises NothingThere with the most similar name.
    """
    from kohort.insight.catalogue import find_cause_entry, find_error, suggestion

    if (entry := find_cause_entry(word)) is not None:
        return Explained(cause=cause_explained(entry))
    if (code := find_error(word)) is not None:
        return Explained(error=error_explained(code))
    raise NothingThere(f"unknown cause or Kafka error {printable(word, 60)!r}{suggestion(word)}")


def cause_explained(entry: CauseEntry) -> CauseExplained:
    about = asdict(entry)
    about["look_alikes"] = [{"cause": code, "difference": difference} for code, difference in entry.look_alikes]
    return msgspec.convert(about, CauseExplained)


def error_explained(code: ErrorCode) -> ErrorExplained:
    from kohort.insight.catalogue import explain_error

    about = {"name": code.name, "code": int(code), "retriable": code.retriable, **asdict(explain_error(code))}
    return msgspec.convert(about, ErrorExplained)

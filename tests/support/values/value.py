"""An entry of the table of values, by which the tests compare all readers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


class _Word:
    def __init__(self, word: str) -> None:
        self._word = word

    def __repr__(self) -> str:
        return self._word


BAD: Final = _Word("BAD")
"""The record does not fit: it goes where ``badRecords`` says."""
SAME: Final = _Word("SAME")


@dataclass(frozen=True)
class Value:
    """A record's value, the type of its column, kohort's result, and Spark's where that differs, with the reason.

    Results are plain values (plain.py); a row of several columns is a tuple.
    """

    type: str
    value: bytes | None
    kohort: Any
    spark: Any = SAME
    why: str = ""

    @property
    def of_spark(self) -> Any:
        return self.kohort if self.spark is SAME else self.spark

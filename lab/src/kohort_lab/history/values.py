"""Values of a history in compact columns: sender, result and place of each record.

Values ``NAME:NUMBER`` with increasing numbers take the least memory; any other text works, too.
"""

from __future__ import annotations

from array import array
from typing import Final

CHUNK: Final = 4096
SPARSE: Final = 1024
DIGITS: Final = 9
NONE: Final = -1

FAILED: Final = -1
UNKNOWN: Final = 0
ACKNOWLEDGED: Final = 1
UNSENT: Final = 2
"""Results of a send; UNSENT: read only, so far."""


class SentValues:
    """Columns by value number; times in microseconds.

    ``place``: first reported place, ``acknowledged``: place in the acknowledgement. Both are packed as in ``logs.py``,
    and -1 if unknown.
    """

    def __init__(self) -> None:
        self._numbered: dict[str, array[int]] = {}
        self._others: dict[str, int] = {}
        self._names: list[str] = []
        self._number_of_name: dict[str, int] = {}
        self.count = 0
        self._room = 0
        self._name = array("i")
        self._number = array("q")
        self.place = array("q")
        self.acknowledged = array("q")
        self.result = array("b")
        self.line = array("q")
        self.client = array("i")
        self.transaction = array("i")
        self.topic_partition = array("i")
        self.at = array("q")
        self.done = array("q")

    def index_of(self, value: str) -> int:
        """Return the number of a value; adds it if new."""
        name, _, number = value.rpartition(":")
        plain = number.isdigit() and number.isascii() and len(number) <= DIGITS
        if not plain or (number[0] == "0" and number != "0"):
            return self._other(value)
        at = int(number)
        slots = self._numbered.get(name)
        if slots is None:
            slots = self._numbered[name] = array("i")
        if at < len(slots):
            if (index := slots[at]) >= 0:
                return index
        elif at > 2 * len(slots) + SPARSE:
            return self._other(value)
        else:
            slots.extend(array("i", [NONE]) * (at - len(slots) + max(16, len(slots) // 4)))
        if self._others and (index := self._others.get(value, NONE)) >= 0:
            return index
        slots[at] = index = self._new(name, at)
        return index

    def _other(self, value: str) -> int:
        index = self._others.get(value)
        if index is None:
            index = self._others[value] = self._new(value, NONE)
        return index

    def _new(self, name: str, number: int) -> int:
        if self.count == self._room:
            self._grow()
        index = self.count
        self.count += 1
        name_number = self._number_of_name.get(name)
        if name_number is None:
            name_number = self._number_of_name[name] = len(self._names)
            self._names.append(name)
        self._name[index] = name_number
        self._number[index] = number
        return index

    def _grow(self) -> None:
        self._room += CHUNK
        for column in (self.place, self.acknowledged, self.at, self.done):
            column.extend(array("q", [NONE]) * CHUNK)
        for column in (self._number, self.line):
            column.extend(array("q", [0]) * CHUNK)
        for column in (self.client, self.transaction, self.topic_partition, self._name):
            column.extend(array("i", [NONE]) * CHUNK)
        self.result.extend(array("b", [UNSENT]) * CHUNK)

    def spelled(self, index: int) -> str:
        """Return the text of a value."""
        name, number = self._names[self._name[index]], self._number[index]
        return name if number < 0 else f"{name}:{number}"

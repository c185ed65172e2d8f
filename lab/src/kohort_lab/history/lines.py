"""The lines of a history's files: numbered over all files, read once, and found again for evidence.

A line is known by one number: the file's place in the list in its upper bits, the number of the line, from 1 on, in
its lower ones. 0 is no line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

LINE_BITS: Final = 40
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Bytes; a longer line is refused before it is read to its end."""
TEXT_SHOWN: Final = 300
"""Characters of a line that are shown as evidence."""


class HistoryUnreadable(ValueError):
    """A file is not a history: its text names file, line and what is wrong there."""


class HistoryLines:
    """The operations of some files, in the order of the files.

    A last line without its end is one that a killed client was writing: it is left out, and counted in ``torn``.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = list(paths)
        self.count = 0
        self.torn = 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        loads = json.JSONDecoder().decode
        for number, path in enumerate(self._paths):
            for line, text in self._numbered(number, path):
                try:
                    operation = loads(text.decode())
                except (ValueError, RecursionError) as error:
                    if not text.endswith(b"\n"):
                        self.torn += 1
                        continue
                    raise self.unreadable(line, f"this is no JSON: {error}") from None
                if not isinstance(operation, dict):
                    raise self.unreadable(line, "a line has to be a JSON object")
                self.count += 1
                yield line, operation

    def _numbered(self, number: int, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a file that are not blank. Raises HistoryUnreadable where it cannot be read."""
        line = number << LINE_BITS
        try:
            with path.open("rb") as file:
                for text in _bounded(file):
                    line += 1
                    if len(text) > LONGEST_LINE:
                        raise self.unreadable(line, f"a line has at most {LONGEST_LINE} bytes")
                    if not text.isspace():
                        yield line, text
        except OSError as error:
            raise HistoryUnreadable(f"{path}: {error.strerror}") from None

    def unreadable(self, line: int, why: str) -> HistoryUnreadable:
        """Return the error that says what is wrong at a line."""
        return HistoryUnreadable(f"{self.place(line)}: {why}")

    def place(self, line: int) -> str:
        """Return where a line is, as ``FILE:LINE``."""
        return f"{self._paths[line >> LINE_BITS]}:{line & ((1 << LINE_BITS) - 1)}"

    def texts(self, wanted: Iterable[int]) -> dict[int, str]:
        """Return what some lines say, cut to a length that can be shown; the files are read again up to them."""
        of_file: dict[int, set[int]] = {}
        for line in wanted:
            of_file.setdefault(line >> LINE_BITS, set()).add(line)
        found: dict[int, str] = {}
        for number, lines in of_file.items():
            last = max(lines)
            for line, text in self._numbered(number, self._paths[number]):
                if line in lines:
                    shown = text.decode(errors="replace").strip()
                    found[line] = shown if len(shown) <= TEXT_SHOWN else shown[:TEXT_SHOWN] + "…"
                if line >= last:
                    break
        return found


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; of one that is too long a piece that is too long."""
    while text := file.readline(LONGEST_LINE + 1):
        yield text

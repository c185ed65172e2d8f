"""Lines of history files: numbered across files, read once, and looked up for evidence.

A line number has the index of the file in its upper bits and the line (from 1) in its lower bits; 0 means no line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

LINE_BITS: Final = 40
LONGEST_LINE: Final = 16 * 1024 * 1024
"""Longest accepted line, in bytes."""
TEXT_SHOWN: Final = 300
"""Longest evidence text, in characters."""


class HistoryUnreadable(ValueError):
    """File is not a history; the message has the file, the line and the problem."""


class HistoryLines:
    """Operations of some files, in file order.

    An incomplete last line of a killed client is skipped and counted in ``torn``.
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
                    raise self.unreadable(line, f"invalid JSON: {error}") from None
                if not isinstance(operation, dict):
                    raise self.unreadable(line, "expected a JSON object")
                self.count += 1
                yield line, operation

    def _numbered(self, number: int, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield the non-blank lines of a file. Raises HistoryUnreadable."""
        line = number << LINE_BITS
        try:
            with path.open("rb") as file:
                for text in _bounded(file):
                    line += 1
                    if len(text) > LONGEST_LINE:
                        raise self.unreadable(line, f"line longer than {LONGEST_LINE} bytes")
                    if not text.isspace():
                        yield line, text
        except OSError as error:
            raise HistoryUnreadable(f"{path}: {error.strerror}") from None

    def unreadable(self, line: int, why: str) -> HistoryUnreadable:
        return HistoryUnreadable(f"{self.place(line)}: {why}")

    def place(self, line: int) -> str:
        """Format a line number as ``FILE:LINE``."""
        return f"{self._paths[line >> LINE_BITS]}:{line & ((1 << LINE_BITS) - 1)}"

    def texts(self, numbers: Iterable[int]) -> dict[int, str]:
        """Return the truncated texts of some lines; reads the files again."""
        of_file: dict[int, set[int]] = {}
        for line in numbers:
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
    """Yield lines, at most one byte longer than the longest accepted line."""
    while text := file.readline(LONGEST_LINE + 1):
        yield text

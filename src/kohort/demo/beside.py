"""What may go on beside the demo: it is told what has come about, and shows it as it likes."""

from __future__ import annotations

from typing import Protocol


class Beside(Protocol):
    """Somebody who looks on. None of this raises but KeyboardInterrupt: the demo's verdict is its own."""

    def begun(self, bootstrap: str) -> None:
        """Hear that the broker is there."""

    def group_done(self, until_ms: int) -> None:
        """Hear that the group has done its part; its journal's last entry is of that time."""

    def done(self) -> None:
        """Hear that all is done and said; the broker is there until this returns."""

    def end(self) -> None:
        """Hear that the broker goes, whatever has come about."""


class NobodyBeside:
    """Nobody looks on."""

    def begun(self, bootstrap: str) -> None:
        """Do nothing."""

    def group_done(self, until_ms: int) -> None:
        """Do nothing."""

    def done(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

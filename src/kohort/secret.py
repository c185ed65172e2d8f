"""Secrets that logs, tracebacks and plans never show: passwords, keys, tokens."""

from __future__ import annotations

import hmac
from typing import Final

HIDDEN: Final = "[hidden]"


class Secret:
    """A text that only ``reveal()`` returns: ``str``, ``repr`` and format give ``[hidden]``."""

    __slots__ = ("_text",)

    def __init__(self, text: str | Secret) -> None:
        self._text: str = text.reveal() if isinstance(text, Secret) else text

    def reveal(self) -> str:
        """Return the secret text."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __format__(self, _spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)

"""Allowed differences between kohort and Apache Kafka in scripts of consumer groups, each with its reason."""

from __future__ import annotations

import fnmatch
from typing import Any, Final

from support.differential.differences import May, is_allowed

REASON: Final = "is not a valid regular expression: "


def _same_but_for_the_reason(ours: Any, theirs: Any) -> bool:
    return REASON in str(theirs) and str(ours).partition(REASON)[:2] == str(theirs).partition(REASON)[:2]


MODERN: Final = (
    May("ConsumerGroupHeartbeatRequest", "error_message", "each library of RE2 has words of its own",
        _same_but_for_the_reason),
)  # fmt: skip


def is_allowed_of_modern(request: str, path: str, ours: Any, theirs: Any) -> bool:
    """Return True if a field may differ: messages of KIP-848's own requests may not, messages of others may."""
    if not request.startswith("ConsumerGroup"):
        return is_allowed(request, path, ours, theirs)
    return any(
        fnmatch.fnmatchcase(request, may.request) and fnmatch.fnmatchcase(path, may.path) and may.only(ours, theirs)
        for may in MODERN
    )

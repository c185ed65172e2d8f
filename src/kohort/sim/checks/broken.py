"""What a check raises."""

from __future__ import annotations


class CheckFailed(AssertionError):
    """Something that must never happen did, or something that must happen did not."""

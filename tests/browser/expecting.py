"""Playwright's assertions. Where it is missing there are none, and the fixtures skip, or fail where it is required."""

from __future__ import annotations

from typing import Any

expect: Any
try:
    from playwright.sync_api import expect  # type: ignore[no-redef]  # the real one, where Playwright is installed
except ImportError:
    expect = None

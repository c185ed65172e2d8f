from __future__ import annotations

from typing import Any

expect: Any
try:
    from playwright.sync_api import expect  # type: ignore[no-redef]  # the real one, where Playwright is installed
except ImportError:
    expect = None

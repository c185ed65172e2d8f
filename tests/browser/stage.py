from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from browser.canned import CannedConsole, import_map

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parent
PAGE = f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Stage</title>{import_map()}
<link rel="stylesheet" href="/stage.css"><link rel="stylesheet" href="/static/timeline/timeline.css">
<link rel="stylesheet" href="/static/timeline/board.css"></head><body>
<main><h1>Stage</h1><div id="stage"></div></main><script type="module" src="/stage.js"></script></body></html>"""


def set_stage(canned: CannedConsole) -> None:
    """Serve a page at ``/stage`` that contains only a timeline or a what-if board."""
    canned.pages["/stage"] = PAGE
    canned.scripts["/stage.js"] = HERE / "stage.js"
    canned.scripts["/stage.css"] = HERE / "stage.css"


def stage_of(group: str, **options: str) -> str:
    return "/stage?" + urlencode({"group": group, **{name.replace("_", "-"): value for name, value in options.items()}})


def staged(page: Page) -> Page:
    """Wait until the page at ``/stage`` is loaded."""
    page.locator("body[data-ready]").wait_for()
    return page

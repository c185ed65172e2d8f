"""Tabs of a headless Chromium with a console, and their memory after garbage collection."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

METRIC_NAMES: Final = {"JSHeapUsedSize": "heap", "Nodes": "nodes", "JSEventListeners": "listeners"}
"""Chromium's metric names, and the names in the samples."""
GO: Final = "path => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }"


class Tab:
    """A tab with its debugger connection."""

    def __init__(self, page: Page, address: str, path: str) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("crash", lambda _: self.problems.append("the page crashed"))
        page.goto(address.rstrip("/") + path)
        page.locator("main h1").wait_for()
        self._cdp = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable")
        self._cdp.send("HeapProfiler.enable")

    def go(self, path: str) -> None:
        """Open another view of the same page, like a click on a link."""
        self.page.evaluate(GO, path)

    def counts(self) -> Mapping[str, float]:
        """Return heap size, nodes and listeners after garbage collection."""
        self._cdp.send("HeapProfiler.collectGarbage")
        found = {one["name"]: one["value"] for one in self._cdp.send("Performance.getMetrics")["metrics"]}
        return {name: float(found[metric]) for metric, name in METRIC_NAMES.items()}


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield a browser without a window."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


def resident_of_children(name: str) -> int:
    """Return the resident bytes, without file pages, of the descendants with this program name prefix (Linux)."""
    parents, sizes = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
            _, pages, of_files = (int(field) for field in (stat.parent / "statm").read_text().split()[:3])
        except OSError:
            continue
        pid, program = int(stat.parent.name), text[text.index("(") + 1 : text.rindex(")")]
        parents[pid] = int(text.rpartition(")")[2].split()[1])
        if program.startswith(name):
            sizes[pid] = (pages - of_files) * os.sysconf("SC_PAGESIZE")
    return sum(size for pid, size in sizes.items() if os.getpid() in _line(pid, parents))


def _line(pid: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while pid in parents and pid not in found:
        found.add(pid)
        pid = parents[pid]
    return found

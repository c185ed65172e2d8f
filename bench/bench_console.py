"""The console with very large groups: server time of a sample, page time of new events and clicks.

    python bench/bench_console.py [--groups 80] [--members 200] [--partitions 1000] [--no-page] [--json]

Findings use six samples of each group in progress, as with LIVE; the cluster's response time is excluded. Page time is
the processor time of the page's own thread (Chromium's TaskDuration). The page needs the packages of `make browser`.

Results on two busy cores (load 24), 80 groups of 200 members and 1,000 partitions: findings 1.8 s (23 ms each), lines
of the list 0.7 ms and 29 kB, one full group 1.3 ms and 730 kB. Page: 185 to 195 ms until 500 groups were drawn (0.9 to
1.1 s by the clock), 15 to 27 ms for events of the wide group in any view, mostly to read 730 kB; 12 to 18 ms for a
sort. Views had 285 to 1,036 elements.

Excluded: the queries of these 80,000 partitions took 3.4 s of processor time in the client and 3.7 s in the broker. A
slow sample is followed by a pause of four times its duration.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser.canned import CannedConsole, canned_console
from browser.lively import changed_status, make_live, many_groups, serve_groups, wide_status
from kohort.console.encoding import json_of
from kohort.insight.findings.groups import find_group
from kohort.results.groups import GroupStatus
from kohort.verbs.describing import row_of
from support.wide_groups import wide_snapshot

LOOKS = 6
UPDATES = 5
VIEWS = ("overview", "timeline", "members", "partitions", "causes", "what-if", "offsets")
FIRST_GROUPS = 500
SORT = "document.querySelector('main button.sort').click()"


def server(groups: int, members: int, partitions: int) -> dict[str, Any]:
    """Return the server time of a sample after the cluster's response."""
    looks = [wide_snapshot("group-0", members, partitions, look) for look in range(LOOKS)]
    began = time.process_time()
    for _ in range(groups):
        found = find_group(looks, [])
    finding_s = time.process_time() - began
    began = time.process_time()
    rows = json_of([row_of(found) for _ in range(groups)])
    rows_s = time.process_time() - began
    began = time.process_time()
    status = json_of(GroupStatus(status=found))
    return {
        "findings_ms": round(1000 * finding_s), "of_each_ms": round(1000 * finding_s / groups, 1),
        "rows_ms": round(1000 * rows_s, 1), "rows_bytes": len(rows),
        "status_ms": round(1000 * (time.process_time() - began), 1), "status_bytes": len(status),
    }  # fmt: skip


def pages(console: CannedConsole, members: int, partitions: int) -> Iterator[dict[str, Any]]:
    """Yield page times: the first view, then events and clicks in views of one group."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    status = wide_status(members, partitions)
    make_live(console)
    console.answers["/api/v1/groups/checkout"] = lambda _: {"schema": "kohort/v1/group.status", "status": status}
    serve_groups(console, many_groups(FIRST_GROUPS))
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for _ in range(3):
            with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
                page = context.new_page()
                work = Work(page)
                page.goto(console.address + "/groups")
                page.locator("tbody tr").first.wait_for()
                mark = "performance.getEntriesByName('kohort: groups drawn')[0].startTime"
                yield {"view": f"{FIRST_GROUPS} groups", "drawn_ms": round(page.evaluate(mark)), "work_ms": work.ms()}
        for view in VIEWS:
            with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
                page = context.new_page()
                page.goto(f"{console.address}/groups/checkout/{view}")
                page.locator("[data-stream=open]").wait_for()
                page.get_by_role("heading", level=1).wait_for()
                page.wait_for_timeout(1000)
                work = Work(page)
                for look in range(1, UPDATES + 1):
                    fields = {**changed_status(status, look), "sentence": f"It was looked at {look} times."}
                    console.push("group", {"status": fields})
                    page.get_by_text(fields["sentence"]).wait_for()
                fields = {"view": view, "news_ms": round(work.ms() / UPDATES, 1), "nodes": page.locator("*").count()}
                if page.locator("main button.sort").count():
                    work = Work(page)
                    page.evaluate(SORT)
                    page.wait_for_timeout(200)
                    fields["sort_ms"] = work.ms()
                yield fields
        browser.close()


class Work:
    """Processor time of a page's own thread since creation."""

    def __init__(self, page: Any) -> None:
        self._cdp = page.context.new_cdp_session(page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._began = self._now()

    def _now(self) -> float:
        found = {one["name"]: one["value"] for one in self._cdp.send("Performance.getMetrics")["metrics"]}
        return float(found["TaskDuration"])

    def ms(self) -> float:
        return round(1000 * (self._now() - self._began), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--groups", type=int, default=80)
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--page", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [server(options.groups, options.members, options.partitions)]
    if not options.json:
        print(rows[0], flush=True)
    if options.page:
        with canned_console() as console:
            for row in pages(console, options.members, options.partitions):
                rows.append({**row, "load": round(os.getloadavg()[0], 1)})
                if not options.json:
                    print(rows[-1], flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

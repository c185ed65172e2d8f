"""Frame rate of the console's timeline while panning, in a headless Chromium: marks, frames per second.

    python bench/bench_timeline.py [--seconds 3] [--json]

Needs the dependency group ``browser`` and a Chromium, like `make browser`. All rows are drawn at once, with half of the
time range, so that about half of the marks are in every frame; requestAnimationFrame counts the frames.

Results on two cores with other work: 25,200 visible marks of 50,200: 56 frames per second, 13 ms of work for each;
52,200 of 104,200: 44, and 18 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from playwright.sync_api import sync_playwright

from browser.canned import canned_console
from browser.panning import pan, set_large

GROUPS = [(4, 20, 30), (50, 500, 100), (200, 1000, 250), (200, 1000, 520)]
"""Members, partitions, generations."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    rows = []
    with canned_console() as console, sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for members, partitions, generations in GROUPS:
            page = browser.new_page(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
            page.goto(console.address + set_large(console, members, partitions, generations))
            found = pan(page, round(options.seconds * 1000))
            rows.append({"members": members, "partitions": partitions, "generations": generations, **found._asdict()})
            page.close()
            if not options.json:
                print(rows[-1], flush=True)
        browser.close()
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``make screenshots``: pictures of the console's views, of played incidents, into docs/console.

    python tools/screenshots.py [NAME ...]

Needs what `make browser` needs: the dependency group ``browser`` and a Chromium; and Pillow, which ``kohort-lab``
brings. The incidents are played under a clock that moves when told, or those of the guide that were recorded
(``lab/tools/incidents.py``), so that the same code gives the same pictures.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from PIL import Image  # noqa: E402 - the tests are no package that is installed
from playwright.sync_api import Page, sync_playwright  # noqa: E402 - the tests are no package that is installed

from browser.answers import incidents  # noqa: E402 - the tests are no package that is installed
from browser.canned import canned_console  # noqa: E402 - the tests are no package that is installed
from kohort.console.app import ConsoleApp  # noqa: E402 - beside the others
from kohort.console.recorded import read_recording  # noqa: E402 - beside the others
from kohort.console.serving import ConsolePlace, console_served  # noqa: E402 - beside the others

OUT = ROOT / "docs" / "console"
RECORDING = OUT / "incidents.ndjson"
COLOURS = 160
WIDTH, TALLEST = 1280, 1000


class Picture(NamedTuple):
    """A view: its path, the keys and the button pressed first, its color scheme, its data."""

    path: str
    keys: tuple[str, ...] = ()
    click: str | None = None
    dark: bool = False
    recorded: bool = False
    """True for the guide's recording, false for simulated incidents."""


def first_rounds(number: int) -> tuple[str, ...]:
    """Return the keys that select a round of a timeline."""
    return "Home", *["ArrowRight"] * (number - 1)


PICTURES = {
    "groups": Picture("/groups"),
    "groups-dark": Picture("/groups", dark=True),
    "overview": Picture("/groups/checkout/overview"),
    "timeline": Picture("/groups/checkout/timeline", keys=("Home", *["ArrowRight"] * 5)),
    "timeline-dark": Picture("/groups/payments/timeline", keys=("Home", "ArrowRight", "ArrowRight"), dark=True),
    "timeline-waiting": Picture("/groups/billing/timeline", keys=("Home", "ArrowRight")),
    "timeline-partitions": Picture("/groups/checkout/timeline?rows=partitions"),
    "rebalance": Picture("/groups/billing/rebalances/2"),
    "members": Picture("/groups/checkout/members"),
    "partitions": Picture("/groups/checkout/partitions"),
    "fenced": Picture("/groups/checkout/fenced"),
    "causes": Picture("/groups/checkout/causes"),
    "what-if": Picture("/groups/billing/what-if?add=2", click="Predict"),
    "offsets": Picture("/groups/checkout/offsets"),
    "events": Picture("/groups/checkout/events"),
    "brokers": Picture("/brokers"),
    "doctor": Picture("/doctor"),
    "slow-handler": Picture("/groups/slow-handler/timeline", first_rounds(2), recorded=True),
    "slow-handler-dark": Picture("/groups/slow-handler/timeline", first_rounds(2), dark=True, recorded=True),
    "slow-handler-why": Picture("/groups/slow-handler/rebalances/2", recorded=True),
    "killed-dynamic": Picture("/groups/killed-dynamic/timeline", first_rounds(2), recorded=True),
    "killed-static": Picture("/groups/killed-static/timeline", first_rounds(1), recorded=True),
    "not-revoked": Picture("/groups/not-revoked/timeline", first_rounds(3), recorded=True),
    "not-revoked-why": Picture("/groups/not-revoked/rebalances/4", recorded=True),
}


def main() -> int:
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    names = sys.argv[1:] or list(PICTURES)
    unknown = [name for name in names if name not in PICTURES]
    if unknown or program is None:
        print(f"no picture is called {unknown[0]!r}" if unknown else "no Chromium is on the PATH", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    incidents()
    source = read_recording(RECORDING)
    with ExitStack() as stack:
        played = stack.enter_context(canned_console()).address
        recorded = stack.enter_context(console_served(source, ConsoleApp(source), ConsolePlace())).rstrip("/")
        playwright = stack.enter_context(sync_playwright())
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        for name in names:
            picture = PICTURES[name]
            page = browser.new_page(
                viewport={"width": WIDTH, "height": 760},
                color_scheme="dark" if picture.dark else "light",
                reduced_motion="reduce",
                timezone_id="UTC",
                locale="en-GB",
            )
            page.goto((recorded if picture.recorded else played) + picture.path)
            (OUT / f"{name}.png").write_bytes(smaller(taken(page, picture)))
            page.close()
            print(f"docs/console/{name}.png", (OUT / f"{name}.png").stat().st_size // 1024, "KB", flush=True)
        browser.close()
    return 0


def taken(page: Page, picture: Picture) -> bytes:
    """Return a screenshot of a view after all its requests are answered."""
    page.locator("main h1, h1").first.wait_for()
    if picture.keys:
        chart = page.locator(".timeline-chart")
        chart.wait_for()
        chart.focus()
        for key in picture.keys:
            page.keyboard.press(key)
        page.evaluate("document.activeElement.blur()")
    if picture.click:
        page.get_by_role("button", name=picture.click, exact=True).click()
    page.wait_for_timeout(700)  # until the charts are drawn
    height = page.evaluate("Math.ceil(document.documentElement.scrollHeight)")
    page.set_viewport_size({"width": WIDTH, "height": min(TALLEST, max(420, height))})
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(250)
    return page.screenshot(animations="disabled", caret="hide")


def smaller(png: bytes) -> bytes:
    """Reduce a picture to a palette: enough for a page, and a third of the size."""
    out = io.BytesIO()
    image = Image.open(io.BytesIO(png)).convert("RGB")
    image.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(main())

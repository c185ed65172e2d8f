from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from browser.canned import CannedConsole
from browser.stage import set_stage, stage_of, staged

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

BEGIN_MS = 1_700_000_000_000
EVERY_MS = 60_000
PAN = """
async (forMs) => {
  const at = document.querySelector(".timeline-drawing");
  const { left, top } = at.getBoundingClientRect();
  const frames = [];
  const wheel = (deltaY) => at.dispatchEvent(new WheelEvent("wheel",
    { deltaY, shiftKey: true, bubbles: true, cancelable: true, clientX: left + 300, clientY: top + 100 }));
  const begun = performance.now();
  await new Promise((done) => {
    const step = (now) => {
      frames.push(now);
      wheel(Math.floor((now - begun) / 700) % 2 ? -9 : 9);
      if (now - begun < forMs) requestAnimationFrame(step); else done();
    };
    requestAnimationFrame(step);
  });
  const gaps = frames.slice(1).map((now, i) => now - frames[i]).sort((a, b) => a - b);
  return { frames: frames.length, ms: frames.at(-1) - frames[0], median: gaps[gaps.length >> 1], longest: gaps.at(-1) };
}
"""


class Panned(NamedTuple):
    marks: int
    visible: int
    drawn: str
    frames_per_s: float
    median_ms: float
    longest_ms: float
    work_ms: float


def large_timeline(members: int, partitions: int, generations: int) -> dict[str, Any]:
    """Return a timeline in which each generation moves all partitions to other members."""
    each = partitions // members
    lanes: list[dict[str, Any]] = []
    for m in range(members):
        who = {
            "member_id": f"worker-{m}-id",
            "client_id": f"worker-{m}",
            "host": f"/10.0.{m // 250}.{m % 250}",
        }
        assignments = [
            {
                "from_ms": BEGIN_MS + g * EVERY_MS + 900,
                "until_ms": None if g == generations - 1 else BEGIN_MS + (g + 1) * EVERY_MS + 900,
                "partitions": [f"t-{(m * each + g + n) % partitions}" for n in range(each - (g + m) % 2)],
            }
            for g in range(generations)
        ]
        lanes.append({"member": who | {"instance_id": None}, "assignments": assignments, "marks": []})
    columns = [
        {
            "from_ms": BEGIN_MS + g * EVERY_MS,
            "until_ms": None if g == generations - 1 else BEGIN_MS + (g + 1) * EVERY_MS,
            "generation": g + 1,
            "protocol": "classic",
            "cause": "NEW_MEMBER",
            "trigger": None,
            "took_ms": 900,
            "rebalance": f"large/{g + 1}",
        }
        for g in range(generations)
    ]
    until = BEGIN_MS + generations * EVERY_MS
    return {"group": "large", "from_ms": BEGIN_MS, "until_ms": until, "columns": columns, "lanes": lanes}


def set_large(canned: CannedConsole, members: int, partitions: int, generations: int) -> str:
    """Serve a group with a large timeline; return the path of its page."""
    set_stage(canned)
    timeline = large_timeline(members, partitions, generations)
    bodies = {
        "timeline": {"schema": "kohort/v1/group.timeline", "timeline": timeline},
        "rebalances": {"schema": "kohort/v1/group.why", "known": 0, "patterns": [], "rebalances": []},
        "events": {"schema": "kohort/v1/group.events", "events": []},
    }
    for name, body in bodies.items():
        canned.answers[f"/api/v1/groups/large/{name}"] = lambda _, body=body: body
    return stage_of("large")


def pan(page: Page, for_ms: int) -> Panned:
    staged(page)
    if page.get_by_label("All rows at once").count():
        page.get_by_label("All rows at once").check()
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_timeout(400)
    chart, section = page.locator(".timeline-chart"), page.locator("section.timeline")
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _worked_s(cdp)
    measured = page.evaluate(PAN, for_ms)
    worked_s = _worked_s(cdp) - before
    marks = int(section.get_attribute("data-marks") or 0)
    return Panned(
        marks=marks,
        visible=int(chart.get_attribute("data-seen") or 0),
        drawn=chart.get_attribute("data-drawn") or "",
        frames_per_s=round(1000 * (measured["frames"] - 1) / measured["ms"], 1),
        median_ms=round(measured["median"], 1),
        longest_ms=round(measured["longest"], 1),
        work_ms=round(1000 * worked_s / measured["frames"], 1),
    )


def _worked_s(cdp: CDPSession) -> float:
    found = {one["name"]: one["value"] for one in cdp.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])

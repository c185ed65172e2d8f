from __future__ import annotations

import pytest

from browser.expecting import expect
from browser.panning import pan, set_large
from browser.stage import staged

LEAST = 4


@pytest.mark.parametrize(
    ("members", "partitions", "generations", "drawn"), [(200, 1000, 520, "canvas"), (4, 20, 30, "svg")]
)
def test_timeline_pans_smoothly(canned, open_page, members, partitions, generations, drawn):
    page = open_page(set_large(canned, members, partitions, generations), reduced_motion="reduce")

    found = pan(page, 1500)

    print(found)
    assert found.drawn == drawn
    assert found.marks >= members * generations
    assert found.frames_per_s > LEAST


def test_timeline_of_200_members_scrolls(canned, open_page):
    page = staged(open_page(set_large(canned, 200, 1000, 6), reduced_motion="reduce"))

    assert page.locator(".timeline-label").count() < 60
    page.locator(".timeline-chart").focus()
    for _ in range(30):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".timeline-label.here")).to_contain_text("worker-29")
    expect(page.locator(".timeline-label.here")).to_be_in_viewport()
    page.get_by_role("button", name="Partitions").click()
    expect(page.locator("section.timeline")).to_have_attribute("data-rows", "1000")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("table")).to_contain_text("more rows: zoom in to see them")

"""The console on screens of phones: no view needs content beside the screen, and the first row is near the top."""

from __future__ import annotations

import pytest

from browser.expecting import expect
from browser.lively import make_live, many_groups, serve_groups

SIZES = {"390x844": {"width": 390, "height": 844}, "360x640": {"width": 360, "height": 640}}
OF_GROUP = (
    "overview", "timeline", "rebalances", "rebalances/9", "members", "partitions", "partitions?peek=orders-0", "fenced",
    "causes", "what-if?add=1", "offsets", "events",
)  # fmt: skip
VIEWS = (
    "/groups",
    *(f"/groups/checkout/{name}" for name in OF_GROUP),
    *(f"/topics/orders{name}" for name in ("", "/records", "/records?show=hex", "/groups", "/configuration")),
    "/topics", "/doctor", "/causes", "/brokers", "/pipelines",
)  # fmt: skip
FIRST = (
    "main tbody tr:not(.space), main .findings > li, main .cards, main .empty, main form, main .lead, main .panel,"
    "main .timeline-chart, main .heat, main .peek, main .pipeline, main section"
)
BESIDE = """() => {
  const beside = (element) => {
    const box = element.getBoundingClientRect();
    const clipped = element.closest('.hidden, .unseen, .tip, .skip, .timeline-chart, .patterns, .chart, svg');
    return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) && !clipped;
  };
  return [...document.querySelectorAll('body *')].filter(beside).slice(0, 3).map((one) => one.outerHTML.slice(0, 120));
}"""


def opened(open_page, path, size):
    page = open_page(path, viewport=SIZES[size], has_touch=True)
    page.get_by_role("heading", level=1).first.wait_for()
    expect(page.locator("main .loading")).to_have_count(0)
    page.wait_for_load_state("networkidle")
    return page


@pytest.fixture
def live(canned):
    make_live(canned)
    return canned


@pytest.mark.parametrize("path", VIEWS)
def test_view_fits_phones_and_begins_in_upper_third(live, open_page, path):
    page = opened(open_page, path, "390x844")
    page.locator(FIRST).first.wait_for()
    for size in SIZES.values():
        page.set_viewport_size(size)
        tops = page.locator(FIRST).evaluate_all(
            "found => found.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().top)"
        )
        assert min(tops) <= size["height"] / 3
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(BESIDE) == []


@pytest.mark.parametrize(
    "path", ["/groups", "/groups/checkout/partitions", "/groups/checkout/members", "/topics", "/topics/orders/records"]
)
def test_phone_view_passes_axe_in_light_and_dark(live, open_page, finds_nothing, path):
    page = opened(open_page, path, "390x844")
    finds_nothing(page)

    page.emulate_media(color_scheme="dark")
    finds_nothing(page)


def test_phone_shows_lag_of_group_under_its_name(live, open_page):
    page = opened(open_page, "/groups", "360x640")
    row = page.locator("main tbody tr").first
    name, lag = row.locator("th").bounding_box(), row.locator("td.soon").bounding_box()

    assert "Lag" in row.locator("td.soon").evaluate("cell => getComputedStyle(cell, '::before').content")
    assert lag["y"] >= name["y"] + name["height"] - 1
    assert lag["y"] + lag["height"] < SIZES["360x640"]["height"] / 2


def test_phone_unfolds_sections_time_tabs_and_tools(live, open_page):
    page = opened(open_page, "/groups/checkout/members", "390x844")
    sections = page.get_by_role("navigation", name="Sections")
    expect(sections).to_be_hidden()
    expect(page.get_by_label("moment that is shown")).to_be_hidden()
    expect(page.get_by_role("button", name="Copy as command")).to_be_hidden()

    page.get_by_role("button", name="Time").click()
    expect(page.get_by_label("moment that is shown")).to_be_visible()
    page.get_by_role("button", name="tools of this view").first.click()
    expect(page.get_by_role("button", name="Copy as command").first).to_be_visible()
    page.get_by_role("button", name="Members", exact=False).first.click()
    page.get_by_role("navigation", name="Views of this group").get_by_role("link", name="Partitions").click()
    expect(page.get_by_role("heading", name="Partitions", exact=True)).to_be_attached()
    page.get_by_role("button", name="Groups", exact=False).first.click()
    sections.get_by_role("link", name="Topics").click()
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    expect(sections).to_be_hidden()


def test_phone_orders_rows_and_draws_further_rows_on_request(live, open_page):
    serve_groups(live, many_groups(250))
    page = opened(open_page, "/groups", "390x844")
    rows = page.locator("main tbody tr")
    expect(rows).to_have_count(100)

    page.get_by_role("button", name="150 more").click()
    expect(rows).to_have_count(200)
    page.get_by_label("order of Groups").select_option("group.down")
    expect(rows.first).to_contain_text("group-00249")


def test_wide_screen_has_no_folds(live, open_page):
    page = open_page("/groups/checkout/members")
    page.get_by_role("navigation", name="Sections").wait_for()

    expect(page.locator(".fold:visible")).to_have_count(0)
    expect(page.get_by_role("button", name="Copy as command").first).to_be_visible()

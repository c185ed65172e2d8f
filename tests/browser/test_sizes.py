from __future__ import annotations

import os
from collections import Counter

import pytest

from browser.expecting import expect
from browser.lively import changed_status, make_live, many_groups, serve_groups, wide_status

DRAWN_MOST = 100
FIRST_VIEW_MS = 1000
FLUENT_MS = 100
PATIENCE = 8


def within(promised_ms):
    return promised_ms * (1 if os.environ.get("KOHORT_MEASURE") else PATIENCE)


def test_list_of_500_groups_opens_within_a_second(canned, open_page):
    make_live(canned)
    serve_groups(canned, many_groups(500))
    page = open_page("/groups")

    page.get_by_text("50 groups of 500 need attention.").wait_for()

    drawn_ms = page.evaluate("performance.getEntriesByName('kohort: groups drawn')[0].startTime")
    print(f"500 groups: first view {drawn_ms:.0f} ms after the page was asked for")
    assert drawn_ms < within(FIRST_VIEW_MS)


def test_first_view_requests_each_answer_and_module_only_once(canned, open_page):
    make_live(canned)
    serve_groups(canned, many_groups(500))
    page = open_page("/groups")
    page.get_by_text("50 groups of 500 need attention.").wait_for()

    paths = [path for path in canned.paths if path != "/static/icon.svg"]
    assert sorted(paths) == sorted(set(paths))
    modules = {path for path in paths if path.endswith((".js", ".mjs"))}
    named = page.evaluate(
        "[...document.querySelectorAll('link[rel=modulepreload]')].map(it => new URL(it.href).pathname)"
    )
    assert modules == set(named)


def test_groups_sampled_before_stream_opened_are_requested_again(canned, open_page):
    make_live(canned)
    serve_groups(canned, many_groups(20))
    page = open_page("/groups")
    page.get_by_text("2 groups of 20 need attention.").wait_for()
    page.locator("[data-stream=open]").wait_for()

    serve_groups(canned, many_groups(30))
    canned.push("looked", {"at_ms": 0})
    canned.push("looked", {"at_ms": 1})

    page.get_by_text("3 groups of 30 need attention.").wait_for()
    assert canned.paths.count("/api/v1/groups") == 2


def test_list_of_5000_groups_draws_only_visible_rows(canned, open_page):
    make_live(canned)
    serve_groups(canned, many_groups(5000))
    page = open_page("/groups")
    page.get_by_text("500 groups of 5,000 need attention.").wait_for()
    table = page.get_by_role("table")

    assert page.locator("tbody tr").count() < DRAWN_MOST
    assert table.get_attribute("aria-rowcount") == "5001"
    box = page.get_by_role("region", name="Groups, the worst first")
    box.evaluate("box => { box.scrollTop = box.scrollHeight; }")
    expect(page.get_by_role("rowheader", name="group-04999")).to_be_visible()
    assert page.locator("tbody tr").count() < DRAWN_MOST


def test_arrow_keys_reach_rows_that_are_not_drawn_yet(canned, open_page):
    make_live(canned)
    serve_groups(canned, many_groups(1000))
    page = open_page("/groups")
    page.get_by_text("100 groups of 1,000 need attention.").wait_for()
    page.get_by_role("region", name="Groups, the worst first").focus()

    for _ in range(60):
        page.keyboard.press("ArrowDown")

    expect(page.get_by_role("link", name="group-00059", exact=True)).to_be_focused()


def test_table_of_1000_partitions_scrolls_smoothly(canned, open_page):
    make_live(canned)
    status = wide_status(200, 1000)
    canned.answers["/api/v1/groups/checkout"] = lambda _: {"schema": "kohort/v1/group.status", "status": status}
    page = open_page("/groups/checkout/partitions")
    page.get_by_text("1,000 partitions").first.wait_for()
    assert page.locator("tbody tr").count() < DRAWN_MOST

    slowest_ms = page.get_by_role("region", name="Partitions").evaluate(SCROLL)

    print(f"1,000 partitions: slowest frame while scrolling {slowest_ms:.0f} ms")
    assert slowest_ms < within(FLUENT_MS)


WIDE_VIEWS = ["overview", "timeline", "rebalances", "members", "partitions", "fenced", "causes", "what-if", "offsets"]
NODES_MOST = 1800


@pytest.mark.parametrize("view", WIDE_VIEWS)
def test_events_of_group_with_many_members_redraw_only_visible_rows(canned, open_page, view):
    make_live(canned)
    serve_groups(canned, many_groups(80))
    status = wide_status(200, 1000)
    canned.answers["/api/v1/groups/checkout"] = lambda _: {"schema": "kohort/v1/group.status", "status": status}
    page = open_page(f"/groups/checkout/{view}")
    page.locator("[data-stream=open]").wait_for()
    page.get_by_text(status["sentence"]).wait_for()
    for looks in range(1, 6):
        canned.push(
            "group", {"status": {**changed_status(status, looks), "sentence": f"It was looked at {looks} times."}}
        )

    page.get_by_text("It was looked at 5 times.").wait_for()
    assert page.locator("*").count() < NODES_MOST
    counts = Counter(path.partition("?")[0] for path in canned.paths if path.startswith("/api/"))
    assert max(counts.values()) <= 2  # five times the events must not cause five times the requests


SCROLL = """async box => {
  let slowest = 0, last = performance.now();
  for (let n = 0; n < 60; n++) {
    box.scrollTop += 300;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    slowest = Math.max(slowest, now - last);
    last = now;
  }
  return slowest;
}"""

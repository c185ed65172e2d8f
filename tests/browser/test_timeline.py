from __future__ import annotations

import json
import re

import pytest

from browser.answers import answer
from browser.expecting import expect
from browser.incidents import HOSTILE
from browser.stage import set_stage, stage_of, staged


@pytest.fixture
def timeline(canned, open_page):
    set_stage(canned)

    def open_it(group, *, context=None, **options):
        return staged(open_page(stage_of(group, **options), **{"reduced_motion": "reduce", **(context or {})}))

    return open_it


def rebalances(group):
    return answer("GET", f"groups/{group}/rebalances", {}).body["rebalances"]


def press(page, *keys):
    page.locator(".timeline-chart").focus()
    for key in keys:
        page.keyboard.press(key)


def test_arrow_keys_select_rebalance_and_enter_opens_it(timeline):
    page = timeline("checkout")
    body = rebalances("checkout")

    press(page, "ArrowRight", "ArrowRight")
    expect(page.locator(".timeline-read")).to_have_attribute("data-round", body[1]["id"])
    expect(page.locator(".timeline-read")).to_contain_text(body[1]["sentence"])
    press(page, "End", "Enter")
    expect(page.locator("body")).to_have_attribute("data-opened", body[-1]["id"])
    press(page, "Home")
    expect(page.locator(".timeline-read")).to_have_attribute("data-round", body[0]["id"])


def test_up_and_down_keys_select_member_and_show_its_assignment(timeline):
    page = timeline("checkout")

    press(page, "End", "ArrowDown", "ArrowDown", "ArrowDown")
    expect(page.locator(".timeline-label.here")).to_contain_text("checkout-3")
    expect(page.locator("section.timeline [role=status]")).to_contain_text("orders-4")


def test_timeline_cursor_is_at_selected_rebalance(timeline):
    page = timeline("checkout", selected="checkout/6")

    expect(page.locator(".timeline-read")).to_contain_text("max.poll.interval")
    expect(page.locator(".timeline-cause[aria-current=true]")).to_have_text("max poll exceeded")


def test_timeline_shows_expired_member_and_causes_of_rebalances(timeline):
    page = timeline("checkout")

    expect(page.locator(".timeline-label")).to_have_count(4)
    expect(page.locator(".timeline-label.gone")).to_contain_text("checkout-4")
    expect(page.locator(".tl-family")).to_have_count(3)
    expect(page.locator(".timeline-drawing .tl-break")).to_have_count(1)
    assert page.locator(".tl-moved").count() > 5
    assert page.locator(".tl-arrival").count() > 10
    assert page.locator(".timeline-cause.bad").all_inner_texts() == [
        "max poll exceeded",
        "session timeout process died",
    ]


def test_lane_of_dead_member_is_hatched_after_last_heartbeat(timeline):
    page = timeline("checkout")
    silent = page.locator(".timeline-drawing .tl-silent")

    expect(silent).to_have_count(3)
    box = silent.first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator(".timeline-tip")).to_contain_text("expired: it sent no heartbeat for 10.0 s")
    expect(page.get_by_role("group", name="Legend")).to_contain_text("owned, but silent or absent")
    page.get_by_role("button", name="Table").click()
    row = page.get_by_role("table").get_by_role("row").filter(has_text="silent or away for 10.0 s")
    expect(row.first).to_contain_text("checkout-4")


def test_partitions_of_a_silent_member_are_not_drawn_as_owned(timeline):
    page = timeline("checkout", mode="partitions")

    expect(page.locator(".timeline-drawing .tl-silent")).to_have_count(3)


def test_counts_of_timeline_equal_drawn_members_and_rows(timeline):
    page = timeline("checkout")
    content = answer("GET", "groups/checkout/timeline", {}).body["timeline"]

    rows = page.locator(".timeline-label").count()
    expect(page.locator(".timeline-tools .push")).to_have_text(
        f"{len(content['lanes'])} members in {rows} rows, 6 rebalances in {len(content['columns'])} rounds"
    )
    expect(page.locator(".timeline-chart")).to_have_attribute("aria-label", re.compile(f"members in {rows} rows"))


def test_member_that_delayed_rebalance_is_marked_with_bracket(timeline):
    page = timeline("billing")

    expect(page.locator(".tl-blocker-text")).to_have_text(["11.0 s"])


def test_partition_lanes_show_unowned_time(timeline):
    page = timeline("payments", mode="partitions")

    expect(page.locator(".timeline-label")).to_have_count(9)
    assert page.locator(".tl-drawing .tl-nobody, .timeline-drawing .tl-nobody").count() >= 8


def test_wheel_zooms_at_pointer_and_drag_pans(timeline):
    page = timeline("checkout")
    first = page.locator(".tl-gen-text").first
    expect(first).to_have_text("gen 1")
    box = page.locator(".timeline-drawing").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 40, box["y"] + 40)
    page.keyboard.down("Control")
    for _ in range(3):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    expect(first).to_have_text("gen 9")

    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 40 + 3000, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(first).not_to_have_text("gen 9")
    press(page, "0")
    expect(first).to_have_text("gen 1")


def test_click_selects_rebalance_and_member(timeline):
    page = timeline("checkout")
    box = page.locator(".timeline-drawing").bounding_box()

    page.mouse.click(box["x"] + box["width"] - 20, box["y"] + 20)

    expect(page.locator(".timeline-label.here")).to_contain_text("checkout-1")
    expect(page.locator(".timeline-read")).to_have_attribute("data-round", "checkout/9")


def test_tooltip_describes_position_of_pointer(timeline):
    page = timeline("checkout")
    moved = page.locator(".tl-moved").first.bounding_box()

    page.mouse.move(moved["x"] + moved["width"] / 2, moved["y"] + 5)

    expect(page.locator(".timeline-tip")).to_contain_text("moved in")


def test_timeline_table_equals_drawing(timeline):
    page = timeline("billing")
    page.get_by_role("button", name="Table").click()

    table = page.get_by_role("table")
    expect(table.get_by_role("row").filter(has_text="member left").first).to_contain_text("invoices-0, invoices-1")
    rows = answer("GET", "groups/billing/timeline", {}).body["timeline"]["columns"]
    assert table.locator("tbody th").last.inner_text() == str(rows[-1]["generation"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["members", "partitions", "table", "board"])
def test_timeline_passes_axe(timeline, finds_nothing, scheme, view):
    if view == "board":
        page = timeline("billing", what_if=json.dumps({"add": 2}), context={"color_scheme": scheme})
    else:
        page = timeline("checkout", context={"color_scheme": scheme})
        page.get_by_role("button", name=view.capitalize()).click()
        page.get_by_role("button", name="All", exact=True).focus()
    finds_nothing(page)


def test_timeline_shows_hostile_names_as_text(timeline):
    page = timeline(HOSTILE[0])

    expect(page.locator(".timeline-label b").first).to_contain_text("<script>alert(2)</script>⟨U+001B⟩[2J⟨U+202E⟩")
    page.get_by_role("button", name="Table").click()
    expect(page.get_by_role("table")).to_contain_text("⟨U+202E⟩")


def test_what_if_board_shows_moved_partitions(timeline):
    page = timeline("billing", what_if=json.dumps({"add": 2}))

    expect(page.locator(".board tbody tr.new")).to_have_count(2)
    expect(page.locator(".board")).to_have_attribute("data-moves", "3")
    assert (
        page.locator(".board tbody .board-chip.gives").count()
        == page.locator(".board tbody .board-chip.gets").count()
        == 3
    )
    expect(page.locator(".board-banner")).to_contain_text("Nothing was executed")


def test_timeline_reports_group_without_members(canned, open_page):
    set_stage(canned)
    body = answer("GET", "groups/reports/timeline", {}).body
    body["timeline"] |= {"lanes": [], "columns": []}
    canned.answers["/api/v1/groups/reports/timeline"] = lambda _: body

    page = staged(open_page(stage_of("reports")))

    expect(page.get_by_text("No member in reports in this time.")).to_be_visible()

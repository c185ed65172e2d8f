from __future__ import annotations

import pytest

from browser.answers import Answer, with_schema
from browser.expecting import expect
from browser.lively import make_live

VIEWS = {
    "/groups": "Groups",
    "/groups/checkout/overview": "Why it rebalanced",
    "/groups/checkout/timeline": "Assignments over time",
    "/groups/checkout/rebalances": "Rebalances",
    "/groups/checkout/rebalances/9": "Moved partitions",
    "/groups/payments/rebalances/6": "Partitions to revoke",
    "/groups/payments/members": "Reconciliation: target against current",
    "/groups/checkout/partitions": "Partitions",
    "/groups/checkout/partitions?peek=orders-0": "Records of orders-0",
    "/groups/checkout/fenced": "Rejected and suspicious requests",
    "/groups/checkout/causes": "Causes",
    "/groups/checkout/what-if": "What if",
    "/groups/checkout/offsets": "Offsets, and other changes",
    "/groups/checkout/events": "Events",
    "/doctor": "Doctor",
    "/causes": "Share of time that groups were stable",
    "/topics": "Topics",
    "/topics/orders": "Partitions",
    "/topics/orders/records": "Records",
    "/topics/orders/records?show=json&text=a&start=offset&value=1": "Records",
    "/topics/orders/records?show=hex": "Records",
    "/topics/orders/groups": "Groups that read it",
    "/topics/orders/configuration": "Configuration",
    "/brokers": "Brokers and coordination",
    "/pipelines": "Pipelines",
    "/nowhere": "This view does not exist",
}


def test_root_address_opens_list_of_groups(open_page):
    page = open_page("/")

    page.get_by_role("heading", name="Groups", exact=True).wait_for()


@pytest.mark.parametrize(("path", "heading"), VIEWS.items())
def test_every_view_passes_axe_in_light_and_dark(open_page, finds_nothing, path, heading):
    page = open_page(path, color_scheme="light")
    page.get_by_role("heading", name=heading).first.wait_for()
    page.wait_for_load_state("networkidle")
    finds_nothing(page)

    page.emulate_media(color_scheme="dark")
    finds_nothing(page)


@pytest.mark.parametrize("path", ["/groups", "/groups/checkout/overview", "/groups/checkout/offsets"])
def test_live_console_passes_axe(canned, open_page, finds_nothing, path):
    make_live(canned, allow_changes=True)
    page = open_page(path)
    page.locator("[data-mode=live]").wait_for()
    page.get_by_role("heading").nth(1).wait_for() if path != "/groups" else None

    page.get_by_text("One thing is not visible from here").click()
    page.get_by_text("the right to describe the cluster is missing").wait_for()
    finds_nothing(page)


def test_every_view_fits_width_of_800_pixels(open_page):
    for path in ("/groups", "/groups/checkout/overview", "/groups/checkout/rebalances/9", "/groups/checkout/what-if"):
        page = open_page(path, viewport={"width": 800, "height": 700})
        page.get_by_role("heading").first.wait_for()
        page.wait_for_load_state("networkidle")

        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_group_with_worst_health_is_first_with_reason(open_page):
    page = open_page("/groups")

    page.get_by_text("1 group of 5 needs attention.").wait_for()
    first = page.get_by_role("row").nth(1)
    assert "STOP" in first.inner_text()
    assert "no member reads it" in first.inner_text()


def test_rebalance_view_shows_cause_evidence_and_advice(open_page):
    page = open_page("/groups/checkout/rebalances/9")

    page.get_by_text("was silent and expired").first.wait_for()
    page.get_by_text("find the reason why the process ended").wait_for()
    evidence = page.locator("section.evidence")
    assert "connection closed" in evidence.inner_text()
    page.get_by_role("button", name="Explain session timeout process died").click()
    page.get_by_text("Similar causes").wait_for()


def test_rebalance_outside_time_span_is_opened_from_address(canned, open_page):
    page = open_page("/groups/checkout/rebalances/2?from=1700000200000&until=1700000250000")

    page.get_by_role("heading", name="Moved partitions").wait_for()
    assert any("rebalances" in path and "from" not in path for path in canned.paths)


def test_what_if_form_is_filled_from_address(open_page):
    page = open_page("/groups/checkout/what-if?add=2")

    page.get_by_role("table", name="Assignors compared").wait_for()
    assert page.locator("[data-moves]").get_attribute("data-moves") != "0"


def test_what_if_request_contains_only_form_values(open_page):
    page = open_page("/groups/checkout/what-if", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("combobox", name="Kill").select_option(index=1)
    page.get_by_role("combobox", name="How it ends").select_option("it stops polling")

    with page.expect_request("**/what-if") as request:
        page.get_by_role("button", name="Predict").click()

    body = request.value.post_data_json
    assert (body["add"], body["kill"][0].endswith(":poll")) == (None, True)
    page.get_by_role("table", name="Assignors compared").wait_for()
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()").startswith("### What if: ")


def test_members_view_shows_partitions_to_revoke_of_consumer_group(canned, open_page):
    make_live(canned)
    page = open_page("/groups/payments/members")

    page.get_by_text("2 members of 3 not at the target yet.").wait_for()
    assert "waits for partitions" in page.get_by_role("table", name="Members against the target").inner_text()
    members = page.get_by_role("table", name="Members", exact=False).first
    expect(members.get_by_role("img", name="time since the last poll: 12.0 s of 5 min")).to_have_count(1)
    expect(members.get_by_text("<b>librdkafka</b> 2.6.1")).to_be_visible()
    expect(members.get_by_role("img", name="unknown: it joined long ago").first).to_be_visible()


def test_unknown_value_is_shown_as_dash_with_reason(open_page):
    page = open_page("/groups/checkout/partitions")
    unknown = page.get_by_role("img", name="unknown: rates need several samples").first

    unknown.focus()

    assert unknown.inner_text() == "\u2013"
    assert page.locator(".tip").inner_text() == "unknown: rates need several samples"


def test_view_is_copied_as_command_and_markdown(open_page):
    page = open_page("/groups/checkout/rebalances/9", permissions=["clipboard-read", "clipboard-write"])

    page.get_by_role("button", name="Copy as command").click()
    page.get_by_role("button", name="copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "kohort group why checkout --rebalance 9"
    page.get_by_role("button", name="Copy as Markdown").click()
    page.get_by_role("button", name="copied").nth(1).wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("### checkout/9: session timeout process died")
    assert "Evidence:" in text


def test_failed_request_is_shown_with_advice(canned, open_page, problems):
    canned.answers["/api/v1/doctor"] = lambda _: Answer(
        503, with_schema("console.error", error="no answer", advice="retry")
    )
    page = open_page("/doctor")

    page.get_by_role("alert").first.wait_for()
    assert "No answer." in page.get_by_role("alert").first.inner_text()
    assert "Retry." in page.get_by_role("alert").first.inner_text()
    assert all("503" in problem for problem in problems)
    problems.clear()


@pytest.mark.parametrize("tab", ["overview", "members", "partitions", "what-if", "offsets", "timeline", "rebalances"])
def test_missing_group_is_one_sentence_in_every_view(open_page, problems, tab):
    page = open_page(f"/groups/nobody/{tab}")

    expect(page.get_by_text("Group 'nobody' does not exist.")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(1)
    page.wait_for_load_state("networkidle")
    expect(page.get_by_role("alert")).to_have_count(1)
    assert all("404" in problem for problem in problems)
    problems.clear()


def test_advice_links_to_views_that_help(open_page):
    page = open_page("/doctor")

    page.get_by_role("link", name="show the offsets").first.click()

    expect(page.get_by_role("heading", name="Offsets, and other changes")).to_be_visible()


def test_advice_on_stalled_partition_links_to_its_next_record(canned, open_page):
    finding = {
        "rule": "stalled", "severity": "error", "group": "checkout", "sentence": "orders-0 stalls", "advice": "look",
        "confidence": "high", "member": None, "partitions": ["orders-0"], "evidence": [],
    }  # fmt: skip
    canned.answers["/api/v1/doctor"] = lambda _: with_schema("doctor", examined=1, findings=[finding])
    page = open_page("/doctor")

    page.get_by_role("link", name="peek at the next record of orders-0").click()

    expect(page.get_by_role("region", name="records of orders-0")).to_be_visible()


def test_help_lists_keys_of_all_views(open_page):
    page = open_page("/groups")
    page.get_by_role("heading", name="Groups", exact=True).wait_for()
    page.keyboard.press("?")

    help_text = page.get_by_role("dialog")
    for text in ("topics", "zoom in", "of a group: what-if", "of a group: causes", "of a group: offsets"):
        expect(help_text).to_contain_text(text)


def test_rebalance_view_shows_joins_of_members(open_page):
    page = open_page("/groups/checkout/rebalances/9")

    joins = page.get_by_role("table", name="Joins of this rebalance")
    joins.wait_for()

    assert joins.locator("tbody tr").count() >= 1
    assert "v9" in joins.inner_text()
    assert "unknown" not in joins.inner_text()

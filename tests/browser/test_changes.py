"""A change is seen before it is made, confirmed by name, and bound to its plan; a console that only reads says so."""

from __future__ import annotations

import json

from browser.answers import told
from browser.expecting import expect
from browser.lively import TOKEN, make_live, refuse

PATH = "/api/v1/groups/checkout/offsets"


def plan(**more):
    row = {"group": "checkout", "topic": "orders", "partition": 0, "prior_offset": 200, "new_offset": 0}
    partitions = [{**row, "skipped": 0, "read_again": 200, "error": None}]
    return told("group.reset-offsets", executed=False, partitions=partitions, refused=[], **more)


def test_a_console_that_only_reads_shows_the_command_instead(canned, open_page):
    make_live(canned)
    page = open_page("/groups/checkout/offsets")

    page.get_by_text("it was started without --allow-changes").wait_for()
    page.get_by_role("combobox", name="To", exact=True).select_option("shift")
    page.get_by_label("Which").fill("-100")

    assert page.get_by_text("kohort group reset-offsets checkout --shift-by -100").is_visible()
    expect(page.get_by_role("button", name="Show what it would do")).to_be_disabled()


def test_nothing_is_changed_in_the_past(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets?at=1700000200000")

    page.get_by_text("go back to now first").wait_for()
    expect(page.get_by_role("button", name="Show what it would do")).to_be_disabled()


def test_offsets_are_moved_after_the_plan_was_seen_and_the_name_typed(canned, open_page):
    make_live(canned, allow_changes=True)
    command = "kohort group reset-offsets checkout --to-earliest --execute"
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="bound-to-it", command=command)
    canned.answers[f"{PATH}:apply"] = lambda _: {**plan(), "executed": True}
    page = open_page("/groups/checkout/offsets")
    posts = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)

    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_text("200 records will be read again").wait_for()
    assert page.get_by_text(command).is_visible()
    expect(page.get_by_role("button", name="Move the offsets")).to_be_disabled()
    page.get_by_label("Type checkout to confirm").fill("checkout")
    page.get_by_role("button", name="Move the offsets").click()

    page.get_by_role("heading", name="Done").wait_for()
    assert [json.loads(one.post_data) for one in posts] == [
        {"to": "earliest", "value": None, "topics": []},
        {"to": "earliest", "value": None, "topics": [], "confirm": "bound-to-it"},
    ]
    assert {one.headers["x-kohort-token"] for one in posts} == {TOKEN}


def test_a_plan_no_longer_counts_once_something_else_is_asked_for(canned, open_page):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="c", command="kohort")
    page = open_page("/groups/checkout/offsets")
    page.get_by_role("button", name="Show what it would do").click()
    page.get_by_text("200 records will be read again").wait_for()

    page.get_by_role("combobox", name="To", exact=True).select_option("latest")

    expect(page.get_by_text("200 records will be read again")).to_have_count(0)
    expect(page.get_by_role("button", name="Move the offsets")).to_have_count(0)


def test_a_refusal_is_told_with_what_to_do(canned, open_page, problems):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: refuse("the group has members: checkout-1", "stop them first")
    page = open_page("/groups/checkout/offsets")

    page.get_by_role("button", name="Show what it would do").click()

    expect(page.get_by_role("alert")).to_contain_text("The group has members: checkout-1.")
    expect(page.get_by_role("alert")).to_contain_text("Stop them first.")
    assert all("409" in problem for problem in problems)
    problems.clear()


def test_members_are_removed_with_a_reason(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets?way=members")
    show = page.get_by_role("button", name="Show what it would do")

    page.get_by_role("checkbox").first.check()
    expect(show).to_be_disabled()
    page.get_by_label("Reason").fill("host is gone")

    expect(show).to_be_enabled()
    assert "--reason 'host is gone'" in page.locator(".command").inner_text()

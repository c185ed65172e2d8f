from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from browser.answers import with_schema
from browser.expecting import expect
from browser.lively import cluster, make_live, refuse, rows, serve_groups, status_of

AT = 1700000150000


def opened_live(canned, open_page, path="/groups"):
    make_live(canned)
    page = open_page(path)
    page.locator("[data-mode=live][data-stream=open]").wait_for()
    page.get_by_role("heading", level=1).wait_for()
    if path == "/groups":
        page.get_by_role("row").filter(has_text="billing").wait_for()
    return page


def changed(lag):
    return {
        **next(row for row in rows() if row["group"] == "billing"),
        "lag": lag,
        "health": "STALL",
        "reason": "stuck",
    }


def test_group_events_update_list_in_order_of_health(canned, open_page):
    page = opened_live(canned, open_page)

    canned.push("groups", {"groups": [changed(4321)]})

    row = page.get_by_role("row").filter(has_text="billing")
    expect(row).to_contain_text("4,321")
    expect(row).to_contain_text("STALL")
    expect(page.get_by_text("2 groups of 5 need attention.")).to_be_visible()


def test_deleted_group_is_removed_from_list(canned, open_page):
    page = opened_live(canned, open_page)

    canned.push("groups", {"groups": [], "deleted": ["billing"]})

    expect(page.get_by_role("row").filter(has_text="billing")).to_have_count(0)


def test_group_events_update_views_of_group(canned, open_page):
    page = opened_live(canned, open_page, "/groups/checkout/members")
    page.get_by_role("heading", name="Members").wait_for()
    page.get_by_text(status_of("checkout")["sentence"]).wait_for()

    canned.push("group", {"status": {**status_of("checkout"), "sentence": "checkout has just changed."}})

    page.get_by_text("checkout has just changed.").wait_for()
    assert "/api/v1/stream?group=checkout" in canned.paths


def test_paused_view_is_unchanged_until_return_to_now(canned, open_page):
    page = opened_live(canned, open_page)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-mode=paused]")).to_be_visible()
    before = page.get_by_role("row").filter(has_text="billing").inner_text()
    request_count = len(canned.paths)

    canned.push("groups", {"groups": [changed(4321)]})

    assert "at" in parse_qs(urlsplit(page.url).query)
    assert page.get_by_role("row").filter(has_text="billing").inner_text() == before
    assert [one for one in canned.paths[request_count:] if "/groups" in one] == []
    page.get_by_role("button", name="Back to now").click()
    expect(page.locator("[data-mode=live]")).to_be_visible()
    assert "at" not in parse_qs(urlsplit(page.url).query)


def test_selected_past_time_is_requested_and_kept_in_address(canned, open_page):
    page = opened_live(canned, open_page, "/groups/checkout/rebalances?span=86400000")
    page.goto(page.url.split("?")[0] + f"?at={AT}&span=86400000")
    expect(page.locator("[data-mode=replay]")).to_be_visible()
    earlier = page.locator("tbody tr").count()

    page.get_by_role("button", name="+1 min").click()

    expect(page.locator("tbody tr")).not_to_have_count(earlier)
    assert parse_qs(urlsplit(page.url).query)["at"] == [str(AT + 60_000)]
    assert any(f"at={AT}" in one for one in canned.paths)


def test_replay_shows_states_of_the_past(canned, open_page):
    page = open_page(f"/groups?at={AT}")
    expect(page.locator("[data-mode=replay]")).to_be_visible()

    page.get_by_role("button", name="Play").click()
    page.wait_for_url(f"**at={AT + 10_000}*")
    page.wait_for_url(f"**at={AT + 20_000}*")
    page.get_by_role("button", name="Stop", exact=True).click()


def test_lost_stream_is_reported_and_opened_again(canned, open_page):
    page = opened_live(canned, open_page)
    request_count = len([one for one in canned.paths if one == "/api/v1/groups"])

    canned.push("bye", {})
    expect(page.get_by_text("NOT CONNECTED")).to_be_visible()
    canned.end_streams()

    expect(page.locator("[data-mode=live]").get_by_text("LIVE", exact=True)).to_be_visible()
    canned.push("groups", {"groups": [changed(77)]})
    expect(page.get_by_role("row").filter(has_text="billing")).to_contain_text("STALL")
    assert request_count >= 1


def test_unreachable_console_makes_values_unknown(canned, open_page, problems):
    page = opened_live(canned, open_page)
    whole = canned.answers["/api/v1/cluster"]
    canned.answers["/api/v1/cluster"] = lambda _: refuse("the console ends", "start it again", 500)

    canned.push("bye", {})
    banner = page.locator("[data-outage=console]")
    expect(banner).to_contain_text("The console has not answered since")
    expect(page.get_by_text("needs attention")).to_have_count(0)
    expect(page.get_by_role("row").filter(has_text="billing")).to_contain_text("unknown")
    canned.answers["/api/v1/cluster"] = whole

    expect(banner).to_have_count(0)
    expect(page.get_by_text("needs attention")).to_be_visible()
    problems[:] = [one for one in problems if "Failed to load resource" not in one]


def test_health_of_groups_is_unknown_at_past_time_without_offsets(canned, open_page):
    serve_groups(canned, [{**row, "health": None, "lag": None} for row in rows()])
    canned.answers["/api/v1/doctor"] = lambda _: with_schema("doctor", examined=5, findings=[], unknown=5)
    page = open_page(f"/groups?at={AT}")
    expect(page.get_by_text("5 groups; the health of all is unknown.")).to_be_visible()

    page.goto(page.url.replace("/groups", "/doctor"))
    expect(page.get_by_text("5 groups examined: no findings; the health of all is unknown.")).to_be_visible()
    expect(page.get_by_text("No problems found.")).to_be_visible()


def test_recording_is_shown_without_stream(canned, open_page):
    page = open_page("/groups/checkout/rebalances")

    expect(page.locator("[data-mode=recorded]")).to_be_visible()
    expect(page.get_by_text("9 rebalances in this time span, of 9 in the journal.")).to_be_visible()
    assert not any("/stream" in one for one in canned.paths)


def test_journal_found_after_page_load_is_shown_without_reload(canned, open_page):
    body = cluster()
    unread_journal = {"kind": None, "since_ms": None, "until_ms": None, "stale": False, "why_not": "not read yet"}
    canned.answers["/api/v1/cluster"] = lambda _: {**body, "journal": unread_journal}
    page = open_page("/groups")
    page.get_by_text("no journal").wait_for()

    canned.answers["/api/v1/cluster"] = lambda _: {**body, "journal": {**body["journal"], "kind": "own watcher"}}

    page.get_by_text("own watcher").wait_for()
    expect(page.get_by_role("slider", name="moment that is shown")).to_be_visible()


def test_cluster_views_reload_after_changes_of_groups(canned, open_page):
    for view in ("causes", "topics"):
        page = opened_live(canned, open_page, f"/{view}")

        with page.expect_request(f"**/api/v1/{view}*"):
            canned.push("groups", {"groups": [changed(4321)]})


def test_replay_of_past_stops_at_latest_moment(canned, open_page):
    page = open_page("/groups")
    slider = page.get_by_role("slider", name="moment that is shown")
    end = int(slider.get_attribute("max"))
    page.goto(f"{page.url}?at={end - 4_000}")

    page.get_by_role("button", name="Play").click()

    page.wait_for_url(f"**at={end}")
    expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_step_forward_from_past_reaches_time_after_page_load(canned, open_page):
    body = {**cluster(), "now_ms": AT}
    canned.answers["/api/v1/cluster"] = lambda _: body
    page = open_page(f"/groups?at={AT - 1_000}")
    slider = page.get_by_role("slider", name="moment that is shown")
    expect(slider).to_have_value(str(AT - 1_000))
    page.wait_for_function("since => Date.now() > since", arg=page.evaluate("Date.now() + 2_500"))

    page.get_by_role("button", name="+1 min").click()

    assert int(parse_qs(urlsplit(page.url).query)["at"][0]) > AT + 2_000

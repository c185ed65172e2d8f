from __future__ import annotations

import json

from browser.answers import with_schema
from browser.expecting import expect
from browser.lively import TOKEN, make_live, refuse

PATH = "/api/v1/groups/checkout/offsets"


def plan(**more):
    row = {"group": "checkout", "topic": "orders", "partition": 0, "prior_offset": 200, "new_offset": 0}
    partitions = [{**row, "skipped": 0, "read_again": 200, "error": None}]
    return with_schema("group.reset-offsets", executed=False, partitions=partitions, refused=[], **more)


def test_read_only_console_shows_command(canned, open_page):
    make_live(canned)
    page = open_page("/groups/checkout/offsets")

    page.get_by_text("it was started without --allow-changes").wait_for()
    page.get_by_role("combobox", name="To", exact=True).select_option("shift")
    page.get_by_label("Which").fill("-100")

    assert page.get_by_text("kohort group reset-offsets checkout --shift-by -100").is_visible()
    expect(page.get_by_role("button", name="Show the plan")).to_be_disabled()


def test_past_view_allows_no_change(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets?at=1700000200000")

    page.get_by_text("go back to now for changes").wait_for()
    expect(page.get_by_role("button", name="Show the plan")).to_be_disabled()


def test_reset_is_executed_after_user_types_confirmation(canned, open_page):
    make_live(canned, allow_changes=True)
    command = "kohort group reset-offsets checkout --to-earliest --execute"
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="bound-to-it", command=command)
    canned.answers[f"{PATH}:apply"] = lambda _: {**plan(), "executed": True}
    page = open_page("/groups/checkout/offsets")
    posts = []
    page.on("request", lambda request: posts.append(request) if request.method == "POST" else None)

    page.get_by_role("button", name="Show the plan").click()
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


def test_change_of_form_discards_plan(canned, open_page):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="c", command="kohort")
    page = open_page("/groups/checkout/offsets")
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_text("200 records will be read again").wait_for()

    page.get_by_role("combobox", name="To", exact=True).select_option("latest")

    expect(page.get_by_text("200 records will be read again")).to_have_count(0)
    expect(page.get_by_role("button", name="Move the offsets")).to_have_count(0)


def test_rejected_change_shows_advice(canned, open_page, problems):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: refuse("the group has members: checkout-1", "stop them first")
    page = open_page("/groups/checkout/offsets")

    page.get_by_role("button", name="Show the plan").click()

    expect(page.get_by_role("alert")).to_contain_text("The group has members: checkout-1.")
    expect(page.get_by_role("alert")).to_contain_text("Stop them first.")
    assert all("409" in problem for problem in problems)
    problems.clear()


def test_removal_of_member_sends_reason(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets?way=members")
    show = page.get_by_role("button", name="Show the plan")

    page.get_by_role("checkbox").first.check()
    expect(show).to_be_disabled()
    page.get_by_label("Reason").fill("host is down")

    expect(show).to_be_enabled()
    assert "--reason 'host is down'" in page.locator(".command").inner_text()


def test_address_contains_values_of_reset_form(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets")
    page.get_by_role("combobox", name="To", exact=True).select_option("shift")
    page.get_by_role("combobox", name="Topic").select_option("orders")
    page.get_by_role("textbox", name="Partitions").fill("0,3")
    page.get_by_label("Which").fill("-100")

    again = open_page(page.evaluate("location.pathname + location.search"))

    command = "kohort group reset-offsets checkout --topic 'orders:0,3' --shift-by -100"
    expect(again.get_by_text(command)).to_be_visible()


def test_reset_reads_offsets_from_file(canned, open_page, finds_nothing, tmp_path):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="c", command="kohort")
    file = tmp_path / "offsets.csv"
    file.write_text("orders,0,0\n")
    page = open_page("/groups/checkout/offsets?to=file")
    show = page.get_by_role("button", name="Show the plan")
    expect(show).to_be_disabled()
    assert page.get_by_text("kohort group reset-offsets checkout --from-file offsets.csv").is_visible()

    page.locator("input[type=file]").set_input_files(file)
    expect(page.get_by_label("Its lines")).to_have_value("orders,0,0\n")
    with page.expect_request("**/offsets:plan") as request:
        show.click()

    assert request.value.post_data_json == {"to": "file", "value": "orders,0,0\n", "topics": []}
    page.get_by_text("200 records will be read again").wait_for()
    finds_nothing(page)


def test_too_large_offsets_file_is_rejected_with_advice(canned, open_page, tmp_path):
    make_live(canned, allow_changes=True)
    file = tmp_path / "<b>big.csv"
    file.write_text("orders,0,0\n" * 20_000)
    page = open_page("/groups/checkout/offsets?to=file")

    page.locator("input[type=file]").set_input_files(file)

    expect(page.get_by_role("alert")).to_contain_text("<b>big.csv has 220,000 bytes")
    expect(page.get_by_role("alert")).to_contain_text("use the command")
    expect(page.get_by_role("button", name="Show the plan")).to_be_disabled()


def test_reset_copies_offsets_of_another_group(canned, open_page):
    make_live(canned, allow_changes=True)
    page = open_page("/groups/checkout/offsets?to=group")

    page.get_by_label("Source group").fill("billing")

    expect(page.get_by_text("kohort group clone billing checkout")).to_be_visible()
    expect(page.get_by_role("button", name="Show the plan")).to_be_enabled()


def test_present_offsets_are_saved_as_csv_for_reset(canned, open_page):
    make_live(canned, allow_changes=True)
    canned.answers[f"{PATH}:plan"] = lambda _: plan(confirm="c", command="kohort")
    page = open_page("/groups/checkout/offsets")
    page.get_by_role("button", name="Show the plan").click()

    with page.expect_download() as saved:
        page.get_by_role("button", name="Save present offsets as CSV").click()

    assert saved.value.suggested_filename == "checkout-offsets.csv"
    assert saved.value.path().read_text() == "orders,0,200\n"

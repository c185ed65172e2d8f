"""What is around the groups: nodes and their loss, topics and their records, pipelines and their ledgers."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from browser.expecting import expect


def query(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_what_groups_would_do_without_a_node_is_one_link_away(open_page):
    page = open_page("/brokers")
    page.get_by_role("link", name="what if node 0 is lost?").focus()

    page.keyboard.press("Enter")

    page.get_by_role("heading", name="Without node 0").wait_for()
    assert urlsplit(page.url).path == "/brokers/0"
    page.get_by_text("A prediction. Nothing is executed.").wait_for()
    first = page.get_by_role("table", name="Groups without node 0").get_by_role("row").nth(1)
    expect(first).to_contain_text("partitions offline")
    expect(first).to_contain_text("reports")
    page.get_by_text("unclean.leader.election.enable is off").wait_for()


def test_a_node_that_is_stopped_cannot_be_lost_once_more(open_page):
    page = open_page("/brokers")
    page.get_by_role("heading", name="Brokers and coordination").wait_for()

    expect(page.get_by_role("row").filter(has_text="stopped").get_by_role("link")).to_have_count(0)


def test_how_late_a_node_is_and_how_long_it_read_groups_is_told_or_why_not(open_page):
    page = open_page("/brokers")
    nodes = page.get_by_role("table", name="Nodes")

    row = nodes.get_by_role("row").filter(has_text="one:9090")
    expect(row).to_contain_text("3 ms, at most 41 ms, of 50")
    expect(row).to_contain_text("12 ms, once 1.3 s")
    never = nodes.get_by_role("row").filter(has_text="one:9091")
    expect(never.get_by_role("img", name="it has read none since it started")).to_have_count(1)
    stopped = nodes.get_by_role("row").filter(has_text="stopped")
    expect(stopped.get_by_role("img", name="unknown: it is stopped")).to_have_count(2)


def test_groups_that_go_on_as_they_are_are_shown_on_demand(open_page):
    page = open_page("/brokers/1")
    page.get_by_text("No group would be touched").wait_for()

    page.get_by_role("checkbox").check()

    expect(page.get_by_role("table").get_by_text("goes on as it is").first).to_be_visible()
    assert query(page) == {"all": "1"}


def test_a_node_that_is_not_there_is_said_to_be_missing(open_page, problems):
    page = open_page("/brokers/9")

    page.get_by_role("alert").wait_for()
    assert all("404" in problem for problem in problems)
    problems.clear()


def test_records_of_a_topic_are_the_last_or_from_an_offset_on_as_the_address_says(open_page):
    page = open_page("/topics/orders")
    page.get_by_role("button", name="peek at the records of partition 0").click()
    records = page.get_by_role("table", name="Records")
    expect(records.get_by_role("rowheader").first).to_have_text("80")
    expect(records.get_by_role("columnheader", name="Read?")).to_have_count(0)
    expect(records).to_contain_text("record 80 <i>of</i> orders")

    page.get_by_role("button", name="earlier").click()

    expect(records.get_by_role("rowheader").first).to_have_text("60")
    assert query(page) == {"peek": "orders-0", "offset": "60"}
    page.get_by_role("button", name="the last", exact=True).click()
    expect(records.get_by_role("rowheader").first).to_have_text("80")
    expect(page.get_by_role("button", name="later")).to_be_disabled()


def test_a_pipeline_shows_its_ledger_and_one_that_cannot_be_read_says_why(open_page):
    page = open_page("/pipelines")

    page.get_by_role("heading", name="Ledger of the last run every row is accounted for").wait_for()
    expect(page.get_by_text("dropped by no-amount")).to_be_visible()
    expect(page.get_by_role("table", name="Sources").get_by_role("link", name="billing")).to_be_visible()
    expect(page.get_by_text("broken.yaml: line 3: <b>sinks</b> is missing")).to_be_visible()


def test_without_a_pipeline_it_is_said_how_one_is_shown(canned, open_page):
    canned.answers["/api/v1/pipelines"] = lambda _: {"schema": "kohort/v1/console.pipelines", "pipelines": []}
    page = open_page("/pipelines")

    page.get_by_text("kohort console --pipeline FILE").wait_for()

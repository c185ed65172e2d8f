from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from browser.expecting import expect


def query(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_brokers_view_shows_load_time_and_delay_or_reason_why_unknown(open_page):
    page = open_page("/brokers")
    nodes = page.get_by_role("table", name="Nodes")

    row = nodes.get_by_role("row").filter(has_text="one:9090")
    expect(row).to_contain_text("3 ms, at most 41 ms, of 50")
    expect(row).to_contain_text("12 ms, once 1.3 s")
    never = nodes.get_by_role("row").filter(has_text="one:9091")
    expect(never.get_by_role("img", name="the node has loaded none since its start")).to_have_count(1)
    stopped = nodes.get_by_role("row").filter(has_text="stopped")
    expect(stopped.get_by_role("img", name="unknown: stopped")).to_have_count(2)


def test_topic_view_shows_records_at_offset_in_address(open_page):
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


def test_pipelines_view_shows_ledger_or_error(open_page):
    page = open_page("/pipelines")

    page.get_by_role("heading", name="Ledger of the last run every row is accounted for").wait_for()
    expect(page.get_by_text("dropped by no-amount")).to_be_visible()
    expect(page.get_by_role("table", name="Sources").get_by_role("link", name="billing")).to_be_visible()
    expect(page.get_by_text("broken.yaml: line 3: <b>sinks</b> is missing")).to_be_visible()


def test_pipelines_view_without_pipeline_explains_option(canned, open_page):
    canned.answers["/api/v1/pipelines"] = lambda _: {"schema": "kohort/v1/console.pipelines", "pipelines": []}
    page = open_page("/pipelines")

    page.get_by_text("kohort console --pipeline FILE").wait_for()

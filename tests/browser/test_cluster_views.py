from __future__ import annotations

import threading
from urllib.parse import parse_qs, urlsplit

from browser import cluster_answers
from browser.answers import incidents, with_schema
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


def test_nodes_view_shows_size_of_logs_or_reason(open_page):
    page = open_page("/brokers")

    nodes = page.get_by_role("table", name="Nodes")
    expect(nodes.get_by_role("row").filter(has_text="one:9090")).to_contain_text("7.0 MiB")
    expect(nodes.get_by_role("row").filter(has_text="one:9090")).to_contain_text("93.1 GiB")
    unknown = nodes.get_by_role("row").filter(has_text="one:9091")
    expect(unknown.get_by_role("img", name="unknown: the user lacks DESCRIBE on the cluster").first).to_be_visible()


def test_topic_list_shows_size_rate_retention_and_groups(open_page):
    page = open_page("/topics")

    row = page.get_by_role("table", name="Topics").get_by_role("row").filter(has_text="7 d").first
    expect(row).to_contain_text("4.8 MiB")
    expect(row).to_contain_text("13/s")
    expect(row).to_contain_text("1,200")
    expect(row).to_contain_text("with replicas that are not in sync")
    expect(page.get_by_role("img", name="unknown: the user lacks DESCRIBE on the cluster").first).to_be_visible()
    row.get_by_role("rowheader").get_by_role("link").click()
    expect(page.get_by_role("navigation", name="Views of this topic")).to_be_visible()


def test_topic_view_shows_partition_without_leader_as_unknown(open_page):
    page = open_page("/topics/orders")

    row = page.get_by_role("table", name="Partitions").locator("tbody tr").first
    expect(row).to_contain_text("none")
    expect(row.get_by_role("img", name="unknown: the partition has no leader")).to_have_count(2)


def test_topic_view_shows_overridden_options_first(open_page):
    page = open_page("/topics/orders/configuration")

    rows = page.get_by_role("table", name="Options").locator("tbody tr")
    expect(rows.first).to_contain_text("overridden")
    expect(rows.first).to_contain_text("604800000 7 d")
    expect(rows.nth(1).get_by_role("img", name="unknown: its value is secret")).to_be_visible()


def test_topic_without_right_on_options_shows_reason(canned, open_page):
    found = dict(cluster_answers.topic(with_schema, incidents(), "orders") or {})
    found["options"] = None
    found["topic"] = {**found["topic"], "unknown": {"options": "the user lacks DESCRIBE_CONFIGS on the topic"}}
    canned.answers["/api/v1/topics/orders"] = lambda _: found
    page = open_page("/topics/orders/configuration")

    expect(page.get_by_text("Unknown: the user lacks DESCRIBE_CONFIGS on the topic.")).to_be_visible()


def test_records_view_goes_earlier_and_back(open_page):
    page = open_page("/topics/orders")
    page.get_by_role("link", name="records of partition 1").click()
    records = page.get_by_role("table", name="Records")
    expect(records.get_by_role("rowheader").first).to_have_text("1: 80")
    expect(page.get_by_role("button", name="Later")).to_be_disabled()

    page.get_by_role("button", name="Earlier").click()

    expect(records.get_by_role("rowheader").first).to_have_text("1: 60")
    assert query(page) == {"partition": "1", "ranges": "1:60-80"}
    page.get_by_role("button", name="Back to the start").click()
    expect(records.get_by_role("rowheader").first).to_have_text("1: 80")


def test_record_search_is_in_address_and_tells_what_it_searched(canned, open_page):
    page = open_page("/topics/orders/records")
    page.get_by_label("Contains").fill("<i>of")
    page.get_by_label("headers").uncheck()
    page.get_by_role("button", name="Search", exact=True).click()

    expect(
        page.get_by_text("4 matches in 20 records (2.0 KiB); stopped at the limit of records per search.")
    ).to_be_visible()
    assert query(page) == {"text": "<i>of", "in": "key,value"}
    page.get_by_role("button", name="Search earlier records").click()
    expect(page.get_by_role("table", name="Records").get_by_role("rowheader").first).to_have_text("0: 60")
    request_path = [path for path in canned.paths if "/records?" in path][-1]
    assert "ranges=0%3A60-80" in request_path
    assert "text=%3Ci%3Eof" in request_path
    page.get_by_text("What was searched").click()
    expect(page.get_by_text("partition 0: offsets 60 to 79; its log has 0 to 99")).to_be_visible()


def test_input_of_record_search_is_kept_when_an_answer_arrives(canned, open_page):
    release = threading.Event()

    def late_records(params):
        release.wait(timeout=10)
        return cluster_answers.topic_records(with_schema, "orders", params)

    canned.answers["/api/v1/topics/orders/records"] = late_records
    page = open_page("/topics/orders/records")
    page.get_by_label("Contains").fill("<i>of")
    page.locator("select[name=partition]").select_option("1")
    page.get_by_label("headers").uncheck()

    release.set()
    page.get_by_role("table", name="Records").wait_for()

    expect(page.get_by_label("Contains")).to_have_value("<i>of")
    expect(page.locator("select[name=partition]")).to_have_value("1")
    expect(page.get_by_label("headers")).not_to_be_checked()


def test_record_search_starts_at_offset_or_time(canned, open_page):
    page = open_page("/topics/orders/records")
    page.get_by_label("From").select_option("an offset")
    page.get_by_role("spinbutton", name="Offset").fill("40")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_role("table", name="Records").get_by_role("rowheader").first).to_have_text("0: 40")

    page.get_by_label("From").select_option("a time")
    page.get_by_role("textbox", name="Local time").fill("2023-11-14T22:13:20")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_load_state("networkidle")
    assert any("time=1700000000000" in path for path in canned.paths)


def test_record_values_are_shown_as_text_json_or_hex(open_page):
    page = open_page("/topics/orders/records")
    records = page.get_by_role("table", name="Records")
    expect(records).to_contain_text("of 97.7 KiB")
    expect(records).to_contain_text("and 1 further header")

    page.get_by_role("button", name="JSON").click()
    expect(records.locator("pre").first).to_have_text(
        '{\n  "id": 12345678901234567890,\n  "of": [\n    "<b>x</b>"\n  ]\n}', use_inner_text=True
    )
    page.get_by_role("button", name="hex").click()
    expect(records.locator("pre").first).to_contain_text("0000  ")
    expect(records.locator("pre", has_text="00 ff").first).to_be_visible()


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

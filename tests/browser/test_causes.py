from __future__ import annotations

import csv

from browser.expecting import expect


def test_cells_of_causes_table_with_counts_are_shaded(open_page):
    page = open_page("/groups/billing/causes")
    heat = page.get_by_role("table", name="Causes over time")
    heat.wait_for()

    rows = [row.locator("td").all_inner_texts() for row in heat.locator("tbody tr").all()]

    assert rows
    assert all(int(all_of) == sum(int(cell or 0) for cell in cells) for *cells, all_of in rows)
    assert heat.locator("td.shade").count() == sum(bool(cell) for *cells, _ in rows for cell in cells)


def test_address_contains_choice_of_bar_view(open_page):
    page = open_page("/causes")

    page.get_by_role("button", name="bars").click()

    expect(page.locator(".stacked svg")).to_be_visible()
    assert page.evaluate("location.search") == "?as=bars"


def test_causes_view_of_group_requests_causes_of_group(canned, open_page):
    page = open_page("/groups/checkout/causes")
    page.get_by_role("table", name="Causes over time").wait_for()

    assert any(path.startswith("/api/v1/groups/checkout/causes?") for path in canned.paths)
    expect(page.get_by_role("heading", name="Triggers")).to_be_visible()


def test_causes_view_shows_client_software_or_reason_why_it_is_unknown(open_page):
    page = open_page("/groups/checkout/causes")
    table = page.get_by_role("table", name="Client software of the members that triggered rebalances")

    expect(table.get_by_role("row").filter(has_text="apache-kafka-java 2.8.0")).to_have_count(1)
    expect(table.get_by_role("row").filter(has_text="<b>librdkafka</b> 2.6.0⟨U+202E⟩")).to_have_count(1)
    unknown = "unknown: the journal does not have it, and its client pushed no metrics"
    expect(table.get_by_role("row").filter(has_text=unknown)).to_have_count(1)


def test_causes_are_saved_as_csv(open_page):
    page = open_page("/groups/checkout/causes")

    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()

    assert saved.value.suggested_filename == "checkout-causes.csv"
    head, *lines = csv.reader(saved.value.path().read_text().splitlines())
    assert head == ["from", "until", "cause", "kind", "rebalances"]
    assert sum(int(line[4]) for line in lines) == 9
    assert "GROUP_FORMING" in {line[2] for line in lines}


def test_formula_in_name_is_escaped_in_csv(open_page):
    page = open_page("/groups")
    made = "c => import('/static/parts/csv.js').then(m => m.csv(c))"

    assert page.evaluate(made, [["=1+1", "@x", -5, 'say "a,b"']]) == '\'=1+1,\'@x,-5,"say ""a,b"""\n'
    name = "n => import('/static/parts/csv.js').then(m => m.fileName(n, 'causes'))"
    assert page.evaluate(name, "../../<b>\u202e") == ".._.._b_-causes"

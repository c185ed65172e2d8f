from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from browser.expecting import expect


def query(page):
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def names(page):
    return page.locator("tbody th").all_inner_texts()


def test_filter_and_order_of_groups_are_restored_from_address(open_page):
    page = open_page("/groups")
    page.get_by_role("searchbox").fill("/^(pay|bill)/")
    page.get_by_role("button", name="Lag", exact=True).click()
    expect(page.get_by_role("columnheader", name="Lag", exact=True)).to_have_attribute("aria-sort", "descending")
    shown = names(page)

    assert query(page) == {"filter": "/^(pay|bill)/", "sort": "lag.down"}
    again = open_page(urlsplit(page.url)._replace(scheme="", netloc="").geturl())
    again.get_by_role("heading", name="Groups").wait_for()
    assert names(again) == shown
    assert len(shown) == 2


def test_click_on_health_count_filters_groups_and_changes_address(open_page):
    page = open_page("/groups")

    page.get_by_role("button", name="STOP 1").click()

    assert query(page) == {"health": "STOP"}
    assert len(names(page)) == 1


def test_address_contains_filters_for_state_cause_and_topic(open_page):
    page = open_page("/groups?state=Stable")
    page.get_by_role("heading", name="Groups").wait_for()
    assert len(names(page)) < 5

    page.get_by_role("combobox", name="cause").select_option("SESSION_TIMEOUT.process_died")
    page.get_by_role("combobox", name="topic").select_option("orders")

    expect(page.locator("tbody th")).to_have_count(1)
    assert query(page) == {"state": "Stable", "cause": "SESSION_TIMEOUT.process_died", "topic": "orders"}


def test_selected_time_is_kept_in_other_views(open_page):
    page = open_page("/groups/checkout/rebalances?at=1700000150000&filter=poll")

    page.get_by_role("link", name="Members", exact=True).click()

    page.get_by_role("heading", name="Members").wait_for()
    assert query(page) == {"at": "1700000150000"}


def test_back_button_opens_previous_view(open_page):
    page = open_page("/groups")
    page.get_by_role("link", name="checkout", exact=True).click()
    page.get_by_role("heading", name="checkout").wait_for()

    page.go_back()

    page.get_by_role("heading", name="Groups").wait_for()


@pytest.mark.parametrize("name", ["a/b", "50%", "a b?c#d", "%2F", "日本", "..."])
def test_address_may_contain_any_group_name(canned, open_page, name):
    from urllib.parse import quote

    from browser.lively import rows, serve_groups, status_of

    serve_groups(canned, [{**rows()[0], "group": name}])
    body = {"schema": "kohort/v1/group.status", "status": {**status_of("checkout"), "group": name}}
    canned.answers[f"/api/v1/groups/{name}"] = lambda _: body
    for more in ("rebalances", "lag-history"):
        other = f"/api/v1/groups/{name}/{more}"
        canned.answers[other] = lambda params, more=more: _of_checkout(more, params)
    page = open_page("/groups")

    page.get_by_role("rowheader").get_by_role("link").click()

    page.get_by_role("heading", level=1, name=name).wait_for()
    assert urlsplit(page.url).path == f"/groups/{quote(name, safe='!')}/overview"
    page.get_by_role("heading", name="Why it rebalanced").wait_for()


def _of_checkout(what, params):
    from browser.answers import answer

    return answer("GET", f"groups/checkout/{what}", params).body


def test_advice_is_opened_from_list_of_groups_by_keyboard(open_page):
    page = open_page("/groups")
    page.get_by_role("searchbox").wait_for()

    page.keyboard.press("/")
    page.keyboard.type("checkout")
    expect(page.get_by_role("searchbox")).to_be_focused()
    expect(page.locator("tbody th")).to_have_count(1)
    page.get_by_role("region", name="Groups, the worst first").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", level=1, name="checkout").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.get_by_role("region", name="Rebalances").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")

    page.get_by_text("What to do").wait_for()
    assert "/rebalances/" in page.url


def test_question_mark_opens_help_for_keyboard_shortcuts(open_page):
    page = open_page("/groups")
    page.get_by_role("heading", name="Groups").wait_for()

    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("d")
    page.get_by_role("heading", name="Doctor").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.get_by_role("heading", name="Groups").wait_for()


def test_keyboard_shortcuts_are_disabled_in_text_fields(open_page):
    page = open_page("/groups")
    search = page.get_by_role("searchbox")

    search.press_sequentially("g?d/")

    assert search.input_value() == "g?d/"
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_selected_theme_is_kept_after_reload(open_page):
    page = open_page("/groups", color_scheme="light")

    page.get_by_label("Colours").select_option("dark")
    page.reload()

    page.get_by_role("heading", name="Groups").wait_for()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(229, 233, 238)"
    of_canvas = "import('/static/parts/theme.js').then(({ colour }) => [colour('--ink'), colour('--band')])"
    assert page.evaluate(of_canvas) == ["#e5e9ee", "rgb(240 127 60 / 20%)"]
    page.get_by_label("Colours").select_option("system")
    assert page.evaluate(of_canvas) == ["#1a1f26", "rgb(213 94 0 / 14%)"]


def test_address_of_exported_page_has_view_in_url_fragment(canned, open_page):
    import json

    from browser.answers import answer
    from browser.canned import STATIC

    kept = ("cluster", "groups", "groups/checkout", "groups/checkout/rebalances", "groups/checkout/timeline", "doctor")
    data = {f"/{path}": answer("GET", path, {}).body for path in kept}
    embedded = json.dumps(data).replace("<", "\\u003c")
    html = (STATIC / "index.html").read_text()
    canned.pages["/file.html"] = html.replace(
        "<body>", f'<body><script type="application/json" id="kohort-data">{embedded}</script>'
    )
    page = open_page("/file.html")
    page.get_by_role("link", name="checkout", exact=True).click()
    page.get_by_role("link", name="Rebalances", exact=True).click()

    page.get_by_role("heading", name="Rebalances").wait_for()
    assert urlsplit(page.url).fragment == "/groups/checkout/rebalances"
    assert not any("/api/" in path for path in canned.paths)

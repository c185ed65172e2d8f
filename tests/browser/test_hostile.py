from __future__ import annotations

import pytest

from browser.lively import status_of

EVIL = '<img src=x onerror="alert(1)">\u202eevil'
SHOWN = '<img src=x onerror="alert(1)">⟨U+202E⟩evil'
LONG = "x" * 65_536
VIEWS = ("overview", "timeline", "rebalances", "members", "partitions", "fenced", "what-if", "offsets", "events")


@pytest.mark.parametrize("view", VIEWS)
def test_markup_in_name_is_shown_as_text(open_page, view):
    from urllib.parse import quote

    page = open_page(f"/groups/{quote(EVIL, safe='')}/{view}")

    page.get_by_role("heading", level=1).get_by_text(SHOWN).wait_for()
    page.wait_for_load_state("networkidle")
    assert page.locator("img").count() == 1  # the only image is the page's own
    assert "\u202e" not in page.locator("body").inner_text()


def test_texts_from_clients_are_shown_without_markup_and_shortened(canned, open_page):
    status = status_of("checkout")
    member = status["members"][0]
    who = {"member_id": f"\x1b[31m<b>{LONG}", "client_id": "<script>alert(1)</script>", "host": "\u2066/10.0.0.1"}
    status["members"] = [{**member, "member": {**who, "instance_id": None}, "reason": f"it said: {LONG}\x00"}]
    status["sentence"] = f"<u>{LONG}</u>"
    canned.answers["/api/v1/groups/checkout"] = lambda _: {"schema": "kohort/v1/group.status", "status": status}
    page = open_page("/groups/checkout/members")

    page.get_by_role("rowheader").get_by_text("<script>alert(1)</script>").first.wait_for()
    assert page.locator("main b:has-text('xxx'), main u, main script").count() == 0
    assert "⟨U+2066⟩/10.0.0.1" in page.get_by_role("table", name="Members").inner_text()
    assert len(page.locator("main").inner_text()) < 6000
    page.get_by_role("button", name="all 65,543 letters").click()
    assert len(page.get_by_role("group", name="the whole text").inner_text()) == 65_543


def test_record_is_shown_as_text_and_bytes_as_base64(canned, open_page):
    page = open_page("/groups/checkout/partitions?peek=orders-0")

    records = page.get_by_role("table", name="Records")
    records.wait_for()
    assert "<b>no markup</b>" in records.inner_text()
    assert "base64" in records.inner_text()
    assert records.locator("td b:has-text('no markup')").count() == 0


def test_copied_command_is_quoted_for_shell(open_page):
    page = open_page("/groups")
    quoted = {
        "orders-1": "orders-1",
        "$(reboot)": "'$(reboot)'",
        "it's": r"'it'\''s'",
        "a\u202e'b": r"$'a\u202e\'b'",
    }

    for word, shown in quoted.items():
        assert page.evaluate("word => import('/static/parts/words.js').then(w => w.shellWord(word))", word) == shown


def test_invisible_characters_are_shown_as_their_codes(open_page):
    page = open_page("/groups")
    tried = {
        "a\u202eb": "a⟨U+202E⟩b",
        "\x00\x1b\x7f\x9f": "⟨U+0000⟩⟨U+001B⟩⟨U+007F⟩⟨U+009F⟩",
        "\u200b\ufeff\u2028": "⟨U+200B⟩⟨U+FEFF⟩⟨U+2028⟩",
        "日本 é 🎉": "日本 é 🎉",
    }

    for text, shown in tried.items():
        assert page.evaluate("text => import('/static/parts/words.js').then(w => w.visible(text))", text) == shown
    assert page.evaluate("import('/static/parts/words.js').then(w => w.visible('\\ud800x'))") == "⟨U+D800⟩x"


def test_names_in_markdown_cannot_break_table(open_page):
    page = open_page("/groups")

    table = page.evaluate("import('/static/parts/words.js').then(w => w.markdownTable(['A'], [['x|y\\n`z`'], [null]]))")

    assert table.splitlines() == ["| A |", "| --- |", "| x\\|y⟨U+000A⟩\\`z\\` |", "| \u2013 |"]


@pytest.mark.parametrize(
    "path", ["", "/records", "/records?show=json", "/records?show=hex", "/groups", "/configuration"]
)
def test_markup_in_topic_key_value_and_header_is_shown_as_text(open_page, path):
    from urllib.parse import quote

    page = open_page(f"/topics/{quote(EVIL, safe='')}{path}")

    page.get_by_role("heading", level=1).get_by_text(SHOWN).wait_for()
    page.wait_for_load_state("networkidle")
    if "records" in path:
        page.get_by_role("table", name="Records").get_by_text("onerror").first.wait_for()
        page.get_by_role("searchbox", name="Contains").fill(EVIL)
        page.get_by_role("button", name="Search", exact=True).click()
        page.wait_for_load_state("networkidle")
    assert page.locator("img").count() == 1  # the only image is the page's own
    assert page.locator("main td i, main pre b").count() == 0
    assert "\u202e" not in page.locator("main").inner_text()


def test_markup_in_topic_name_is_text_in_list_of_topics(open_page):
    page = open_page("/topics")

    page.get_by_role("table", name="Topics").get_by_text(SHOWN).first.wait_for()
    assert page.locator("img").count() == 1

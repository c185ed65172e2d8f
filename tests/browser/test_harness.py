from __future__ import annotations

import pytest

from browser.canned import import_map

HEAD = f'<!doctype html><html lang="en"><head><title>t</title>{import_map()}'


def opened(canned, open_page, problems, html):
    canned.pages["/p"] = html
    page = open_page("/p")
    page.wait_for_load_state("networkidle")
    found = list(problems)
    problems.clear()
    return page, found


def test_inline_script_is_blocked_and_reported(canned, open_page, problems):
    _, found = opened(canned, open_page, problems, HEAD + "</head><body><script>window.evil = 1</script>")

    assert any("CSP: script-src" in problem for problem in found)


def test_foreign_request_is_blocked_and_reported(canned, open_page, problems):
    _, found = opened(canned, open_page, problems, HEAD + '</head><body><img src="http://127.0.0.1:9/x.png" alt="">')

    assert any("CSP: img-src" in problem or "foreign request" in problem for problem in found)


def test_missing_script_is_reported(canned, open_page, problems):
    html = HEAD + '</head><body><script type="module" src="/static/nowhere.js"></script>'
    _, found = opened(canned, open_page, problems, html)

    assert any("404" in problem for problem in found)


def test_axe_reports_image_without_text_alternative(canned, open_page, problems, finds_nothing):
    page, found = opened(canned, open_page, problems, HEAD + "</head><body><main><h1>All</h1></main>")
    assert found == []
    finds_nothing(page)

    page, _ = opened(canned, open_page, problems, HEAD + '</head><body><main><h1>All</h1><img src="/p"></main>')
    problems.clear()
    with pytest.raises(AssertionError, match="image-alt"):
        finds_nothing(page)

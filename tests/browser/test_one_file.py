from __future__ import annotations

from pathlib import Path

import pytest

from browser.expecting import expect
from browser.incidents import HOSTILE, strangers
from kohort.console.exporting import exported, view_of
from kohort.console.page import ConsolePage
from kohort.console.recorded import RecordedSource, read_recording

RECORDING = Path(__file__).parents[2] / "docs" / "console" / "incidents.ndjson"
MOST_BYTES = 1_500_000


@pytest.fixture
def open_file(open_page, tmp_path):
    def open_it(source, group):
        path = tmp_path / "incident.html"
        path.write_text(ConsolePage().single_file(exported(source, group), view_of(group)))
        assert path.stat().st_size < MOST_BYTES
        return open_page("", at=path.as_uri(), offline=True)

    return open_it


def test_exported_page_opens_with_timeline(open_file):
    page = open_file(read_recording(RECORDING), "slow-handler")

    expect(page.get_by_role("heading", name="slow-handler")).to_be_visible()
    expect(page.locator(".timeline-chart")).to_be_visible()
    page.get_by_role("link", name="Rebalances", exact=True).click()
    expect(page.get_by_text("did not poll within max.poll.interval.ms").first).to_be_visible()
    page.get_by_role("link", name="Groups", exact=True).first.click()
    expect(page.get_by_role("link", name="slow-handler")).to_be_visible()
    assert page.locator("header img").evaluate("image => image.naturalWidth") > 0


def test_exported_page_shows_data_or_reason_for_missing_data_in_every_view(open_file):
    page = open_file(read_recording(RECORDING), "not-revoked")
    tabs = page.get_by_role("navigation").filter(has_text="Timeline").get_by_role("link")
    expect(tabs.first).to_be_visible()

    for place in range(tabs.count()):
        tabs.nth(place).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("not-revoked")
        expect(page.get_by_text("Loading …")).to_have_count(0)
    assert tabs.count() > 8
    expect(page.get_by_role("slider")).to_have_count(0)


def test_exported_page_shows_hostile_names_as_text(open_file):
    played = strangers()
    page = open_file(RecordedSource(played.entries, "hostile"), HOSTILE[0])

    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x onerror=")
    assert page.locator("main img").count() == 0

from __future__ import annotations

import pytest

from browser.expecting import expect
from browser.walk import cell, row_of, soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FAR = 120


class Keyboard:
    """Page that is used without a mouse."""

    def __init__(self, page):
        self.page = page

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text):
        self.page.keyboard.type(text)

    def tab_to(self, place):
        soon(place).to_be_visible()
        for _ in range(FAR):
            self.press("Tab")
            if place.evaluate("one => one === document.activeElement"):
                return
        raise AssertionError(f"Tab does not reach {place}")

    def open(self, place):
        self.tab_to(place)
        self.press("Enter")


@pytest.fixture
def stuck_group(cluster, refunds):
    crew, names = cluster.crew, [f"{refunds}-{number}" for number in (1, 2)]
    crew.join(names[0], refunds)
    slow = crew.join(names[1], refunds, max_poll_interval_ms=2_000)
    for name in names:
        crew.has(name, 2)
    slow.stand_still()
    crew.has(names[0], 4)
    return refunds


def test_incident_is_handled_by_keyboard_alone(cluster, open_page, finds_nothing, stuck_group):
    page = open_page("/groups", at=cluster.console)
    page.locator("[data-mode=live][data-stream=open]").wait_for()
    keyboard = Keyboard(page)
    finds_the_group(page, keyboard, stuck_group)
    sees_who_it_was(page, keyboard, stuck_group, cluster)
    looks_at_the_past(page, keyboard, stuck_group)
    for number in (1, 2):
        cluster.crew.leave(f"{stuck_group}-{number}")
    puts_offsets_right(page, keyboard, stuck_group)
    assert cluster.crew.committed(stuck_group) == {0: 10, 1: 10, 2: 0, 3: 10}
    keyboard.press("g", "g")
    soon(cell(row_of(page, "Groups", stuck_group), 4)).to_contain_text("104 partitions")
    finds_nothing(page)


def finds_the_group(page, keyboard, group):
    soon(row_of(page, "Groups", group)).to_be_visible()
    keyboard.press("/")
    keyboard.type(group)
    expect(page.locator("tbody th")).to_have_count(1)
    keyboard.press("Escape")
    expect(page.get_by_role("searchbox")).not_to_be_focused()
    assert page.get_by_role("searchbox").input_value() == group
    keyboard.tab_to(page.get_by_role("region", name="Groups, the worst first"))
    keyboard.press("ArrowDown", "Enter")
    soon(page.get_by_role("heading", level=1, name=group)).to_be_visible()


def sees_who_it_was(page, keyboard, group, cluster):
    keyboard.press("g", "r")
    rebalances = page.get_by_role("table", name="Rebalances")
    soon(rebalances.get_by_text("max poll exceeded" if cluster.is_ours else "member left").first).to_be_visible()
    keyboard.tab_to(page.get_by_role("region", name="Rebalances"))
    keyboard.press("ArrowDown", "Enter")
    soon(page.locator("p.lead")).to_contain_text(f"{group}-2")
    keyboard.open(page.get_by_role("button", name="Explain"))
    soon(page.locator(".explanation")).to_contain_text("Proof")
    keyboard.press("g", "l")
    chart = page.locator(".timeline-chart")
    keyboard.tab_to(chart)
    keyboard.press("End", "ArrowDown", "Enter")
    soon(page.get_by_role("heading", name="Moved partitions")).to_be_visible()
    keyboard.press("g", "a")
    keyboard.open(page.get_by_role("button", name=f"peek at the records of {group}-2"))
    look = page.get_by_role("region", name=f"records of {group}-2")
    soon(look).to_contain_text("Committed: 10.")
    keyboard.open(look.get_by_role("button", name="close"))
    expect(look).to_have_count(0)
    keyboard.press("g", "w")
    keyboard.tab_to(page.get_by_label("New members"))
    keyboard.type("1")
    keyboard.press("Enter")
    soon(page.get_by_text("Nothing was executed")).to_be_visible()


def looks_at_the_past(page, keyboard, group):
    keyboard.press("Escape")  # Escape leaves the text field
    keyboard.press("g", "m")
    soon(page.get_by_text("1 member.", exact=True)).to_be_visible()
    keyboard.open(page.get_by_role("button", name="Pause"))
    soon(page.locator("[data-mode=paused]")).to_be_visible()
    keyboard.tab_to(page.get_by_role("slider", name="moment that is shown"))
    keyboard.press("ArrowLeft")
    soon(page.locator("[data-mode=replay]")).to_be_visible()
    keyboard.open(page.get_by_role("button", name="Back to now"))
    soon(page.locator("[data-mode=live]")).to_be_visible()
    keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def puts_offsets_right(page, keyboard, group):
    keyboard.open(page.get_by_role("link", name="Offsets", exact=True))
    soon(page.get_by_text("in the group, so the coordinator rejects a reset")).to_have_count(0)
    keyboard.tab_to(page.get_by_label("Topic"))
    keyboard.press("ArrowDown")
    keyboard.press("Tab")
    keyboard.type("2")
    keyboard.press("Enter")
    soon(page.get_by_text("1 partition: no record is skipped, 10 records will be read again.")).to_be_visible()
    keyboard.tab_to(page.get_by_label(f"Type {group} to confirm"))
    keyboard.type(group)
    keyboard.press("Enter")
    soon(page.get_by_role("heading", name="Done")).to_be_visible()

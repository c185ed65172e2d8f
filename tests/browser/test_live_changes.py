from __future__ import annotations

import pytest

from browser import walk
from browser.expecting import expect
from browser.walk import cell, row_of, soon, tab

pytestmark = [pytest.mark.slow, pytest.mark.campaign, pytest.mark.timeout(300)]


def test_group_in_live_cluster_is_reset_as_planned_and_then_deleted(cluster, open_page, finds_nothing, refunds):
    page = open_page("/groups", at=cluster.console)
    soon(row_of(page, "Groups", refunds)).to_contain_text("Empty")
    page.get_by_role("link", name=refunds).first.click()
    tab(page, "Offsets", "Offsets, and other changes")

    page.get_by_label("Topic").select_option(refunds)
    page.get_by_label("Partitions").fill("0,3")
    page.get_by_role("button", name="Show the plan").click()
    soon(page.get_by_text("2 partitions: no record is skipped, 20 records will be read again.")).to_be_visible()
    command = f"kohort group reset-offsets {refunds} --topic {refunds}:0,3 --to-earliest --execute"
    expect(page.get_by_text(command)).to_be_visible()
    walk.is_sound(page, finds_nothing)
    assert cluster.crew.committed(refunds) == {0: 10, 1: 10, 2: 10, 3: 10}
    page.get_by_label(f"Type {refunds} to confirm").fill(refunds)
    page.get_by_role("button", name="Move the offsets").click()
    soon(page.get_by_role("heading", name="Done")).to_be_visible()
    assert cluster.crew.committed(refunds) == {0: 0, 1: 10, 2: 10, 3: 0}

    tab(page, "Partitions", "Partitions")
    for partition, lag in enumerate(("10", "0", "0", "10")):
        soon(cell(row_of(page, "Partitions", f"{refunds}-{partition}"), 5)).to_have_text(lag)
    tab(page, "Offsets", "Offsets, and other changes")
    page.get_by_role("button", name="Delete the group").click()
    page.get_by_role("button", name="Show the plan").click()
    page.get_by_label(f"Type {refunds} to confirm").fill(refunds)
    page.get_by_role("button", name="Delete the group").last.click()
    soon(page.get_by_role("heading", name="Done")).to_be_visible()
    walk.section(page, "Groups")
    soon(row_of(page, "Groups", refunds)).to_have_count(0)


def test_rejected_reset_in_live_cluster_shows_members_of_group(cluster, open_page, problems):
    group = cluster.classic
    page = open_page(f"/groups/{group}/offsets", at=cluster.console)
    soon(page.locator("p.warn-panel")).to_contain_text(f"{group}-1")
    before = cluster.crew.committed(group)

    page.get_by_role("button", name="Show the plan").click()
    page.get_by_label(f"Type {group} to confirm").fill(group)
    page.get_by_role("button", name="Move the offsets").click()

    soon(page.get_by_role("alert")).to_contain_text("cannot be reset while it has members")
    expect(page.get_by_role("alert")).to_contain_text("Stop its members")
    assert cluster.crew.committed(group) == before
    assert all("409" in problem for problem in problems)
    problems.clear()


def test_journal_of_live_cluster_shows_removed_member_and_reason(cluster, open_page):
    group = cluster.classic
    page = open_page(f"/groups/{group}/offsets?way=members", at=cluster.console)
    page.get_by_role("checkbox", name=f"{group}-2").check()
    page.get_by_label("Reason").fill("host is down")
    page.get_by_role("button", name="Show the plan").click()
    soon(page.get_by_text("1 member; their partitions go to other members.")).to_be_visible()
    before = set(cluster.crew.story_of(group))

    page.get_by_label(f"Type {group} to confirm").fill(group)
    page.get_by_role("button", name="Remove the members").click()

    soon(page.get_by_role("heading", name="Done")).to_be_visible()
    tab(page, "Rebalances", "Rebalances")
    if cluster.is_ours:
        removal = page.get_by_role("table", name="Rebalances").get_by_role("row").filter(has_text="admin removed").first
        soon(removal).to_contain_text(f"{group}-2")
        tab(page, "Events", "Events")
        soon(page.get_by_role("table", name="Events")).to_contain_text("host is down")
    for number in (1, 2):  # the process of the removed member still runs and joins again
        cluster.crew.has(f"{group}-{number}", 2)
    assert set(cluster.crew.story_of(group)) != before

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

from browser import walk
from browser.clusters import PARTITIONS, WAITING
from browser.expecting import expect
from browser.group_members import write
from browser.walk import cell, row_of, soon, tab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def opened(cluster, open_page):
    pages = []

    def open_it(path):
        page = open_page(path, at=cluster.console)
        page.locator("[data-mode=live][data-stream=open]").wait_for()
        page.evaluate("window.isTheSame = true")
        pages.append(page)
        return page

    yield open_it
    assert all(page.evaluate("window.isTheSame") for page in pages)


def happened(page, cause, name):
    rows = page.get_by_role("table", name="Rebalances").get_by_role("row")
    return rows.filter(has=page.locator(".cause", has_text=re.compile(f"^{cause}"))).filter(has_text=name).first


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.campaign), "consumer"])
def test_member_joins_departures_and_crashes_in_live_cluster_are_shown(cluster, opened, finds_nothing, protocol):
    group, crew = cluster.group(protocol), cluster.crew
    guest, doomed = f"{group}-guest", f"{group}-doomed"
    page = opened(f"/groups/{group}/members")
    soon(page.get_by_text("2 members.")).to_be_visible()

    crew.join(guest, group, protocol)
    soon(page.get_by_text("3 members.")).to_be_visible()
    soon(row_of(page, "Members,", guest)).to_contain_text(f"{group}-")
    tab(page, "Rebalances", "Rebalances")
    soon(happened(page, "new member", guest)).to_be_visible()

    crew.leave(guest)
    soon(happened(page, "member left", guest)).to_be_visible()
    tab(page, "Members", "Members")
    soon(page.get_by_text("2 members.")).to_be_visible()
    expect(row_of(page, "Members,", guest)).to_have_count(0)

    crew.come_and_be_killed(doomed, group, protocol)
    tab(page, "Rebalances", "Rebalances")
    death = happened(page, "(session timeout|member departed)", doomed)
    soon(death).to_be_visible()
    death.get_by_role("rowheader").get_by_role("link").click()
    soon(page.locator("p.lead")).to_contain_text(doomed)
    expect(page.locator(".advice").first).to_contain_text("What to do")
    walk.is_sound(page, finds_nothing)
    for number in (1, 2):
        crew.has(f"{group}-{number}", PARTITIONS // 2)


@pytest.mark.campaign
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_member_that_exceeds_max_poll_interval_in_live_cluster_is_shown(cluster, opened, protocol):
    group, crew = cluster.group(protocol), cluster.crew
    slow = f"{group}-slow"
    page = opened(f"/groups/{group}/rebalances")
    member = crew.join(slow, group, protocol, max_poll_interval_ms=3_000)
    soon(happened(page, "new member", slow)).to_be_visible()

    member.stand_still()
    if protocol == "classic" and cluster.is_ours:
        soon(happened(page, "max poll exceeded", slow)).to_be_visible()
    else:
        event = happened(page, "member left", slow)
        soon(event).to_be_visible()
        event.get_by_role("rowheader").get_by_role("link").click()
        page.get_by_role("button", name="Explain member left").click()
        soon(page.locator(".explanation")).to_contain_text("max poll exceeded")

    crew.leave(slow)
    for number in (1, 2):
        crew.has(f"{group}-{number}", PARTITIONS // 2)


def test_lag_of_live_cluster_is_updated(cluster, opened):
    page = opened("/groups")
    lag = cell(row_of(page, "Groups", cluster.idle), 4)
    soon(lag).to_contain_text(re.compile(r"^\d+"))
    before = int(re.match(r"\d+", lag.inner_text())[0])

    write(cluster.bootstrap, cluster.idle, 8)

    soon(lag).to_have_text(f"{before + 8}{PARTITIONS} partitions")
    page.get_by_role("link", name=cluster.idle).first.click()
    soon(page.locator("dl.cards > div").filter(has_text="Waited")).to_contain_text(re.compile(r"\d+(\.\d)? (s|min)"))
    soon(page.locator("dl.cards dd").filter(has_text="records").first).to_contain_text(str(before + 8))
    tab(page, "Partitions", "Partitions")
    soon(cell(row_of(page, "Partitions", f"{cluster.idle}-0"), 5)).to_have_text(str((before + 8) // PARTITIONS))
    assert before >= WAITING


def test_paused_view_is_restored_from_address(cluster, opened, open_page):
    group, crew = cluster.classic, cluster.crew
    late = f"{group}-late"
    page = opened(f"/groups/{group}/members")
    soon(page.get_by_text("2 members.")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-mode=paused]")).to_be_visible()

    crew.join(late, group)
    crew.has(late, 1)

    watching = opened("/groups")
    soon(cell(row_of(watching, "Groups", group), 3)).to_have_text("3")
    expect(page.get_by_text("2 members.")).to_be_visible()
    again = open_page(_path_of(page), at=cluster.console)
    soon(again.locator("[data-mode=replay]")).to_be_visible()
    soon(again.get_by_text("2 members.")).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    soon(page.get_by_text("3 members.")).to_be_visible()
    assert "at" not in parse_qs(urlsplit(page.url).query)
    crew.leave(late)
    soon(page.get_by_text("2 members.")).to_be_visible()
    for number in (1, 2):
        crew.has(f"{group}-{number}", PARTITIONS // 2)


@pytest.mark.campaign
def test_replayed_moment_is_restored_from_address(cluster, opened, open_page):
    group, guest = cluster.modern, f"{cluster.modern}-visitor"
    page = opened(f"/groups/{group}/rebalances")
    table = page.get_by_role("table", name="Rebalances")
    soon(table.locator("tbody tr").first).to_be_visible()
    first = _times_of(table)[-1]
    cluster.crew.join(guest, group, "consumer")
    soon(happened(page, "new member", guest)).to_be_visible()
    cluster.crew.leave(guest)
    soon(happened(page, "member left", guest)).to_be_visible()
    rows = table.locator("tbody tr").count()

    page.evaluate(
        "at => { history.replaceState(null, '', `?at=${at}`); dispatchEvent(new PopStateEvent('popstate')); }",
        first + 1,
    )
    soon(page.locator("[data-mode=replay]")).to_be_visible()
    soon(table.get_by_text(guest)).to_have_count(0)
    page.get_by_role("button", name="Play").click()
    page.get_by_label("Speed").select_option("60")
    soon(table.locator("tbody tr")).to_have_count(rows)
    soon(page.get_by_role("button", name="Play")).to_be_visible()  # the replay stops at the end
    shown = table.inner_text()

    again = open_page(_path_of(page), at=cluster.console)
    soon(again.get_by_role("table", name="Rebalances").locator("tbody tr")).to_have_count(rows)
    assert again.get_by_role("table", name="Rebalances").inner_text() == shown


def _path_of(page):
    return urlsplit(page.url)._replace(scheme="", netloc="").geturl()


def _times_of(table):
    script = "times => times.map(time => Date.parse(time.dateTime))"
    return table.locator("tbody tr td:first-child time").evaluate_all(script)

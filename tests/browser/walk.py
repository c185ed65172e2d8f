from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from browser.clusters import PARTITIONS, READ, WAITING, WatchedCluster
from browser.expecting import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PATIENCE_MS = 45_000
UNWRITTEN = re.compile(r"\bundefined\b|\bNaN\b|\[object|Invalid Date|could not be drawn")
LookForFaults = Callable[["Page"], None]


def soon(locator: Locator) -> Any:
    return _Soon(expect(locator))


class _Soon:
    def __init__(self, expected: Any) -> None:
        self._expected = expected

    def __getattr__(self, name: str) -> Any:
        return lambda *args: getattr(self._expected, name)(*args, timeout=PATIENCE_MS)


def tab(page: Page, title: str, heading: str) -> None:
    page.get_by_role("navigation", name="Views of this group").get_by_role("link", name=title, exact=True).click()
    soon(page.get_by_role("heading", name=heading).first).to_be_visible()


def section(page: Page, title: str, heading: str = "") -> None:
    page.get_by_role("navigation", name="Sections").get_by_role("link", name=title, exact=True).click()
    soon(page.get_by_role("heading", name=heading or title, level=1)).to_be_visible()


def is_sound(page: Page, finds_nothing: LookForFaults) -> None:
    expect(page.locator("#main .loading")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    found = UNWRITTEN.search(page.locator("#main").inner_text())
    assert found is None, f"{found[0]} at {page.url}" if found else ""
    finds_nothing(page)


def row_of(page: Page, table: str, name: str) -> Locator:
    return page.get_by_role("table", name=table).get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def cell(row: Locator, number: int) -> Locator:
    return row.locator("th, td").nth(number)


def the_list(page: Page, cluster: WatchedCluster, finds_nothing: LookForFaults) -> None:
    idle = row_of(page, "Groups", cluster.idle)
    soon(idle).to_contain_text("STOP")
    expect(cell(idle, 3)).to_have_text("0")
    expect(cell(idle, 4)).to_contain_text(str(WAITING))
    expect(page.locator("tbody tr").first).to_contain_text("STOP")
    for group in (cluster.classic, cluster.modern):
        row = row_of(page, "Groups", group)
        soon(row).to_contain_text("OK")
        expect(row).to_contain_text("Stable")
        expect(cell(row, 3)).to_have_text("2")
    is_sound(page, finds_nothing)


def one_group(page: Page, cluster: WatchedCluster, protocol: str, finds_nothing: LookForFaults) -> None:
    """Check all views of a group that has members, including its causes and events."""
    group = cluster.group(protocol)
    section(page, "Groups")
    page.get_by_role("rowheader", name=group).get_by_role("link").click()
    soon(page.get_by_role("heading", level=1, name=group)).to_be_visible()
    for look in (
        _overview,
        _timeline,
        _rebalances,
        _members,
        _partitions,
        _fenced,
        _causes,
        _what_if,
        _offsets,
        _events,
    ):
        look(page, cluster, group)
        is_sound(page, finds_nothing)


def _overview(page: Page, cluster: WatchedCluster, group: str) -> None:
    soon(page.get_by_role("heading", name="Why it rebalanced")).to_be_visible()
    cards = page.locator("dl.cards > div")
    soon(cards.filter(has_text="Members")).to_contain_text(f"{PARTITIONS} of {PARTITIONS} partitions owned")
    expect(cards.filter(has_text="Lag").locator("dd").first).to_contain_text("0")
    expect(cards.filter(has_text="State")).to_contain_text("stable")
    soon(page.locator(".latest li").first).to_contain_text(f"{group}-")


def _timeline(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Timeline", "Assignments over time")
    drawn = page.locator("section.timeline")
    for number in (1, 2):
        soon(drawn).to_contain_text(f"{group}-{number}")
    drawn.get_by_role("button", name="Partitions").click()
    expect(drawn).to_have_attribute("data-rows", str(PARTITIONS))
    drawn.get_by_role("button", name="Members").click()


def _rebalances(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Rebalances", "Rebalances")
    soon(page.get_by_role("table", name="Rebalances")).to_contain_text("group forming")
    page.get_by_role("table", name="Rebalances").get_by_role("rowheader").get_by_role("link").last.click()
    for heading in ("Moved partitions", "Phases", "Evidence"):
        soon(page.get_by_role("heading", name=heading)).to_be_visible()
    origin = "journal" if cluster.is_ours else "inferred"
    expect(page.locator("p.chips").get_by_text(origin, exact=True)).to_be_visible()
    expect(page.locator("p.chips")).to_contain_text("proven" if cluster.is_ours else "confidence")


def _members(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Members", "Members")
    expect(page.get_by_text("2 members.")).to_be_visible()
    for number in (1, 2):
        name = f"{group}-{number}"
        has = ", ".join(f"{group}-{partition}" for partition in sorted(cluster.crew.partitions_of(name)))
        expect(cell(row_of(page, "Members,", name), 3)).to_have_text(has)
    if group == cluster.modern:
        soon(page.get_by_text("All members are at the target.")).to_be_visible()


def _partitions(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Partitions", "Partitions")
    each = f"{READ // PARTITIONS}"
    for name in (f"{group}-1", f"{group}-2"):
        for partition in cluster.crew.partitions_of(name):
            row = row_of(page, "Partitions", f"{group}-{partition}")
            expect(cell(row, 2)).to_contain_text(name)
            for place, text in ((3, each), (4, each), (5, "0")):
                soon(cell(row, place)).to_have_text(text)
    page.get_by_role("button", name=f"peek at the records of {group}-0").click()
    look = page.get_by_role("region", name=f"records of {group}-0")
    soon(look).to_contain_text(f"Committed: {each}. The log reaches from 0 to {each}.")
    expect(look.get_by_role("row").last).to_contain_text("order 36")


def _fenced(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Fenced", "Rejected and suspicious requests")
    if cluster.is_ours:
        soon(page.get_by_text("No request was rejected in this time span.")).to_be_visible()
    else:
        soon(page.get_by_text("Rejected requests are not in this journal.")).to_be_visible()
        expect(page.get_by_role("img", name="unknown: the journal comes from kohort watch")).to_have_count(1)


def _causes(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Causes", "Causes")
    forming = row_of(page, "Rebalances by cause", "group forming")
    soon(cell(forming, 2)).to_have_text(re.compile("[1-9]"))
    forming.get_by_role("button", name="Explain").click()
    soon(page.locator(".explanation")).to_contain_text("Proof")


def _what_if(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "What-if", "What if")
    before = cluster.crew.story_of(group)
    page.get_by_label("New members").fill("2")
    page.get_by_role("button", name="Predict").click()
    board = page.get_by_role("region", name="Before and after", exact=True)
    soon(board).to_contain_text("Nothing was executed")
    expect(board.locator(".board-metric").filter(has_text="Members")).to_contain_text("+2")
    expect(page.get_by_role("table", name="Assignors compared")).to_contain_text("this one")
    assert cluster.crew.story_of(group) == before


def _offsets(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Offsets", "Offsets, and other changes")
    expect(page.locator("p.warn-panel")).to_contain_text("2 members are in the group, so the coordinator rejects")
    page.get_by_role("button", name="Show the plan").click()
    soon(page.get_by_text(f"{READ} records will be read again")).to_be_visible()
    assert sum(cluster.crew.committed(group).values()) == READ


def _events(page: Page, cluster: WatchedCluster, group: str) -> None:
    tab(page, "Events", "Events")
    rows = page.get_by_role("table", name="Events").locator("tbody tr")
    soon(rows.first).to_be_visible()
    expect(page.get_by_text("inferred", exact=True)).to_have_count(0 if cluster.is_ours else rows.count())
    rows.first.get_by_role("button").click()
    expect(page.get_by_role("group", name="the entry")).to_contain_text("{")


def the_cluster(page: Page, cluster: WatchedCluster, finds_nothing: LookForFaults) -> None:
    """Check the views of the cluster: doctor, causes, topics with their records, brokers, pipelines."""
    for look in (_doctor, _all_causes, _topics, _brokers, _pipelines):
        look(page, cluster)
        is_sound(page, finds_nothing)


def _doctor(page: Page, cluster: WatchedCluster) -> None:
    section(page, "Doctor")
    finding = page.locator("ul.findings > li").filter(has_text=cluster.idle)
    soon(finding).to_contain_text("no member reads")
    expect(finding).to_contain_text("start the group's members")


def _all_causes(page: Page, cluster: WatchedCluster) -> None:
    section(page, "Causes")
    stable = page.get_by_role("table", name="Share of time that groups were stable")
    for group in (cluster.classic, cluster.modern):
        soon(stable.get_by_role("rowheader", name=group)).to_be_visible()


def _topics(page: Page, cluster: WatchedCluster) -> None:
    section(page, "Topics")
    table = page.get_by_role("table", name="Topics")
    soon(table).to_contain_text(cluster.idle)
    expect(table).not_to_contain_text("__consumer_offsets")
    page.get_by_label("show internal topics").check()
    expect(table).to_contain_text("__consumer_offsets")
    page.get_by_role("rowheader").get_by_role("link", name=cluster.idle).click()
    row = row_of(page, "Partitions", "3")
    soon(cell(row, 5)).to_have_text(f"{(READ + WAITING) // PARTITIONS}")
    cards = page.locator("dl.cards > div")
    soon(cards.filter(has_text="Size")).to_contain_text(re.compile("[0-9] (B|KiB)"))
    soon(cards.filter(has_text="Written")).to_contain_text("0/s")
    views = page.get_by_role("navigation", name="Views of this topic")
    views.get_by_role("link", name="Groups").click()
    soon(cell(row_of(page, "Groups", cluster.idle), 2)).to_have_text(str(WAITING))
    views.get_by_role("link", name="Configuration").click()
    soon(page.get_by_role("table", name="Options")).to_contain_text("retention.ms")
    views.get_by_role("link", name="Partitions").click()
    page.get_by_role("link", name="records of partition 3").click()
    records = page.get_by_role("table", name="Records")
    soon(records).to_contain_text("order 3")
    page.get_by_label("Contains").fill("ORDER 7")
    page.get_by_role("button", name="Search", exact=True).click()
    soon(page.get_by_text(re.compile("match(es)? in 15 records"))).to_be_visible()


def _brokers(page: Page, cluster: WatchedCluster) -> None:
    section(page, "Brokers", "Brokers and coordination")
    nodes = page.get_by_role("table", name="Nodes")
    soon(nodes).to_contain_text(cluster.bootstrap)
    for group in (cluster.classic, cluster.modern, cluster.idle):
        soon(nodes).to_contain_text(group)
    # JMX metrics of a node: delay of its event loop, time to load groups
    elsewhere = nodes.get_by_role("img", name="only by JMX")
    expect(elsewhere).to_have_count(0 if cluster.is_ours else 2)


def _pipelines(page: Page, cluster: WatchedCluster) -> None:
    section(page, "Pipelines")
    soon(page.get_by_text("This console shows no pipeline.")).to_be_visible()

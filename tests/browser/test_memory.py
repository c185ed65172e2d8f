from __future__ import annotations

import pytest

from browser.lively import changed_status, make_live, many_groups, serve_groups, status_of, wide_status

pytestmark = pytest.mark.slow
VIEWS = (
    "overview",
    "timeline",
    "rebalances",
    "members",
    "partitions",
    "fenced",
    "causes",
    "what-if",
    "offsets",
    "events",
)
ROUND = (*(f"/groups/checkout/{view}" for view in VIEWS), "/doctor", "/causes", "/topics", "/brokers", "/groups")
NODES_MORE, LISTENERS_MORE = 50, 5
NODES_OF_VIEW, LISTENERS_OF_VIEW = 10, 1
MIB = 1 << 20


def grew(before, after):
    return {name: after[name] - before[name] for name in before}


def test_change_of_views_leaks_no_dom_nodes_or_listeners(canned, open_page):
    from soak.tabs import Tab

    make_live(canned)
    tab = Tab(open_page("/groups"), canned.address, "/groups")

    def go_round():
        for path in ROUND:
            tab.go(path)
            tab.page.locator(f"nav a[aria-current=page][href='{path}']").wait_for()
            canned.push("group", {"status": status_of("checkout")})
        tab.page.get_by_role("heading", name="Groups").wait_for()

    for _ in range(3):  # the first three rounds fill caches: elements of templates, answers of visited views
        go_round()
    before = tab.counts()
    for _ in range(4):
        go_round()
    more = grew(before, tab.counts())

    assert more["nodes"] <= 4 * len(ROUND) * NODES_OF_VIEW
    assert more["listeners"] <= 4 * len(ROUND) * LISTENERS_OF_VIEW


def test_events_of_created_and_deleted_groups_leak_nothing(canned, open_page):
    from soak.tabs import Tab

    make_live(canned)
    serve_groups(canned, many_groups(20))
    tab = Tab(open_page("/groups"), canned.address, "/groups")
    tab.page.locator("[data-stream=open]").wait_for()
    tab.page.get_by_text("2 groups of 20 need attention.").wait_for()
    row = many_groups(1)[0]

    def hear(first, last):
        for n in range(first, last):
            name = f"guest-{n}-{'x' * 20_000}"
            guest = {**row, "group": name, "health": "STORM"}
            canned.push("groups", {"groups": [guest], "trends": {name: [1, 2, 3] * 20}, "deleted": []})
            canned.push("groups", {"groups": [], "trends": {}, "deleted": [name]})
        canned.push("groups", {"groups": [{**row, "reason": f"heard {last} of them"}], "trends": {}, "deleted": []})
        tab.page.get_by_text(f"heard {last} of them").first.wait_for(timeout=60_000)

    hear(0, 20)
    before = tab.counts()
    hear(20, 220)
    more = grew(before, tab.counts())

    assert more["nodes"] <= NODES_MORE
    assert more["listeners"] <= LISTENERS_MORE
    assert more["heap"] < 2 * MIB  # the names of the groups alone take 4 MiB


def test_events_of_group_with_many_members_leak_nothing(canned, open_page):
    from soak.tabs import Tab

    make_live(canned)
    status = wide_status(200, 1000)
    canned.answers["/api/v1/groups/checkout"] = lambda _: {"schema": "kohort/v1/group.status", "status": status}
    tab = Tab(open_page("/groups"), canned.address, "/groups/checkout/partitions")
    tab.page.locator("[data-stream=open]").wait_for()
    tab.page.get_by_text(status["sentence"]).wait_for()

    def hear(first, last):
        for look in range(first, last):
            new_status = {**changed_status(status, look), "sentence": f"It was looked at {look} times."}
            canned.push("group", {"status": new_status})
        tab.page.get_by_text(f"looked at {last - 1} times").wait_for(timeout=60_000)

    hear(0, 5)
    before = tab.counts()
    hear(5, 25)
    more = grew(before, tab.counts())

    assert more["nodes"] <= NODES_MORE
    assert more["listeners"] <= LISTENERS_MORE
    assert more["heap"] < 4 * MIB

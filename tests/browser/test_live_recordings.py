from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from browser import walk
from browser.expecting import expect
from browser.walk import PATIENCE_MS, row_of, soon, tab
from kohort.cli.main import main
from support.processes.console_process import console_process

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def output_of(*words):
    done = CliRunner().invoke(main, list(words), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(params=["events", pytest.param("store", marks=pytest.mark.campaign)])
def recording(request, cluster, tmp_path):
    group, guest = cluster.modern, f"{cluster.modern}-guest"
    cluster.crew.join(guest, group, "consumer")
    cluster.crew.has(guest, 1)
    cluster.crew.leave(guest)
    for number in (1, 2):
        cluster.crew.has(f"{group}-{number}", 2)
    where = ("--bootstrap", cluster.bootstrap)
    if request.param == "events":
        path = tmp_path / "incident.ndjson"
        path.write_text(output_of("group", "events", group, *where, "--output", "ndjson"))
    else:
        path = tmp_path / "watched.sqlite"
        output_of("watch", "--once", "--store", str(path), *where)
    return path


@pytest.mark.parametrize("cluster", ["ours"], indirect=True, scope="module")
def test_recorded_incident_is_shown_in_all_views(cluster, open_page, finds_nothing, recording):
    group = cluster.modern
    why = json.loads(
        output_of("group", "why", group, "--last", "0", "--bootstrap", cluster.bootstrap, "--output", "json")
    )
    with console_process("console", "--recording", str(recording), "--listen", "127.0.0.1:0") as console:
        page = open_page("/", at=console.url)
        expect(page.locator("[data-mode=recorded]")).to_be_visible(timeout=PATIENCE_MS)
        row = row_of(page, "Groups", group)
        soon(row).to_contain_text("2")
        expect(row.get_by_role("img", name="unknown: the lag is unknown").first).to_be_visible()
        walk.is_sound(page, finds_nothing)
        row.get_by_role("link").click()
        soon(page.get_by_role("heading", level=1, name=group)).to_be_visible()
        expect(page.get_by_text("No lag in this time span.")).to_be_visible()
        walk.is_sound(page, finds_nothing)
        rebalances_are_those_that_were(page, group, why["rebalances"])
        walk.is_sound(page, finds_nothing)
        the_other_views(page, group, finds_nothing)
        what_needs_a_cluster_says_so(page, finds_nothing)


def rebalances_are_those_that_were(page, group, rebalances):
    tab(page, "Rebalances", "Rebalances")
    rows = page.get_by_role("table", name="Rebalances").locator("tbody tr")
    real = [one for one in rebalances if one["end"] != "no_rebalance"]
    expect(
        page.get_by_text(f"{len(real)} rebalances in this time span, of {len(real)} in the journal.")
    ).to_be_visible()
    causes = [text.strip() for text in rows.locator(".cause").all_inner_texts()]
    expected_causes = [one["cause"].replace("_", " ").lower() for one in reversed(real)]
    assert [cause for cause in causes if cause in expected_causes] == expected_causes
    rows.filter(has_text="member left").filter(has_text=f"{group}-guest").get_by_role("link").first.click()
    soon(page.get_by_role("heading", name="Moved partitions")).to_be_visible()


def the_other_views(page, group, finds_nothing):
    views = {
        "Timeline": "Assignments over time",
        "Members": "Members",
        "Partitions": "Partitions",
        "Fenced": "Rejected and suspicious requests",
        "Causes": "Causes",
        "What-if": "What if",
        "Offsets": "Offsets, and other changes",
        "Events": "Events",
    }
    for title, heading in views.items():
        tab(page, title, heading)
        if title == "Timeline":
            expect(page.locator("section.timeline")).to_contain_text(f"{group}-guest")
        if title == "Partitions":
            unknown = page.get_by_role("table", name="Partitions").get_by_role("img", name="unknown").first
            expect(unknown).to_be_visible()
        if title == "What-if":
            page.get_by_label("New members").fill("1")
            page.get_by_role("button", name="Predict").click()
            soon(page.get_by_text("Nothing was executed")).to_be_visible()
        if title == "Offsets":
            expect(page.get_by_text("A recording cannot be changed.")).to_be_visible()
        walk.is_sound(page, finds_nothing)


def what_needs_a_cluster_says_so(page, finds_nothing):
    for title, heading in {"Doctor": "Doctor", "Causes": "Causes", "Pipelines": "Pipelines"}.items():
        walk.section(page, title, heading)
        walk.is_sound(page, finds_nothing)
    for title in ("Topics", "Brokers"):
        page.get_by_role("navigation", name="Sections").get_by_role("link", name=title, exact=True).click()
        soon(page.get_by_text("A recording has no cluster")).to_be_visible()
        walk.is_sound(page, finds_nothing)

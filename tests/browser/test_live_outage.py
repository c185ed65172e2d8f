from __future__ import annotations

import re

import pytest

import kohort
from browser.expecting import expect
from browser.group_members import read_all, write
from browser.walk import UNWRITTEN, soon
from support.processes.console_process import console_process
from support.processes.served_broker import Served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
HEALTHY = re.compile(r"needs? (no )?attention|nothing is wrong|No rule found|all up|\bOK\b|\bSTOP\b", re.IGNORECASE)
PRESENT = ("groups", "doctor", "topics", "brokers")
TABS = ("overview", "members", "partitions", "what-if", "offsets")
REFUSED = "Failed to load resource"


@pytest.fixture
def site(tmp_path, chromium):
    data = tmp_path / "data"
    broker = Served(data=data)
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"orders": 4})
    write(broker.bootstrap, "orders", 40)
    read_all(broker.bootstrap, "orders", 40)
    words = ["console", "--bootstrap", broker.bootstrap, "--listen", "127.0.0.1:0", "--interval", "1"]
    with console_process(*words, "--output", "ndjson") as console:
        yield broker, data, console.url
    broker.process.poll() is None and broker.stop()


def test_every_view_is_unknown_between_kill_and_restart_of_broker(site, open_page, problems, finds_nothing):
    broker, data, console = site
    page = open_page("/groups", at=console)
    soon(page.get_by_text("1 group; none needs attention.")).to_be_visible()

    broker.kill()

    banner = page.locator("[data-outage=cluster]")
    soon(banner).to_contain_text("The cluster has not answered since")
    assert_unknown(page, "/groups")
    expect(page.locator("[data-mode=live]")).to_contain_text("NO ANSWER")
    expect(page.get_by_role("row").filter(has_text="orders").get_by_role("img", name="unknown")).not_to_have_count(0)
    expect(page.locator(".counts b .unknown").first).to_be_visible()
    finds_nothing(page)
    for path in [*(f"/{name}" for name in PRESENT[1:]), *(f"/groups/orders/{tab}" for tab in TABS)]:
        page.goto(console + path)
        soon(banner).to_be_visible()
        expect(page.locator("[data-unknown]").first).to_be_visible()
        assert_unknown(page, path)
    page.goto(console + "/groups")
    soon(banner).to_be_visible()

    with Served("--listen", broker.bootstrap, data=data):
        soon(banner).to_have_count(0)
        soon(page.get_by_text("1 group; none needs attention.")).to_be_visible()
        expect(page.locator("[data-mode=live]")).to_contain_text("LIVE")
        for path in (f"/{name}" for name in PRESENT):
            page.goto(console + path)
            expect(page.locator("#main .loading")).to_have_count(0)
            expect(page.locator("[data-unknown]")).to_have_count(0)
    problems[:] = [one for one in problems if REFUSED not in one]


def assert_unknown(page, path):
    text = page.locator("#main").inner_text()
    found = HEALTHY.search(text)
    assert found is None, f"{found[0]} at {path}: {text}"
    assert "nknown" in text
    assert UNWRITTEN.search(text) is None, text

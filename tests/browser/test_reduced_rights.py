"""Console views of a user with DESCRIBE on one topic and one group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kohort
from browser.expecting import expect
from kohort import AclBinding
from kohort.cli.serve.console import ConsoleFlags, console_settings
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.console.page import STATIC
from support.console_client import console, live
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS


@pytest.fixture
def secured(chromium) -> Iterator[str]:
    """Address of a console with logins: topics seen and hidden, groups open and secret."""
    with kohort.Broker(ASKS_FOR_RIGHTS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"seen": 1, "hidden": 1})
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for topic in ("seen", "hidden"):
                producer.send(topic, b"x")
            producer.flush(60_000)
        for group in ("open", "secret"):
            offsets = {kohort.TopicPartition(topic, 0): 0 for topic in ("seen", "hidden")}
            admin.alter_group_offsets(group, offsets)
        admin.create_acls(AclBinding(kind, name, "User:alice", "describe") for kind, name in RIGHTS)
        access = ClusterAccess({"bootstrap.servers": broker.bootstrap_of("SASL"), **AS_ALICE})
        _, options = console_settings(ConsoleFlags(login="cluster"), "127.0.0.1:0", "--listen", access)
        with console(live(broker, interval_s=1.0), STATIC, options) as client:
            yield f"http://{client.address}"


RIGHTS = (("topic", "seen"), ("group", "open"))


def logged_in(open_page, secured, path):
    page = open_page(path, at=secured)
    page.get_by_label("Name").fill("alice")
    page.get_by_label("Password").fill("a-secret")
    page.get_by_role("button", name="Log in").click()
    return page


def test_user_sees_described_topic_and_reasons_of_unknown_values(secured, open_page, finds_nothing):
    page = logged_in(open_page, secured, "/topics")
    table = page.get_by_role("table", name="Topics")
    expect(table.get_by_role("rowheader")).to_have_text(["seen"])
    expect(table.get_by_role("link", name="open", exact=True)).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("hidden")
    expect(page.locator("main")).not_to_contain_text("secret")
    expect(table.get_by_role("img", name="unknown: the user lacks DESCRIBE on the cluster")).to_have_count(1)
    finds_nothing(page)

    table.get_by_role("link", name="seen").click()
    row = page.get_by_role("table", name="Partitions").locator("tbody tr")
    expect(row).to_contain_text("1")
    views = page.get_by_role("navigation", name="Views of this topic")
    views.get_by_role("link", name="Groups").click()
    expect(page.get_by_role("table", name="Groups").get_by_role("rowheader")).to_have_text(["open"])
    views.get_by_role("link", name="Configuration").click()
    expect(page.get_by_text("Unknown: the user lacks DESCRIBE_CONFIGS on the topic.")).to_be_visible()
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Brokers").click()
    reason = "unknown: the user lacks DESCRIBE on the cluster"
    expect(page.get_by_role("table", name="Nodes").get_by_role("img", name=reason).first).to_be_visible()


@pytest.mark.parametrize("path", ["/topics/seen/records", "/topics/hidden", "/topics/hidden/records", "/groups/secret"])
def test_user_without_right_sees_error_and_no_data(secured, open_page, problems, path):
    page = logged_in(open_page, secured, path)

    expect(page.get_by_role("alert").first).to_be_visible()
    expect(page.locator("main tbody tr")).to_have_count(0)
    assert all("403" in problem or "404" in problem for problem in problems)
    problems.clear()

from __future__ import annotations

import json
import os
import re
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort
from kohort.cli.demo import DemoConsole, wait_for_enter
from kohort.demo.group import GROUP

HOSTILE = "</script><script>alert(1)</script>"
MOST_BYTES = 1_500_000


@pytest.fixture
def broker() -> Iterator[kohort.Broker]:
    with kohort.Broker(group_initial_rebalance_delay_ms=0) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"flights": 2})
        options = {"bootstrap_servers": broker.bootstrap, "group_id": GROUP, "heartbeat_interval_ms": 100}
        with (
            kohort.Consumer(options | {"client_id": "member-1"}) as first,
            kohort.Consumer(options | {"client_id": HOSTILE}) as second,
        ):
            first.subscribe(["flights"])
            second.subscribe(["flights"])
            for _ in range(1000):
                first.poll(20)
                second.poll(20)
                if len(first.assignment()) == len(second.assignment()) == 1:
                    break
        yield broker


def last_entry_ms(broker: kohort.Broker) -> int:
    from kohort.demo.group import DemoJournal

    journal = DemoJournal(broker.bootstrap, GROUP)
    try:
        return journal.read_all()[-1].at_ms
    finally:
        journal.close()


def played(broker: kohort.Broker, beside: DemoConsole) -> None:
    try:
        beside.broker_started(broker.bootstrap)
        beside.group_finished(last_entry_ms(broker))
        beside.done()
    finally:
        beside.end()


def carried(html: str) -> dict:
    return json.loads(re.search(r'id="kohort-data">(.*?)</script>', html).group(1))


def test_demo_writes_page_with_timeline_of_group(broker: kohort.Broker, tmp_path: Path) -> None:
    lines: list[str] = []
    page = tmp_path / "build" / "demo.html"
    played(broker, DemoConsole(GROUP, lines.append, page=page))

    html = page.read_text()
    reported = carried(html)
    assert page.stat().st_size < MOST_BYTES
    assert reported["/cluster"]["title"] == "kohort demo"
    assert {lane["member"]["client_id"] for lane in reported[f"/groups/{GROUP}/timeline"]["timeline"]["lanes"]} == {
        "member-1", HOSTILE,
    }  # fmt: skip
    causes = [this["cause"] for this in reported[f"/groups/{GROUP}/rebalances"]["rebalances"]]
    assert (causes[0], causes[-1]) == ("GROUP_FORMING", "MEMBER_LEFT"), (
        "all rebalances, from the first join to the last leave"
    )
    assert reported[f"/groups/{GROUP}"]["status"]["state"] == "Empty", "the state after all members left"
    assert f'"#/groups/{GROUP}/timeline"' in html, "the page opens with the timeline"
    assert "<script>alert" not in html
    assert lines == [f"page of the group {GROUP}: {page}"]


def test_demo_console_runs_until_enter(broker: kohort.Broker) -> None:
    lines: list[str] = []
    answers = []

    def look() -> None:
        url = re.search(r"http://[^/]+", lines[-1]).group()
        with urllib.request.urlopen(f"{url}/api/v1/groups/{GROUP}/rebalances") as answer:
            answers.append(json.load(answer)["rebalances"][0]["cause"])

    played(broker, DemoConsole(GROUP, lines.append, console=True, stay=look))

    assert answers == ["GROUP_FORMING"]
    assert lines[0].startswith("groups of the demo, in a browser: http://127.0.0.1:")
    assert lines[1].endswith(f"/groups/{GROUP}/timeline")
    assert not [t for t in threading.enumerate() if t.name.startswith("kohort-console")], (
        "all threads of the console ended"
    )


def test_ctrl_c_ends_demo_console_but_keeps_result(broker: kohort.Broker) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    played(broker, DemoConsole(GROUP, lambda _: None, console=True, stay=interrupted))


def test_demo_waits_until_enter_or_end_of_input() -> None:
    ours, theirs = os.openpty()
    os.write(ours, b"\n")
    wait_for_enter(theirs, at_most_s=60)
    os.close(ours)
    wait_for_enter(theirs, at_most_s=60)
    os.close(theirs)


def test_demo_without_console_extra_still_writes_page(
    broker: kohort.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] in ("starlette", "uvicorn")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("kohort.console.app", "kohort.console.serving"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "starlette", None)
    page = tmp_path / "demo.html"
    played(broker, DemoConsole(GROUP, lambda _: None, page=page, console=True))

    reported = capsys.readouterr().err
    assert reported.count("kohort demo:") == 1
    assert "pip install 'kohort[console]'" in reported
    assert "GROUP_FORMING" in page.read_text()


def test_demo_continues_if_page_cannot_be_written(
    broker: kohort.Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    lines: list[str] = []
    played(broker, DemoConsole(GROUP, lines.append, page=tmp_path / "file" / "demo.html"))

    assert lines == []
    assert "was not written" in capsys.readouterr().err

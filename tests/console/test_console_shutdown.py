import threading

from kohort.console import journal
from support.console_client import console, live


def test_end_of_console_wakes_requests_that_wait_for_journal(orders, broker, folder, monkeypatch):
    monkeypatch.setattr(journal, "WAIT_MS", 600_000)
    with console(live(broker), folder) as client:
        client.get(f"/groups/{orders}/rebalances")

    assert "kohort-console-journal" not in {thread.name for thread in threading.enumerate()}

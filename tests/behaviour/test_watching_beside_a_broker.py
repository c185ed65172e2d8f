"""Another cluster watched on a thread: over failures, which are told seldom, to an orderly end; and on a page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition
from kohort.watch.background import BackgroundWatch, watching_beside
from kohort.watch.opening import WatchClients, WatchSettings
from support.waiting import eventually

pytestmark = pytest.mark.ours


@contextmanager
def member(address: str, group: str):
    """A member that has its partitions, closed at the end."""
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({group: 2})
    with kohort.Consumer(bootstrap_servers=address, group_id=group) as one:
        one.subscribe([group])
        eventually(lambda: one.poll(20) is not None and one.assignment(), pause_s=0)
        yield one


def a_watch(address: str, folder: Path, **options) -> tuple[BackgroundWatch, list[str], list[str]]:
    """A watch that has not begun, what it tells, and the causes that it finds."""
    said: list[str] = []
    causes: list[str] = []
    clients = WatchClients(
        lambda: kohort.Admin(bootstrap_servers=address, request_timeout_ms=2_000),
        lambda given: kohort.Consumer(given, bootstrap_servers=address),
    )
    settings = WatchSettings(interval_s=0.2, store=folder / "w.sqlite", **options)
    watch = BackgroundWatch(clients, address, settings, tell=said.append, told=lambda this: causes.append(this.cause))
    return watch, said, causes


def test_what_comes_is_found_while_the_block_runs_and_kept(tmp_path):
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        watch, said, causes = a_watch(broker.bootstrap, tmp_path)
        with member(broker.bootstrap, "before"), watching_beside(watch):
            eventually(lambda: watch.view.is_up)
            with member(broker.bootstrap, "after"):
                eventually(lambda: "GROUP_FORMING" in causes)
            seen = watch.view
        assert seen.rebalances["after", "GROUP_FORMING"] == 1
        assert seen.groups >= 1
        assert seen.records > 0
        assert (seen.failures, said) == (0, [])
        assert not watch.view.is_up

        again, said, causes = a_watch(broker.bootstrap, tmp_path)
        with watching_beside(again):  # the first has let go of its file
            eventually(lambda: again.view.is_up)
        assert said == []


def test_a_cluster_that_goes_is_told_once_and_watched_again_when_it_is_back(tmp_path):
    with kohort.Broker() as first:
        port = first.port
    watch, said, _ = a_watch(f"127.0.0.1:{port}", tmp_path)
    with watching_beside(watch):
        eventually(lambda: watch.view.failures >= 2)
        assert len(said) == 1
        assert "cannot be watched" in said[0]
        assert not watch.view.is_up
        with kohort.Broker(listen=f"127.0.0.1:{port}") as broker:
            with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.create_topics({"t": 1})
                admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0)})
            eventually(lambda: watch.view.is_up)
            assert watch.view.groups == 1
            assert len(said) == 1
        last_ms = watch.view.until_ms
        eventually(lambda: len(said) == 2)
    assert "groups cannot be looked at" in said[1], "and that, too, once"
    assert watch.view.until_ms - last_ms < 1_000, "what nobody heard of is not watched"


def test_a_file_that_somebody_else_writes_is_a_failure_like_any_other(tmp_path):
    with kohort.Broker() as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"t": 1})
            admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0)})
        one, _, _ = a_watch(broker.bootstrap, tmp_path)
        two, said, _ = a_watch(broker.bootstrap, tmp_path)
        with watching_beside(one):
            eventually(lambda: one.view.is_up)
            with watching_beside(two):
                eventually(lambda: said)
            assert "another watcher keeps the journal of this cluster" in said[0]


def test_serve_watches_another_cluster_and_shows_it_on_its_page(tmp_path):
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0}) as other:
        command = [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", "--output", "json"]
        command += ["--metrics", "127.0.0.1:0", "--watch", other.bootstrap, "--watch-store", str(tmp_path / "w.sqlite")]
        serving = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert serving.stdout is not None
            ready = json.loads(serving.stdout.readline())

            def rows() -> dict[str, float]:
                with urllib.request.urlopen(ready["metrics"], timeout=30) as page:
                    lines = page.read().decode().splitlines()
                return {
                    name: float(value)
                    for name, _, value in (line.rpartition(" ") for line in lines if line.startswith("kohort_watch_"))
                }

            where = f'watched="{other.bootstrap}"'
            assert rows()[f"kohort_watch_up{{{where}}}"] in (0.0, 1.0)
            with member(other.bootstrap, "orders"):
                formed = f'kohort_watch_rebalances_total{{cause="GROUP_FORMING",group="orders",{where}}}'
                eventually(lambda: rows().get(formed) == 1, pause_s=0.5)
            assert rows()[f"kohort_watch_up{{{where}}}"] == 1
            serving.send_signal(signal.SIGTERM)
            log = serving.communicate(timeout=60)[1]
        finally:
            serving.kill()
            serving.communicate()
        assert serving.returncode == 0, log
        assert "GROUP_FORMING" in log

        why = [sys.executable, "-m", "kohort", "group", "why", "orders", "--bootstrap", other.bootstrap]
        told = subprocess.run(
            [*why, "--last", "0", "--output", "json", "--store", str(tmp_path / "w.sqlite")],
            capture_output=True,
            check=True,
            env=os.environ,
        )
    assert json.loads(told.stdout)["rebalances"][0]["cause"] == "GROUP_FORMING"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--watch-config", "{file}"), "names no bootstrap.servers: add --watch HOST:PORT"),
        (("--watch", "nowhere"), "nowhere"),
    ],
)
def test_options_that_do_not_fit_are_told_before_anything_is_served(words, said, tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("client.id=x\n")
    words = [word.format(file=file) for word in words]
    found = subprocess.run(
        [sys.executable, "-m", "kohort", "serve", "--listen", "127.0.0.1:0", *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 2, found.stderr
    assert said in found.stderr

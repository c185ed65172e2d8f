from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest

import kohort
from kohort import OffsetAndMetadata, TopicPartition
from kohort.watch.background import BackgroundWatch, watching_in_background
from kohort.watch.opening import WatchClients, WatchSettings
from support.waiting import eventually

pytestmark = pytest.mark.ours


@contextmanager
def member(address: str, group: str):
    with kohort.Admin(bootstrap_servers=address) as admin:
        admin.create_topics({group: 2})
    with kohort.Consumer(bootstrap_servers=address, group_id=group) as one:
        one.subscribe([group])
        eventually(lambda: one.poll(20) is not None and one.assignment(), pause_s=0)
        yield one


def a_watch(address: str, folder: Path, **options) -> tuple[BackgroundWatch, list[str], list[tuple[str, str]]]:
    messages: list[str] = []
    causes: list[tuple[str, str]] = []
    clients = WatchClients(
        lambda: kohort.Admin(bootstrap_servers=address, request_timeout_ms=2_000),
        lambda message: kohort.Consumer(message, bootstrap_servers=address),
    )
    settings = WatchSettings(interval_s=0.2, store=folder / "w.sqlite", **options)
    watch = BackgroundWatch(
        clients, address, settings, log=messages.append, report=lambda found: causes.append((found.group, found.cause))
    )
    return watch, messages, causes


def test_background_watch_reports_new_rebalances_and_resumes_from_its_file(tmp_path):
    with kohort.Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        watch, messages, causes = a_watch(broker.bootstrap, tmp_path)
        with member(broker.bootstrap, "before"), watching_in_background(watch):
            eventually(lambda: watch.view.is_up)
            with member(broker.bootstrap, "after"):
                eventually(lambda: ("after", "GROUP_FORMING") in causes)
            view = watch.view
        assert causes.count(("after", "GROUP_FORMING")) == 1
        assert view.groups >= 1
        assert view.records > 0
        assert (view.failures, messages) == (0, [])
        assert not watch.view.is_up

        again, messages, causes = a_watch(broker.bootstrap, tmp_path)
        with watching_in_background(again):
            eventually(lambda: again.view.is_up)
        assert messages == []


def test_unreachable_cluster_is_reported_once_and_watched_again_after_its_return(tmp_path):
    with kohort.Broker() as first:
        port = first.port
    watch, messages, _ = a_watch(f"127.0.0.1:{port}", tmp_path)
    with watching_in_background(watch):
        eventually(lambda: watch.view.failures >= 2)
        assert len(messages) == 1
        assert "cannot watch" in messages[0]
        assert not watch.view.is_up
        with kohort.Broker(listen=f"127.0.0.1:{port}") as broker:
            with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
                admin.create_topics({"t": 1})
                admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0)})
            eventually(lambda: watch.view.is_up)
            assert watch.view.groups == 1
            assert len(messages) == 1
        last_ms = watch.view.until_ms
        eventually(lambda: len(messages) == 2)
    assert "cannot poll group states" in messages[1], "a second kind of failure is reported once, too"
    assert watch.view.until_ms - last_ms < 1_000, "until_ms stays at the last answer"


def test_journal_file_of_another_watcher_is_reported(tmp_path):
    with kohort.Broker() as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics({"t": 1})
            admin.alter_group_offsets("g", {TopicPartition("t", 0): OffsetAndMetadata(0)})
        one, _, _ = a_watch(broker.bootstrap, tmp_path)
        two, messages, _ = a_watch(broker.bootstrap, tmp_path)
        with watching_in_background(one):
            eventually(lambda: one.view.is_up)
            with watching_in_background(two):
                eventually(lambda: messages)
            assert "another watcher uses the journal of this cluster" in messages[0]

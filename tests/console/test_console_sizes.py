import asyncio
import gc
import json
from typing import Any

import pytest
from msgspec.structs import replace

from kohort.console.app import ConsoleApp
from kohort.console.page import ConsolePage
from kohort.console.sources import GroupsKnown, SourceAbout, SourceNews
from kohort.insight.findings.groups import find_group
from support.console_client import console, live
from support.waiting import eventually
from support.wide_groups import wide_snapshot

GROUPS, MEMBERS, PARTITIONS = 80, 200, 1_000
ROW_MOST = 1_000
PARTITION_MOST = 900


class WideCluster:
    def __init__(self, groups, members, partitions):
        looks = [[wide_snapshot(f"group-{n}", members, partitions, look) for look in range(2)] for n in range(groups)]
        self.found = {one[0].group: find_group(one, []) for one in looks}

    def about(self):
        return SourceAbout("live", "wide")

    def now_ms(self):
        return 0

    known_until_ms = now_ms

    def unreachable(self):
        return None

    def groups(self, at_ms):
        return GroupsKnown(0, self.found)

    def lag_points(self, group):
        return ()

    def clients(self):
        return None

    def listen(self, callback):
        self.callback = callback


@pytest.fixture(scope="module")
def wide():
    cluster = WideCluster(1, MEMBERS, PARTITIONS)
    one = cluster.found["group-0"]
    cluster.found = {f"group-{n}": replace(one, group=f"group-{n}") for n in range(GROUPS)}
    return cluster


def event_sent_to(wide, folder, group):
    async def story():
        app = ConsoleApp(wide, page=ConsolePage(folder))
        app.begin()
        stream: Any = app.hub.stream(app.hub.open(group), None)
        await anext(stream)
        wide.callback(SourceNews(changed=list(wide.found.values())))
        event = await anext(stream)
        await stream.aclose()
        app.end()
        return event

    return asyncio.run(story())


def test_sample_of_80_groups_with_many_members_sends_one_row_per_group(wide, folder):
    event = event_sent_to(wide, folder, None)

    rows = json.loads(event.split(b"data: ")[1])["groups"]
    assert len(rows) == GROUPS
    assert len(event) < GROUPS * ROW_MOST


def test_stream_of_group_with_many_members_sends_only_that_group(wide, folder):
    event = event_sent_to(wide, folder, "group-7")

    assert event.count(b"event: group\n") == 1
    assert len(event) < GROUPS * ROW_MOST + PARTITIONS * PARTITION_MOST


def test_findings_of_groups_with_many_members_are_untracked_by_garbage_collector():
    looks = [wide_snapshot("group-0", MEMBERS, PARTITIONS, look) for look in range(6)]
    find_group(looks, [])  # the first call creates objects that later calls reuse
    gc.collect()
    before = len(gc.get_objects())
    found = [find_group(looks, []) for _ in range(3)]
    gc.collect()
    assert len(gc.get_objects()) - before < PARTITIONS
    assert len(found[0].partitions) == PARTITIONS


def test_partition_objects_are_reused_by_later_samples(orders, broker, folder):
    source = live(broker)
    with console(source, folder):
        looks = eventually(lambda: found if len(found := source.snapshots(orders)) > 2 else None)
    names = [[one.partition for one in look.partitions] for look in looks]
    assert all(name is first for these in names[1:] for name, first in zip(these, names[0], strict=True))

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kohort
from kohort import AclBinding, ApiError, ErrorCode, OffsetAndMetadata, TopicPartition
from kohort.cli.groups.journal import read_journal
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.watch.store import WatchStore
from kohort.watch.watcher import CONSUMER_OPTIONS, OFFSETS_TOPIC, GroupWatcher, read_group_history
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS
from support.waiting import eventually

pytestmark = pytest.mark.ours


@pytest.fixture
def places() -> Iterator[tuple[kohort.Admin, dict[str, str]]]:
    with kohort.Broker(ASKS_FOR_RIGHTS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"orders": 1})
        admin.alter_group_offsets("billing", {TopicPartition("orders", 0): OffsetAndMetadata(0)})
        yield admin, {"bootstrap.servers": broker.bootstrap_of("SASL"), **AS_ALICE}


def test_watcher_names_missing_rights_and_skips_unauthorized_groups(places, tmp_path: Path) -> None:
    admin, login = places
    store = WatchStore(tmp_path / "s.sqlite")
    with kohort.Admin(login) as alice, kohort.Consumer({**login, **CONSUMER_OPTIONS}) as reader:
        watcher = GroupWatcher(reader, alice, store)
        for ask in (watcher.open, lambda: read_group_history(reader, alice, "billing")):
            with pytest.raises(ApiError, match=f"needs the READ permission on the topic {OFFSETS_TOPIC}") as denied:
                ask()
            assert denied.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED

        admin.create_acls([AclBinding("topic", OFFSETS_TOPIC, "User:alice", "read")])
        assert watcher.open()
        eventually(lambda: watcher.step(50) is not None and watcher.is_caught_up)
        assert watcher.groups.sizes == (1, 1)
        found = read_group_history(reader, alice, "billing")
        assert found is not None
        assert found.since_ms is not None
    store.close()


def test_unreadable_journal_does_not_hide_other_data(places, tmp_path: Path, capsys) -> None:
    admin, login = places
    admin.create_acls([AclBinding("topic", OFFSETS_TOPIC, "User:alice", "read")])
    cluster = ClusterAccess(login)

    assert read_journal(cluster, "billing") == [], "the group has commits, but no rebalance"
    output = capsys.readouterr().err
    assert "no permission to read the topic __kohort_journal, if it exists" in output
    assert "no journal: __consumer_offsets has records since" in output

    admin.delete_groups(["billing"])  # writes a journal entry
    admin.create_acls([AclBinding("topic", "__kohort_journal", "User:alice", "describe")])
    assert read_journal(cluster, "billing") == []
    assert "no permission to read" in capsys.readouterr().err

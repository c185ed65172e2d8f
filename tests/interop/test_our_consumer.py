"""kohort's consumer on a broker of ours and on Apache Kafka: one set of stories, the same on both."""

from __future__ import annotations

import re
import time
import uuid

import pytest

import kohort
from kohort import ApiError, ErrorCode, KohortError, OffsetAndMetadata, TopicPartition
from support.peers.client_programs import BOTH_CONFLUENTS, program, talk
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned
from support.recent import RECENT_MS

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]
WAIT_MS = 60_000
PARTITIONS = 6


@pytest.fixture
def admin(either):
    with kohort.Admin(bootstrap_servers=either) as client:
        yield client


@pytest.fixture
def name():
    """Return an unused name for a topic and a group."""
    return f"t-{uuid.uuid4().hex[:10]}"


def consumer_of(bootstrap, group=None, **options):
    options = {"auto_offset_reset": "earliest", "metadata_max_age_ms": 500, **options}
    return kohort.Consumer(bootstrap_servers=bootstrap, group_id=group, **options)


def fill(bootstrap, topic, count, *, partitions=1, codec="none"):
    with kohort.Producer(bootstrap_servers=bootstrap, compression_type=codec) as producer:
        sent = [
            producer.send(
                topic,
                None if n % 11 == 5 else f"value {n} " * (n % 9),
                None if n % 7 == 3 else f"k{n}",
                partition=n % partitions,
                headers={"n": str(n)} if n % 2 else None,
                timestamp_ms=RECENT_MS + n * 1000,
            )
            for n in range(count)
        ]
    assert [s.result(0).offset for s in sent] == [n // partitions for n in range(count)]


def expected(count):
    return [
        (
            n,
            RECENT_MS + n * 1000,
            None if n % 7 == 3 else b"k%d" % n,
            None if n % 11 == 5 else b"value %d " % n * (n % 9),
            ((("n", b"%d" % n),) if n % 2 else ()),
        )
        for n in range(count)
    ]


def read(consumer, count):
    """Poll until ``count`` records have come."""
    found = []
    deadline = time.monotonic() + WAIT_MS / 1000
    while len(found) < count:
        found += consumer.poll(1000)
        assert time.monotonic() < deadline, f"{len(found)} of {count} records"
    return found


def assigned(consumer, count):
    """Poll until that many partitions are assigned."""

    def holds():
        consumer.poll(50)
        return len(consumer.assignment()) == count

    eventually(f"{count} partitions are assigned", holds)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_was_written_is_read_as_records_and_as_arrow(either, admin, name, codec):
    admin.create_topics({name: 1})
    fill(either, name, 3000, codec=codec)

    with consumer_of(either, max_poll_records=700) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        records = read(consumer, 3000)
    assert [(r.offset, r.timestamp_ms, r.key, r.value, tuple(r.headers)) for r in records] == expected(3000)

    columns = ["offset", "timestamp", "key", "value"]
    with consumer_of(either) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        rows = []
        deadline = time.monotonic() + WAIT_MS / 1000
        while len(rows) < 3000 and time.monotonic() < deadline:
            rows += consumer.poll_arrow(1000, columns=columns).to_pylist()
    found = [(row["offset"], row["key"], row["value"]) for row in rows]
    assert found == [(offset, key, value) for offset, _, key, value, _ in expected(3000)]
    assert rows[-1]["timestamp"].timestamp() * 1000 == RECENT_MS + 2999 * 1000


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_three_survives_a_join_a_kill_and_a_leave(either, admin, name, strategy):
    admin.create_topics({name: PARTITIONS})
    fill(either, name, 120, partitions=PARTITIONS)
    command = program("kohort")
    members = [Member(command, either, name, name, strategy=strategy) for _ in range(2)]
    departed = []
    try:
        eventually("two members own everything", lambda: share_everything(members, PARTITIONS))
        members.append(Member(command, either, name, name, strategy=strategy))
        eventually("three own two each", lambda: [len(m.owns) for m in members] == [2, 2, 2])
        eventually("all records are read", lambda: sum(len(m.read) for m in members) >= 120)
        described = admin.describe_groups([name])[name]
        assert (described.state, described.assignor, len(described.members)) == ("Stable", strategy, 3)
        by_members = sorted(sorted(p.partition for p in m.assignment) for m in described.members)
        assert by_members == sorted(sorted(m.owns) for m in members)

        departed.append(members.pop(0))
        departed[-1].kill()
        eventually("two are left and own everything", lambda: share_everything(members, PARTITIONS))
        departed.append(members.pop(0))
        departed[-1].close()
        assert departed[-1].has_left, departed[-1].errors
        eventually("one is left and owns everything", lambda: share_everything(members, PARTITIONS))
        members[0].close()

        assert {tp.partition: at.offset for tp, at in admin.list_group_offsets(name).items()} == dict.fromkeys(
            range(PARTITIONS), 20
        )
        assert admin.describe_groups([name])[name].state == "Empty"
        assert twice_owned([*departed, *members], PARTITIONS) == []
    finally:
        end_all([*members, *departed])


def test_a_join_of_a_cooperative_group_takes_only_what_moves(either, admin, name):
    admin.create_topics({name: 4})
    callbacks = []

    class Listener:
        def on_partitions_revoked(self, partitions):
            callbacks.append(("revoked", len(partitions)))

        def on_partitions_lost(self, partitions):
            callbacks.append(("lost", len(partitions)))

        def on_partitions_assigned(self, partitions):
            callbacks.append(("assigned", len(partitions)))

    options = {"partition_assignment_strategy": ["cooperative-sticky"], "heartbeat_interval_ms": 100}
    with consumer_of(either, name, **options) as first, consumer_of(either, name, **options) as second:
        first.subscribe([name], Listener())
        assigned(first, 4)
        second.subscribe([name])

        def halved():
            first.poll(20)
            second.poll(20)
            return len(first.assignment()) == len(second.assignment()) == 2

        eventually("each has two", halved)
        assert first.assignment().isdisjoint(second.assignment())
    assert [t for t in callbacks if t[1]][:2] == [("assigned", 4), ("revoked", 2)]
    assert ("lost", 2) not in callbacks


def test_a_static_member_comes_back_without_a_rebalance(either, admin, name):
    admin.create_topics({name: 4})
    options = {"heartbeat_interval_ms": 100, "session_timeout_ms": 30000}
    with consumer_of(either, name, group_instance_id="stays", **options) as stays:
        stays.subscribe([name])
        assigned(stays, 4)
        with consumer_of(either, name, group_instance_id="moves", **options) as moves:
            moves.subscribe([name])
            eventually("both have two", lambda: moves.poll(20) or stays.poll(20) or len(moves.assignment()) == 2)
            eventually("both have two", lambda: stays.poll(20) or len(stays.assignment()) == 2)
            before = moves.assignment()
        kept = stays.assignment()
        with consumer_of(either, name, group_instance_id="moves", **options) as again:
            again.subscribe([name])
            eventually("its partitions are back", lambda: again.poll(20) or again.assignment() == before)
            assert stays.assignment() == kept
            members = admin.describe_groups([name])[name].members
            assert {m.group_instance_id for m in members} == {"stays", "moves"}


def test_a_second_process_with_the_same_instance_id_fences_the_first(either, admin, name):
    admin.create_topics({name: 2})
    options = {"heartbeat_interval_ms": 100, "group_instance_id": "one"}
    with consumer_of(either, name, **options) as first, consumer_of(either, name, **options) as second:
        first.subscribe([name])
        assigned(first, 2)
        second.subscribe([name])
        assigned(second, 2)

        with pytest.raises(KohortError) as fenced:
            eventually("the first hears of it", lambda: first.poll(100) and False)
        assert "FENCED_INSTANCE_ID" in str(fenced.value)
        assert second.poll(100) == []


def test_who_comes_later_resumes_where_the_group_had_committed(either, admin, name):
    admin.create_topics({name: 1})
    fill(either, name, 100)
    here = TopicPartition(name, 0)
    with consumer_of(either, name, enable_auto_commit=False, max_poll_records=40) as consumer:
        consumer.subscribe([name])
        assert [r.offset for r in read(consumer, 40)] == list(range(40))
        consumer.commit({here: OffsetAndMetadata(30, "thirty are done")})
        assert consumer.committed([here])[here].metadata == "thirty are done"
    answers = []
    with consumer_of(either, name, enable_auto_commit=False, max_poll_records=5) as consumer:
        consumer.subscribe([name])
        assert [r.offset for r in read(consumer, 5)] == list(range(30, 35))
        consumer.commit_async(callback=lambda offsets, error: answers.append((offsets[here].offset, error)))
        eventually("the commit is answered", lambda: (consumer.poll(50) and False) or answers)
    assert answers == [(35, None)]
    assert admin.list_group_offsets(name)[here].offset == 35


def test_consumer_without_commit_starts_at_configured_reset(either, admin, name):
    admin.create_topics({name: 1})
    fill(either, name, 10)
    here = TopicPartition(name, 0)
    with consumer_of(either, auto_offset_reset="latest") as consumer:
        consumer.assign([here])
        assert consumer.position(here, timeout_ms=WAIT_MS) == 10
    with consumer_of(either, auto_offset_reset="none") as consumer:
        consumer.assign([here])
        with pytest.raises(KohortError, match=name):
            eventually("it says so", lambda: consumer.poll(100) and False)


def test_positions_can_be_asked_for_and_sought(either, admin, name):
    admin.create_topics({name: 2})
    fill(either, name, 200, partitions=2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    with consumer_of(either, max_poll_records=10) as consumer:
        assert consumer.beginning_offsets([first, second]) == {first: 0, second: 0}
        assert consumer.end_offsets([first, second]) == {first: 100, second: 100}
        by_time = consumer.offsets_for_times(
            {first: RECENT_MS + 100_000 - 1, second: RECENT_MS + 999_999_000}, timeout_ms=WAIT_MS
        )
        assert (by_time[first].offset, by_time[first].timestamp_ms) == (50, RECENT_MS + 100_000)
        assert by_time[second] is None

        consumer.assign([first])
        consumer.seek(first, 95)
        assert [r.offset for r in read(consumer, 5)] == [95, 96, 97, 98, 99]
        assert consumer.lag() == {first: 0}
        consumer.seek_to_beginning()
        assert read(consumer, 1)[0].offset == 0
        consumer.seek_to_end([first])
        assert consumer.position(first, timeout_ms=WAIT_MS) == 100


def test_out_of_range_position_is_reset(either, admin, name):
    admin.create_topics({name: 1})
    fill(either, name, 20)
    with consumer_of(either) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        consumer.seek(TopicPartition(name, 0), 5000)
        assert read(consumer, 1)[0].offset == 0


def test_a_paused_partition_gives_nothing_until_it_is_resumed(either, admin, name):
    admin.create_topics({name: 2})
    fill(either, name, 40, partitions=2)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    with consumer_of(either) as consumer:
        consumer.assign([first, second])
        consumer.pause([first])
        assert {r.partition for r in read(consumer, 20)} == {1}
        assert consumer.poll(300) == []
        consumer.resume([first])
        assert {r.partition for r in read(consumer, 20)} == {0}


def test_a_pattern_finds_topics_that_come_later(either, admin, name):
    admin.create_topics({f"{name}-a": 1})
    with consumer_of(either, name, heartbeat_interval_ms=100) as consumer:
        consumer.subscribe(re.compile(re.escape(name) + "-.*"))
        assigned(consumer, 1)
        admin.create_topics({f"{name}-b": 2})
        fill(either, f"{name}-b", 10, partitions=2)
        assert {r.topic for r in read(consumer, 10)} == {f"{name}-b"}
        assert consumer.subscription() == {f"{name}-a", f"{name}-b"}


def test_partitions_that_are_added_are_read(either, admin, name):
    admin.create_topics({name: 1})
    with consumer_of(either, name, heartbeat_interval_ms=100) as consumer:
        consumer.subscribe([name])
        assigned(consumer, 1)
        admin.create_partitions({name: 3})
        assigned(consumer, 3)
        fill(either, name, 9, partitions=3)
        assert {r.partition for r in read(consumer, 9)} == {0, 1, 2}


def test_missing_topic_is_awaited(either, admin, name):
    with consumer_of(either, name, allow_auto_create_topics=False, heartbeat_interval_ms=100) as consumer:
        consumer.subscribe([name])
        assert consumer.poll(300) == []
        admin.create_topics({name: 1})
        fill(either, name, 3)
        assert len(read(consumer, 3)) == 3


@pytest.mark.parametrize("client", BOTH_CONFLUENTS)
def test_aborted_transactions_are_not_read_by_who_reads_only_what_is_committed(either, name, client):
    with kohort.Admin(bootstrap_servers=either) as admin:
        admin.create_topics({name: 1})
    with talk([*program(client), "transact", either, name]) as producer:
        for number, commits in enumerate([True, False, True, False, False, True]):
            producer.say("begin")
            for n in range(10):
                producer.say(f"send {name} {number}/{n}")
            producer.say("flush")
            producer.say("commit" if commits else "abort")
    kept = [f"{number}/{n}" for number in (0, 2, 5) for n in range(10)]

    with consumer_of(either, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(name, 0)])
        assert [r.value.decode() for r in read(consumer, 30)] == kept
        assert consumer.poll(500) == []
        consumer.seek_to_beginning()
        rows = []
        deadline = time.monotonic() + WAIT_MS / 1000
        while len(rows) < 30 and time.monotonic() < deadline:
            rows += consumer.poll_arrow(1000, columns=["value"])["value"].to_pylist()
        assert [value.decode() for value in rows] == kept
    with consumer_of(either) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        assert len(read(consumer, 60)) == 60


def test_records_deleted_below_the_position_are_skipped(either, admin, name):
    import confluent_kafka
    from confluent_kafka.admin import AdminClient  # the newest: the oldest cannot delete records

    admin.create_topics({name: 1})
    fill(either, name, 50)
    theirs = AdminClient({"bootstrap.servers": either})
    (done,) = theirs.delete_records([confluent_kafka.TopicPartition(name, 0, 30)]).values()
    assert done.result(60).low_watermark == 30

    with consumer_of(either) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        consumer.seek(TopicPartition(name, 0), 3)
        assert read(consumer, 1)[0].offset == 30


def test_a_session_timeout_out_of_the_broker_s_bounds_is_refused_at_the_first_poll(either, admin, name):
    admin.create_topics({name: 1})
    with consumer_of(either, name, session_timeout_ms=200, heartbeat_interval_ms=100) as consumer:
        consumer.subscribe([name])
        with pytest.raises(ApiError) as refused:
            eventually("it is refused", lambda: consumer.poll(100) and False)
    assert refused.value.code is ErrorCode.INVALID_SESSION_TIMEOUT

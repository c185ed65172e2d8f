"""The group protocol consumer (KIP-848) with clients of all kinds: who owns what, who is refused, what is committed."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from itertools import dropwhile
from pathlib import Path

import pytest

import kohort
from kohort import ApiError, ConfigResource, ErrorCode, SubscriptionPattern, TopicPartition
from support.peers.client_programs import program
from support.peers.stream import Stream
from support.processes.member_process import Member, end_all, eventually, share_everything, twice_owned

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]
PARTITIONS = 6
BY_COORDINATOR = "consumer"
SHORT = {"consumer.session.timeout.ms": "6000", "consumer.heartbeat.interval.ms": "500"}
BOUNDS = {"group.consumer.min.session.timeout.ms": "500", "group.consumer.min.heartbeat.interval.ms": "100"}
WAIT_S = 60
QUERY = Path(__file__).parents[1] / "support" / "processes" / "member_query.py"


@pytest.fixture(scope="module")
def short_of_ours():
    """The address of a broker of ours where groups may have members that are missed soon."""
    with kohort.Broker(BOUNDS) as broker:
        yield broker.bootstrap


APACHE = pytest.param("apache", marks=pytest.mark.kafka)


@pytest.fixture(params=["ours", APACHE])
def bootstrap(request):
    return request.getfixturevalue("short_of_ours" if request.param == "ours" else "apache")


@pytest.fixture
def admin(bootstrap):
    with kohort.Admin(bootstrap_servers=bootstrap) as client:
        yield client


@pytest.fixture
def name(admin):
    """A topic, and the group of the same name, whose members are missed soon."""
    name = f"modern-{uuid.uuid4().hex[:8]}"
    admin.create_topics({name: PARTITIONS})
    admin.alter_configs({ConfigResource("group", name): SHORT}).check()
    return name


def consumer_of(bootstrap, group, kind=kohort.Consumer, **options):
    options = {"group_protocol": "consumer", "auto_offset_reset": "earliest", **options}
    return kind(bootstrap_servers=bootstrap, group_id=group, **options)


def fill(bootstrap, topic, count):
    with kohort.Producer(bootstrap_servers=bootstrap) as producer:
        for n in range(count):
            producer.send(topic, b"%d" % n, partition=n % PARTITIONS)


def committed(admin, group):
    return sum(at.offset for at in admin.list_group_offsets(group).values())


class Listener:
    def __init__(self):
        self.callbacks = []

    def on_partitions_revoked(self, partitions):
        self.callbacks.append(("revoked", len(partitions)))

    def on_partitions_lost(self, partitions):
        self.callbacks.append(("lost", len(partitions)))

    def on_partitions_assigned(self, partitions):
        self.callbacks.append(("assigned", len(partitions)))


def polled(check, *consumers):
    """Poll all of them until ``check`` holds."""

    def holds():
        for consumer in consumers:
            consumer.poll(20)
        return check()

    eventually("what was polled for", holds, WAIT_S)


@pytest.mark.toolchain
@pytest.mark.parametrize(
    "clients",
    [
        ["kohort", "kohort", "kohort"],
        ["kohort", "java-newest", "confluent-newest", "go-franz", "kohort"],
    ],
    ids=["ours", "mixed"],
)
def test_members_come_and_go_and_nothing_is_lost_or_owned_twice(bootstrap, admin, name, clients):
    members, departed = [], []

    def settled():
        eventually(f"{len(members)} members own everything", lambda: share_everything(members, PARTITIONS))

    def joins(client):
        members.append(Member(program(client), bootstrap, name, name, strategy=BY_COORDINATOR))
        eventually(f"the new member ({client}) has something", lambda: members[-1].owns)
        settled()

    stream = Stream(bootstrap, name, PARTITIONS)
    try:
        for client in clients:
            joins(client)
        assert [g.group_type for g in admin.list_groups() if g.group_id == name] == ["consumer"]

        departed.append(members.pop(0))
        departed[-1].close()
        assert departed[-1].has_left, departed[-1].errors
        settled()
        departed.append(members.pop(0))
        departed[-1].kill()
        settled()
        joins("kohort")

        stream.stop()
        everybody = [*members, *departed]
        eventually("everything is read", lambda: stream.sent_positions <= set().union(*(m.read for m in everybody)))
        for member in members:
            member.close()
            assert member.has_left, member.errors
        assert committed(admin, name) == stream.sent
        assert twice_owned(everybody, PARTITIONS) == []
    finally:
        stream.stop()
        end_all([*members, *departed])


def test_members_of_both_protocols_share_a_group_that_is_moved_while_it_runs(bootstrap, admin, name):
    fill(bootstrap, name, 60)
    members = [Member(program("kohort"), bootstrap, name, name, strategy="cooperative-sticky") for _ in range(2)]
    departed = []
    try:
        eventually("the classic ones own everything", lambda: share_everything(members, PARTITIONS))
        for _ in range(2):
            members.append(Member(program("kohort"), bootstrap, name, name, strategy=BY_COORDINATOR))
            eventually("all own everything", lambda: all(m.owns for m in members))
            eventually("all own everything", lambda: share_everything(members, PARTITIONS))
        for _ in range(2):
            departed.append(members.pop(0))
            departed[-1].close()
            eventually("the others own everything", lambda: share_everything(members, PARTITIONS))
        eventually("all is read", lambda: len(set().union(*(m.read for m in [*members, *departed]))) == 60)
        assert [g.group_type for g in admin.list_groups() if g.group_id == name] == ["consumer"]
        assert twice_owned([*departed, *members], PARTITIONS) == []
    finally:
        end_all([*members, *departed])


def test_only_what_moves_is_revoked_and_the_listener_hears_as_ever(bootstrap, name):
    listener = Listener()
    with consumer_of(bootstrap, name) as first, consumer_of(bootstrap, name) as second:
        first.subscribe([name], listener)
        polled(lambda: len(first.assignment()) == 6, first)
        kept = first.assignment()
        second.subscribe([name])
        polled(lambda: len(first.assignment()) == len(second.assignment()) == 3, first, second)
        assert first.assignment() < kept
        assert first.assignment().isdisjoint(second.assignment())
        # Apache Kafka's coordinator may learn a little later that there is such a topic.
        callbacks = list(dropwhile(lambda one: one == ("assigned", 0), listener.callbacks))
        assert callbacks == [("assigned", 6), ("revoked", 3), ("assigned", 0)]
        assert first.group_metadata().generation_id == second.group_metadata().generation_id
    assert listener.callbacks[-1] == ("revoked", 3)


def test_a_static_member_keeps_its_partitions_and_its_place(bootstrap, name):
    with consumer_of(bootstrap, name) as stays:
        stays.subscribe([name])
        with consumer_of(bootstrap, name, group_instance_id="one") as one:
            one.subscribe([name])
            polled(lambda: len(stays.assignment()) == len(one.assignment()) == 3, stays, one)
            before, kept = one.assignment(), stays.assignment()
            with consumer_of(bootstrap, name, group_instance_id="one") as other:
                other.subscribe([name])
                with pytest.raises(ApiError, match=r"group\.instance\.id='one' is in use in group") as refused:
                    polled(lambda: False, other)
                assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
        with consumer_of(bootstrap, name, group_instance_id="one") as again:
            again.subscribe([name])
            polled(lambda: again.assignment() == before, again, stays)
            assert stays.assignment() == kept


def test_a_pattern_is_matched_by_the_cluster_for_topics_that_come_later_too(bootstrap, admin, name):
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe(SubscriptionPattern(re.escape(name) + "(-later)?"))
        polled(lambda: len(consumer.assignment()) == PARTITIONS, consumer)
        assert consumer.subscription() == {name}
        admin.create_topics({f"{name}-later": 2})
        fill(bootstrap, name, 12)
        polled(lambda: len(consumer.assignment()) == PARTITIONS + 2, consumer)
        assert consumer.subscription() == {name, f"{name}-later"}


def test_a_pattern_that_the_cluster_cannot_read_is_refused_with_its_reason_and_can_be_mended(bootstrap, name):
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe(SubscriptionPattern("(?=a)"))
        with pytest.raises(ApiError, match=r"cannot parse the subscription pattern of group .*: .*\(\?=a\)") as no:
            polled(lambda: False, consumer)
        assert no.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        consumer.subscribe(SubscriptionPattern(name))
        polled(lambda: len(consumer.assignment()) == PARTITIONS, consumer)


def test_unsupported_assignor_is_named_in_error(bootstrap, name):
    with consumer_of(bootstrap, name, group_remote_assignor="best") as consumer:
        consumer.subscribe([name])
        with pytest.raises(ApiError, match=r"group\.remote\.assignor='best' cannot be used .*uniform, range"):
            polled(lambda: False, consumer)


def test_a_member_that_does_not_poll_loses_its_partitions_and_comes_back(bootstrap, name):
    listener = Listener()
    with consumer_of(bootstrap, name, max_poll_interval_ms=1500) as slow, consumer_of(bootstrap, name) as other:
        slow.subscribe([name], listener)
        polled(lambda: len(slow.assignment()) == PARTITIONS, slow)
        other.subscribe([name])
        polled(lambda: len(other.assignment()) == PARTITIONS, other)
        with pytest.raises(kohort.CommitFailed):
            slow.commit({TopicPartition(name, 0): kohort.OffsetAndMetadata(1)})
        polled(lambda: len(slow.assignment()) == len(other.assignment()) == 3, slow, other)
    assert ("lost", PARTITIONS) in listener.callbacks


def test_offsets_go_into_a_transaction_under_the_member_epoch(bootstrap, admin, name):
    fill(bootstrap, name, 12)
    with (
        consumer_of(bootstrap, name, enable_auto_commit=False) as consumer,
        kohort.Producer(bootstrap_servers=bootstrap, transactional_id=name) as producer,
    ):
        consumer.subscribe([name])
        read = []
        polled_until = time.monotonic() + WAIT_S
        while len(read) < 12 and time.monotonic() < polled_until:
            read += consumer.poll(100)
        member = consumer.group_metadata()
        assert member.generation_id > 0
        producer.init_transactions()
        producer.begin_transaction()
        offsets = {p: kohort.OffsetAndMetadata(consumer.position(p)) for p in consumer.assignment()}
        producer.send_offsets_to_transaction(offsets, member)
        producer.commit_transaction()
        eventually("its marker is written", lambda: committed(admin, name) == 12, WAIT_S)

        producer.begin_transaction()
        with pytest.raises(kohort.KohortError, match=r"STALE_MEMBER_EPOCH|ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction(offsets, member._replace(generation_id=member.generation_id + 7))
        producer.abort_transaction()


def test_handlers_of_a_group_have_their_claims(bootstrap, admin, name):
    fill(bootstrap, name, 60)

    class Handler(kohort.GroupHandler):
        def __init__(self):
            self.claims = set()
            self.positions = []

        def setup(self, session):
            self.claims = {p.partition for p in session.partitions}

        def consume_claim(self, session, claim):
            for record in claim:
                session.mark_message(record)
                self.positions.append((record.partition, record.offset))

    one, other = Handler(), Handler()
    groups = {handler: consumer_of(bootstrap, name, kohort.ConsumerGroup) for handler in (one, other)}
    threads = [threading.Thread(target=group.run, args=([name], handler)) for handler, group in groups.items()]
    try:
        for thread in threads:
            thread.start()
        eventually("both have claims", lambda: len(one.claims) == len(other.claims) == 3, WAIT_S)
        eventually("all is handled", lambda: len({*one.positions, *other.positions}) == 60, WAIT_S)
    finally:
        for group in groups.values():
            group.close()
        for thread in threads:
            thread.join(WAIT_S)
    assert one.claims | other.claims == set(range(PARTITIONS))
    assert committed(admin, name) == 60


def test_the_faces_of_asyncio_and_arrow_do_the_same(bootstrap, admin, name):
    fill(bootstrap, name, 60)

    async def read():
        async with consumer_of(bootstrap, name, kohort.AsyncConsumer) as consumer:
            consumer.subscribe(name)
            found = 0
            async with asyncio.timeout(WAIT_S):
                while found < 60:
                    found += len(await consumer.poll(500))
            return found

    assert asyncio.run(read()) == 60
    assert committed(admin, name) == 60
    fill(bootstrap, name, 60)
    with consumer_of(bootstrap, name) as consumer:
        consumer.subscribe(name)
        rows = 0
        until = time.monotonic() + WAIT_S
        while rows < 60 and time.monotonic() < until:
            rows += consumer.poll_arrow(500).num_rows
    assert rows == 60
    assert committed(admin, name) == 120


class Query:
    """A query of Spark's in member mode, without Spark; its micro-batches complete at once, unless ``holds``."""

    def __init__(self, bootstrap, topic, checkpoint):
        command = [sys.executable, str(QUERY), bootstrap, topic, topic, str(checkpoint), BY_COORDINATOR]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rows, self.again = [], set()
        self.holds = self.is_waiting = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self):
        for line in self.process.stdout:
            for partition, offset, again in json.loads(line):
                self.rows.append((partition, offset))
                if again:
                    self.again.add((partition, offset))
            self.is_waiting = self.holds
            if not self.is_waiting:
                self.completes()

    @property
    def partitions(self):
        """Return the partitions of the rows it has read."""
        return {partition for partition, _ in self.rows}

    def completes(self):
        self.holds = self.is_waiting = False
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait(60)
        self._reading.join(60)
        self.process.stdin.close()
        self.process.stdout.close()


def test_spark_queries_share_a_group_and_stalled_query_is_fenced(bootstrap, admin, name, tmp_path):
    pytest.importorskip("pyspark", reason="the source in member mode is of Spark")
    first, second = (Query(bootstrap, name, tmp_path / f"checkpoint-{n}") for n in range(2))
    stream = Stream(bootstrap, name, PARTITIONS)

    def read_by_both():
        return stream.sent_positions <= {*first.rows, *second.rows}

    try:
        eventually("both read", lambda: len(first.partitions) >= 3 and len(second.partitions) >= 3)
        first.holds = True
        eventually("a micro-batch begins", lambda: first.is_waiting)
        begun = first.rows[-1]
        first.process.send_signal(signal.SIGSTOP)
        eventually("the other reads what the first had begun", lambda: begun in second.rows)
        eventually("the other reads all partitions", lambda: len(second.partitions) == PARTITIONS)
        first.process.send_signal(signal.SIGCONT)
        first.completes()
        before = len(first.rows)
        eventually("the first joins again", lambda: len(first.rows) > before)
        stream.stop()
        eventually("every row is read", read_by_both)
        eventually("and committed", lambda: committed(admin, name) == stream.sent)
    finally:
        stream.stop()
        first.end()
        second.end()
    assert begun in second.again, "what came twice is said"
    assert set(first.rows) & set(second.rows) <= first.again | second.again

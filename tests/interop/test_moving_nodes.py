"""Three nodes whose coordinators and leaders move, and which stop and start, under groups of every client.

Nothing that was acknowledged is lost, every move is survived, and a move of the coordinator alone rebalances nobody.
"""

import itertools
import threading

import pytest

import kohort
from kohort import NewTopic
from support.peers.client_programs import BOTH_CONFLUENTS, program
from support.processes.member_process import Member, end_all, eventually, share_everything

PARTITIONS = 6
GROUP = "crew"
TOPIC = "orders"
FEW, MANY = 4, 50

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


class Writer(threading.Thread):
    """Produces without end and notes where each acknowledged record lies."""

    def __init__(self, bootstrap):
        super().__init__(daemon=True)
        self.acknowledged = set()
        self.failures = []
        self._producer = kohort.Producer(bootstrap_servers=bootstrap, enable_idempotence=True)
        self._over = threading.Event()

    def run(self):
        for n in itertools.count():
            if self._over.is_set():
                return
            try:
                made = self._producer.send(TOPIC, b"%d" % n, partition=n % PARTITIONS).result(60_000)
            except kohort.KohortError as error:
                self.failures.append(str(error))
                continue
            self.acknowledged.add((made.partition, made.offset))
            self._over.wait(0.02)

    def end(self):
        self._over.set()
        self.join(90)
        self._producer.close()


@pytest.fixture
def broker(tmp_path):
    options = {"offsets.topic.num.partitions": 6, "group.initial.rebalance.delay.ms": 300}
    with kohort.Broker(options, nodes=3, data_dir=tmp_path) as broker:
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        yield broker


@pytest.fixture
def workload(broker, request):
    """A writer, two members that own everything, and the name of their client."""
    writer = Writer(broker.bootstrap)
    members = [Member(program(request.param), broker.bootstrap, GROUP, TOPIC) for _ in range(2)]
    writer.start()
    try:
        eventually("two members own everything", lambda: both_own(members))
        yield writer, members, request.param
    finally:
        writer.end()
        end_all(members)


def both_own(members):
    return share_everything(members, PARTITIONS) and all(m.owns for m in members)


def caught_up(writer, members):
    """Wait until all acknowledged records are read."""
    acknowledged = set(writer.acknowledged)
    eventually(f"{len(acknowledged)} records are read", lambda: acknowledged <= set().union(*(m.read for m in members)))


def progress(writer):
    """Wait until another record is acknowledged."""
    before = len(writer.acknowledged)
    eventually("something is written", lambda: len(writer.acknowledged) > before + 5)


def others(broker, node):
    return sorted(set(broker.nodes) - {node})


def end_well(broker, writer, members, client):
    """Check that all acknowledged records were read, and the committed offsets after the members left.

    Kohort commits all that it read. Other clients may lose their last commit to the rebalance that the first leaving
    member starts: of them no offset above the last record is committed, so the next member repeats records, not skips.
    """
    writer.end()
    assert writer.failures == []
    caught_up(writer, members)
    ends = {p: max(o for q, o in writer.acknowledged if q == p) + 1 for p in range(PARTITIONS)}
    for member in members:
        member.close()
        assert member.has_left, member.errors
    with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        committed = {tp.partition: at.offset for tp, at in admin.list_group_offsets(GROUP).items()}
    assert [p for p in ends if committed.get(p, 0) > ends[p]] == []
    if client == "kohort":
        assert committed == ends


@pytest.mark.parametrize("workload", [*BOTH_CONFLUENTS, "aiokafka", "kohort"], indirect=True)
@pytest.mark.parametrize("moves", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.campaign])])
def test_moved_coordinator_causes_no_rebalance(broker, workload, moves):
    writer, members, client = workload
    before = [list(m.changes) for m in members]

    for n in range(moves):
        node = broker.coordinator_of(GROUP)
        broker.move_coordinator(GROUP, others(broker, node)[n % 2])
        progress(writer)
        caught_up(writer, members)

    assert [m.changes for m in members] == before
    assert share_everything(members, PARTITIONS)
    end_well(broker, writer, members, client)


@pytest.mark.parametrize("workload", [*BOTH_CONFLUENTS, "aiokafka", "kohort"], indirect=True)
@pytest.mark.parametrize("rounds", [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.campaign])])
def test_nodes_that_stop_and_leaders_that_move_lose_nothing(broker, workload, rounds):
    writer, members, client = workload

    for n in range(rounds):
        if n % 2 == 0:
            node = broker.coordinator_of(GROUP) if n % 4 == 0 else broker.leader_of(TOPIC, n % PARTITIONS)
            broker.stop_node(node)
            progress(writer)
            broker.start_node(node)
        else:
            for partition in range(PARTITIONS):
                broker.move_leader(TOPIC, partition, (partition + n) % 3 + 1)
            broker.move_coordinator(GROUP, n % 3 + 1)
        progress(writer)
        caught_up(writer, members)

    eventually("two members own everything", lambda: both_own(members))
    end_well(broker, writer, members, client)

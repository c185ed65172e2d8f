from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import kohort
from kohort import AclBinding, TopicPartition
from kohort.cli.main import main
from support.raw.raw_client import RawClient
from support.raw.transactional import Transactional, committed_offset

OPTIONS = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
BOOKINGS, OFFSETS = TopicPartition("bookings", 0), TopicPartition("__consumer_offsets", 0)
SECURED = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a-secret";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ALICE = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=alice", "sasl.password=a-secret")


def commands(bootstrap, *settings):
    def run(*words, code=0):
        options = [word for setting in settings for word in ("--set", setting)]
        result = CliRunner(env={"KOHORT_BOOTSTRAP": bootstrap}).invoke(main, [*words, *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("hanging")
    data, log = made / "data", "__transaction_state-0"
    with kohort.Broker(OPTIONS, data_dir=data) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"bookings": 1})
        admin.alter_group_offsets("billing", {BOOKINGS: 0})
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("bookings", b"before", partition=0)
        with RawClient(broker.bootstrap) as wire:
            importer = Transactional(wire, "importer-1")
            assert importer.init() == 0
    shutil.copytree(data / log, made / log)
    with kohort.Broker(OPTIONS, data_dir=data) as broker, RawClient(broker.bootstrap) as importer.peer:
        importer.send("bookings", b"hangs")
        assert importer.commit_offsets("billing", "bookings", 1) == 0
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("bookings", b"behind", partition=0)
    shutil.rmtree(data / log)
    shutil.copytree(data, made / "lost")
    shutil.copytree(data, made / "behind")
    shutil.copytree(made / log, made / "behind" / log)
    return made


@pytest.fixture
def hanging(folder, tmp_path, request):
    shutil.copytree(folder / getattr(request, "param", "lost"), tmp_path / "data")
    with kohort.Broker(OPTIONS, data_dir=tmp_path / "data") as broker:
        yield SimpleNamespace(bootstrap=broker.bootstrap, run=commands(broker.bootstrap))


def found(run, *words):
    return json.loads(run("transactions", "find-hanging", "--output", "json", *words).stdout)["transactions"]


def values_committed(bootstrap):
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with kohort.Consumer(bootstrap_servers=bootstrap, **options) as consumer:
        consumer.assign([BOOKINGS])
        end = consumer.end_offsets([BOOKINGS])[BOOKINGS]
        values = []
        while consumer.position(BOOKINGS) < end:
            values += [record.value for record in consumer.poll(1000)]
    return values


def test_find_hanging_searches_topics_and_consumer_offsets(hanging):
    offsets, bookings = found(hanging.run, "--open-for", "0")

    assert (offsets["topic"], offsets["partition"]) == OFFSETS
    assert (bookings["topic"], bookings["partition"], bookings["start_offset"]) == (*BOOKINGS, 1)
    assert offsets["producer_id"] == bookings["producer_id"]
    assert (bookings["coordinator_epoch"], bookings["transactional_id"]) == (None, None)
    assert min(offsets["silent_seconds"], bookings["silent_seconds"]) >= 0
    (alone,) = found(hanging.run, "--open-for", "0", "--topic", "__consumer_offsets")
    assert alone["start_offset"] == offsets["start_offset"]
    table = hanging.run("transactions", "find-hanging", "--open-for", "0", "--topic", "bookings").stdout.splitlines()
    assert table[0].split()[:2] == ["TOPIC", "PARTITION"]
    assert [line.split()[:6] for line in table[1:]] == [["bookings", "0", str(bookings["producer_id"]), "0", "-", "1"]]
    assert found(hanging.run) == [], "whoever wrote just now may go on"


def test_abort_of_hanging_transaction_unblocks_consumers_and_committed_offsets(hanging):
    with kohort.Admin(bootstrap_servers=hanging.bootstrap) as admin:
        assert values_committed(hanging.bootstrap) == [b"before"]
        (there,) = found(hanging.run, "--open-for", "0", "--topic", "__consumer_offsets")
        producer, offset = there["producer_id"], there["start_offset"]

        output = hanging.run(
            "transactions", "abort", "--partition", "bookings-0", "--start-offset", "1", "--yes"
        ).stdout
        hanging.run("transactions", "abort", "--partition", f"{OFFSETS}", "--start-offset", str(offset), "--yes")

        assert output == f"bookings-0: aborted the transaction of producer id {producer} from offset 1\n"
        assert values_committed(hanging.bootstrap) == [b"before", b"behind"]
        assert admin.list_group_offsets("billing", [BOOKINGS])[BOOKINGS].offset == 0
        with RawClient(hanging.bootstrap) as wire:
            assert committed_offset(wire, "billing", "bookings", stable=True) == (0, 0), "nothing is pending any more"
        result = hanging.run("transactions", "find-hanging", "--open-for", "0")
        assert len(result.stdout.splitlines()) == 1
        assert "no transaction hangs in 4 partitions" in result.stderr


def test_abort_of_hanging_transaction_asks_for_confirmation_and_rejects_wrong_offset(hanging):
    words = ("transactions", "abort", "--partition")

    question = hanging.run(*words, "bookings:0", "--start-offset", "1", code=2).stderr
    missing = hanging.run(*words, "bookings-0", "--start-offset", "7", "--yes", code=3).stderr
    nowhere = hanging.run(*words, "bookings-9", "--start-offset", "1", "--yes", code=3).stderr
    unknown = hanging.run("transactions", "find-hanging", "--topic", "nowhere", code=3).stderr

    assert "No coordinator has the transaction in bookings-0 from offset 1 (producer id " in question
    assert "no transaction of bookings-0 starts at offset 7: open transactions start at 1 (producer id " in missing
    assert "UNKNOWN_TOPIC_OR_PARTITION: bookings-9" in nowhere
    assert "UNKNOWN_TOPIC_OR_PARTITION: nowhere" in unknown
    assert len(found(hanging.run, "--open-for", "0")) == 2, "nothing was ended"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "expected TRANSACTIONAL_ID, or --partition and --start-offset"),
        (
            ["t", "--partition", "a-0", "--start-offset", "0"],
            "TRANSACTIONAL_ID and --partition exclude",
        ),
        (["--partition", "a-0"], "--partition and --start-offset must be given together"),
        (["t", "--start-offset", "0"], "--partition and --start-offset must be given together"),
        (["--partition", "a", "--start-offset", "0"], "'a': expected TOPIC-PARTITION, such as orders-3"),
        (["--partition", "a-99999999999", "--start-offset", "0"], "expected TOPIC-PARTITION"),
    ],
)
def test_abort_needs_transactional_id_or_partition(run, words, message):
    assert message in run("transactions", "abort", *words, "--yes", code=2).stderr


class TestWhatACoordinatorKnows:
    @pytest.fixture
    def opened(self, broker, run):
        run("topics", "create", "orders", "--partitions", "1", "--if-not-exists")
        with kohort.Producer(bootstrap_servers=broker.bootstrap, transactional_id="importer-2") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("orders", b"open", partition=0).result()
            producer.send_offsets_to_transaction({TopicPartition("orders", 0): 1}, kohort.GroupMetadata("shipping"))
            yield producer

    def test_find_hanging_ignores_long_transaction_known_to_coordinator(self, run, opened):
        assert found(run, "--open-for", "0") == []

    def test_abort_in_partition_warns_about_transaction_known_to_coordinator(self, run, opened, broker):
        with kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
            place = TopicPartition("orders", 0)
            (producer_state,) = [
                p for p in admin.describe_producers([place])[place] if p.transaction_start_offset is not None
            ]
            at = ["--partition", "orders-0", "--start-offset", str(producer_state.transaction_start_offset)]

            question = run("transactions", "abort", *at, code=2).stderr
            assert "does not hang: the coordinator of 'importer-2' (Ongoing)" in question
            assert "kohort transactions abort importer-2 aborts it in all partitions" in question
            assert admin.describe_producers([place])[place] == [producer_state]
            run("transactions", "abort", *at, "--yes")
            assert "no transaction is open" in run("transactions", "abort", *at, "--yes", code=3).stderr

    @pytest.mark.parametrize("hanging", ["behind"], indirect=True)
    def test_transaction_counts_as_hanging_if_coordinator_lacks_its_partition(self, hanging):
        rows = found(hanging.run, "--open-for", "0")

        assert [(row["topic"], row["transactional_id"]) for row in rows] == [
            ("__consumer_offsets", "importer-1"),
            ("bookings", "importer-1"),
        ]
        at = ["--partition", "bookings-0", "--start-offset", "1"]
        assert "No coordinator has the transaction" in hanging.run("transactions", "abort", *at, code=2).stderr
        hanging.run("transactions", "abort", *at, "--yes")
        assert values_committed(hanging.bootstrap) == [b"before", b"behind"]


def test_find_hanging_reports_unsearched_partitions_in_exit_code():
    with kohort.Broker(SECURED) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics({"seen": 1, "hidden": 1})
        for topic, operation in (("seen", "read"), ("hidden", "describe")):
            admin.create_acls([AclBinding("topic", topic, "User:alice", operation)])

        result = commands(broker.bootstrap_of("SASL"), *ALICE)("transactions", "find-hanging", code=6)

    assert "not searched: TOPIC_AUTHORIZATION_FAILED: hidden-0" in result.stderr
    assert "needs READ on topic 'hidden'" in result.stderr
    assert "no transaction hangs in 2 partitions" in result.stderr

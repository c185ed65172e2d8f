"""Every file of a data folder, in turn, holds what another kind of file holds, or rubbish: the broker starts on it, or
says in words which file it cannot do without."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kohort.broker.cluster.security_store import SECURITY_FILE
from kohort.errors import ConfigError, StorageError
from kohort.log.storage import MemoryStorage
from support.machines.broker_stage import BrokerStage
from support.machines.cluster_stage import ClusterStage
from support.machines.guarded_stage import GuardedStage
from support.machines.populated import OFFSETS, TRANSACTIONS, populate
from support.raw.group_member import RawMember
from support.raw.transactional import Transactional

NEEDED = {"kohort-topics.json", "meta.properties", "kohort-cluster.json"}
"""Mandatory files: without them the start may fail with the file's name."""
FLIPS = 12


def furnished() -> BrokerStage:
    """Return a broker with every kind of file."""
    stage = BrokerStage(transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1)
    ann = populate(stage)
    producer = Transactional(stage.connect(), "aborter")
    producer.init()
    producer.send("a", b"gone")
    assert producer.end(commit=False) == 0
    ann.wire.create("keyed", cleanup_policy="compact")
    stage.broker.state.topics.get("a").partitions[0].begin_leader_epoch()
    ann.wire.produce("a", b"more")
    return stage


def content_of(storage: MemoryStorage) -> dict[str, bytes]:
    """Every file by its path."""
    folders = ["", *storage.folders()]
    paths = [f"{folder}/{name}" if folder else name for folder in folders for name in storage.files(folder)]
    return {path: storage.read(path) or b"" for path in paths}


def storage_of(content: dict[str, bytes]) -> MemoryStorage:
    storage = MemoryStorage()
    for path, data in content.items():
        if "/" in path:
            storage.make_folder(path.split("/")[0])
        storage.replace(path, data)
    return storage


def kind_of(path: str) -> str:
    """Return the kind of a file; for logs, the kind of its topic."""
    folder, _, name = path.rpartition("/")
    ending = name.partition(".")[2] if name[:1].isdigit() else name
    return f"{folder.rpartition('-')[0]}.{ending}" if ending == "log" else ending


def rubbish(own: bytes, rng: random.Random) -> Iterator[bytes]:
    """Yield invalid contents: empty, truncated, extended, foreign, and with one bit changed."""
    yield b""
    yield bytes(4096)
    yield b"\xff" * 300
    yield rng.randbytes(500)
    yield b"[" * 200_000
    yield b"{}"
    yield b'{"version": 1, "topics": [], "deleted": 7, "next_producer_id": Infinity}'
    yield b'{"version": 1, "topics": {"x": [[[], [], 1]]}, "deleted": [], "next_producer_id": "9"}'
    yield b'{"version": 1, "topics": [[]], "deleted": [], "next_producer_id": 0}'
    yield b"0\n1\na 0 99999999999999999999\n"
    yield b"0\n1\n99999999999999999999 -7\n"
    yield b"0\n99999999999999999999999\n"
    yield "größe=\ud800".encode("utf-8", "surrogatepass")
    yield own + own
    yield own[: len(own) // 2]
    for _ in range(FLIPS):
        changed = bytearray(own or b"\0")
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        yield bytes(changed)


FURNISHED = content_of(furnished().storage)


def stopped(*, cleanly: bool) -> dict[str, bytes]:
    stage = furnished()
    if cleanly:
        stage.broker.close(stage.now_ms)
    return content_of(stage.storage)


STOPPED = {cleanly: stopped(cleanly=cleanly) for cleanly in (True, False)}
KINDS = sorted({kind_of(path) for content in STOPPED.values() for path in content})


def test_stopped_brokers_leave_all_kinds_of_files():
    assert {f"{t}.log" for t in (OFFSETS, TRANSACTIONS, "__kohort_journal", "a")} < set(KINDS)
    assert {"snapshot", "txnindex", "index", "timeindex", "leader-epoch-checkpoint", "partition.metadata"} < set(KINDS)
    assert {"recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "kohort-topics.json"} < set(KINDS)


def start_on(storage: MemoryStorage, path: str) -> BrokerStage | None:
    """Start a broker on the storage; None if it reports the damaged file of ``path`` as mandatory."""
    refusals = (StorageError, ConfigError) if path in NEEDED else ()
    try:
        return BrokerStage(storage, transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1)
    except refusals:
        return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cleanly", [True, False])
def test_broker_starts_on_damaged_file_or_error_names_it(kind, cleanly):
    content = STOPPED[cleanly]
    paths = [path for path in content if kind_of(path) == kind]
    others = {kind_of(path): data for path, data in content.items() if kind_of(path) != kind}
    rng = random.Random(f"{kind} {cleanly}")
    for path in paths[:2]:
        for data in (*others.values(), *rubbish(content[path], rng)):
            stage = start_on(storage_of({**content, path: data}), path)
            if stage is None:
                continue
            peer = stage.connect()
            peer.create("new")
            assert peer.produce("new", b"1").error_code == 0
            newcomer = RawMember(stage.connect(), "newcomers", ["new"])
            newcomer.wire.send(newcomer.join_request(), 9)
            stage.advance(1_000_000)
            stage.broker.close(stage.now_ms)


def test_nodes_start_on_damaged_placements_or_error_names_the_file():
    stage = ClusterStage(2)
    stage.nodes[1].connect().create("a", 2)
    stage.restart(2)
    content = content_of(stage.storage)
    own = content["kohort-cluster.json"]
    beyond = own.replace(b"[[1", b"[[1, 1, 7", 1)
    more = own.replace(b"]]}}", b"], [[1, 2], 9, [[]], [null]], [[2], 2, [], []], [[2], 2, [], []]]}}")
    messages = []

    for data in (*content.values(), beyond, more, *rubbish(own, random.Random(7))):
        try:
            started = ClusterStage(2, storage_of({**content, "kohort-cluster.json": data}))
        except StorageError as error:
            messages.append(str(error))
        else:
            assert started.nodes[1].connect().produce("a", b"1").error_code in (0, 6)

    assert messages
    assert all(line.startswith("kohort-cluster.json cannot be read (") for line in messages)


def test_damaged_acls_are_read_or_error_names_the_file():
    stage = GuardedStage()
    stage.let_everything()
    (own,) = (data for path, data in content_of(stage.storage).items() if path == SECURITY_FILE)
    words = []
    for data in rubbish(own, random.Random(5)):
        stage.storage.replace(SECURITY_FILE, data)
        try:
            stage.restart(cleanly=False)
        except StorageError as error:
            words.append(str(error))
    assert len(words) > FLIPS
    assert [message for message in words if SECURITY_FILE not in message] == []

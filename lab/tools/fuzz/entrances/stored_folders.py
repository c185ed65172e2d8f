"""Damaged data folders: every kind of file, after a clean stop and after a crash."""

from __future__ import annotations

import json
import random
import zlib
from contextlib import suppress
from functools import cached_property
from typing import Any

import msgspec

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances.broker_frames import OPTIONS, config_of
from fuzz.mutate import mutated
from fuzz.trees import changed, json_bytes
from kohort.broker.cluster.security_store import SECURITY_FILE
from kohort.config import BrokerConfig
from kohort.errors import ApiError, ConfigError, StorageError
from kohort.log.storage import MemoryStorage
from kohort.security.acls import Operation, ResourceType
from kohort.wire.messages.quotas import AlterClientQuotasRequest, QuotaAlteration, QuotaEntityPart, QuotaOperation
from support.machines.broker_stage import BrokerStage
from support.machines.cluster_stage import ClusterStage
from support.machines.guarded_stage import AUTHORIZER, EVERYTHING, acl
from support.machines.populated import populate
from support.raw.group_member import RawMember
from support.raw.transactional import Transactional

NEEDED = {"kohort-topics.json", "meta.properties", "kohort-cluster.json", SECURITY_FILE}
"""Mandatory files (contents, or access rights): the start may fail with their names."""
GUARDED: dict[str, Any] = {"authorizer_class_name": AUTHORIZER, **OPTIONS}
MOST_FILES = 6
MOST_BYTES = 1 << 19
Content = dict[str, bytes]


class StoredFolders(Entrance):
    """Damage of a folder by a disk or an editor."""

    name = "data-folders"
    feeds = (
        "segments, indexes, snapshots, checkpoints, topics, placements, ACLs and users on disk, to a broker that starts"
    )

    @cached_property
    def templates(self) -> list[Content]:
        return [furnished(cleanly=True), furnished(cleanly=False), of_cluster()]

    def generate(self, rng: random.Random) -> bytes:
        which = rng.choice((0, 0, 0, 1, 1, 1, 2))
        content = self.templates[which]
        kinds: dict[str, list[str]] = {}
        for path in content:
            kinds.setdefault(path.rpartition("/")[2], []).append(path)
        files = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            path = rng.choice(kinds[rng.choice(list(kinds))])
            files.append([path, damaged(content[path], list(content.values()), rng)])
        return msgspec.msgpack.encode([which, files])

    def run(self, data: bytes, watch: Watch) -> None:
        try:
            which, files = msgspec.msgpack.decode(data, type=tuple[int, list[tuple[str, bytes]]])
        except (msgspec.DecodeError, RecursionError):
            return
        which %= len(self.templates)
        content = dict(self.templates[which])
        for path, stored in files[:MOST_FILES]:
            if path in content:
                content[path] = stored[:MOST_BYTES]
        storage = storage_of(content)
        if which == 2:
            self.start_cluster(storage, {path for path, _ in files}, watch)
        else:
            self.start(storage, {path for path, _ in files}, watch, again=zlib.crc32(data) % 4 == 0)

    def start(self, storage: MemoryStorage, damaged_files: set[str], watch: Watch, *, again: bool) -> None:
        try:
            stage = watch.step(lambda: stage_on(storage))
        except (StorageError, ConfigError) as error:
            named = [path for path in damaged_files & NEEDED if path in str(error)]
            if not named:
                raise Wrong(f"the start fails without the name of the damaged file: {error}") from error
            return
        serve(stage, watch, is_guarded=SECURITY_FILE in damaged_files)
        stage.broker.close(stage.now_ms)
        if again:
            stage_on(storage, seed=9)

    def start_cluster(self, storage: MemoryStorage, damaged_files: set[str], watch: Watch) -> None:
        try:
            stage = watch.step(lambda: ClusterStage(2, storage))
        except (StorageError, ConfigError) as error:
            if not any(path in str(error) for path in damaged_files & NEEDED):
                raise Wrong(f"the start fails without the name of the damaged file: {error}") from error
            return
        stage.nodes[1].connect().produce("a", b"1")


def serve(stage: BrokerStage, watch: Watch, *, is_guarded: bool) -> None:
    """Use the existing objects and a new topic; the new topic must work."""
    peer = stage.connect()
    for topic in list(stage.broker.state.topics):
        for log in topic.partitions:
            watch.step(lambda log=log: read_through(log))  # type: ignore[misc]
    if not is_guarded:
        peer.create("served-after-all")
        if answer := peer.produce("served-after-all", b"1").error_code:
            raise Wrong(f"a write to a new topic fails: {answer}")
        peer.produce("a", b"1")
    newcomer = RawMember(stage.connect(), "newcomers", ["a"])
    newcomer.wire.send(newcomer.join_request(), 9)
    stage.advance(100_000)


def read_through(log: Any) -> None:
    """Read a log from its start beyond its end, and by time."""
    first = log.log_start_offset
    for offset in range(first, first + min(50, max(log.log_end_offset - first, 0) + 2)):
        with suppress(ApiError):
            log.read(offset, 4096)
    for at_ms in (0, 1, 1 << 41):
        with suppress(ApiError):
            log.find_by_time(at_ms)


def damaged(own: bytes, others: list[bytes], rng: random.Random) -> bytes:
    """Return damaged contents of a file."""
    match rng.randrange(12):
        case 0:
            return rng.choice(others)
        case 1:
            return b""
        case 2:
            return own[: rng.randrange(len(own) + 1)]
        case 3:
            return bytes(rng.choice((1, 100, 5000)))
        case 4 | 5 | 6 if own[:1] == b"{":
            return json_bytes(changed(json.loads(own), rng))
        case 7:
            return own + own
        case _:
            return mutated(own, rng, others)


class LaterStage(BrokerStage):
    """A stage on existing files with its own random source: otherwise new topics would get ids of old ones."""

    def __init__(self, storage: MemoryStorage, seed: int) -> None:
        self.seed = seed
        super().__init__(storage, **GUARDED)

    @staticmethod
    def configured(settings: dict[str, object]) -> BrokerConfig:
        return config_of(repr(sorted(settings.items())), settings)

    def start(self) -> None:
        self.rng = random.Random(self.seed)
        super().start()


def stage_on(storage: MemoryStorage, *, seed: int = 8) -> BrokerStage:
    return LaterStage(storage, seed)


def furnished(*, cleanly: bool) -> Content:
    """Return the files of a broker with every kind of object."""
    stage = BrokerStage(**GUARDED)
    access = stage.broker.state.access
    assert access is not None
    access.change(add=[acl(Operation.ALL, kind, name) for kind, name in EVERYTHING], remove=[])
    assert ResourceType.TOPIC in {kind for kind, _ in EVERYTHING}
    ann = populate(stage)
    producer = Transactional(stage.connect(), "aborter")
    producer.init()
    producer.send("a", b"gone")
    producer.end(commit=False)
    ann.wire.create("keyed", cleanup_policy="compact", segment_bytes="1024")
    for _ in range(30):
        ann.wire.produce("keyed", b"x" * 100)
    stage.broker.state.topics.get("a").partitions[0].begin_leader_epoch()
    ann.wire.produce("a", b"more")
    quota = QuotaAlteration(
        entity=[QuotaEntityPart(entity_type="user", entity_name="ann")],
        ops=[QuotaOperation(key="request_percentage", value=200.0)],
    )
    ann.wire.ask(AlterClientQuotasRequest(entries=[quota]), 1)
    if cleanly:
        stage.broker.close(stage.now_ms)
    return content_of(stage.storage)


def of_cluster() -> Content:
    """Return the files of two nodes."""
    stage = ClusterStage(2)
    stage.nodes[1].connect().create("a", 2)
    stage.restart(2)
    return content_of(stage.storage)


def content_of(storage: MemoryStorage) -> Content:
    """Return every file by its path."""
    folders = ["", *storage.folders()]
    paths = [f"{folder}/{name}" if folder else name for folder in folders for name in storage.files(folder)]
    return {path: storage.read(path) or b"" for path in paths}


def storage_of(content: Content) -> MemoryStorage:
    storage = MemoryStorage()
    for path, data in content.items():
        if "/" in path:
            storage.make_folder(path.split("/", maxsplit=1)[0])
        storage.replace(path, data)
    return storage

"""Files and texts of users or other programs: each is accepted, or rejected with a message."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.mutate import mutated
from fuzz.trees import changed, json_bytes
from kohort.columns.native.machine_code import store, stored
from kohort.config import BrokerConfig, parse_config
from kohort.config.client_files import read_client_file, read_profile
from kohort.config.client_metrics import parse_subscription
from kohort.config.properties import parse_properties
from kohort.config.server_properties import understand
from kohort.coordinator.journal import KINDS
from kohort.errors import KohortError
from kohort.insight.findings.events import find_events
from kohort.insight.findings.fenced import find_fenced
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.journal_reader import JournalReader
from kohort.secret import Secret
from kohort.security.jaas import parse_jaas
from kohort.security.sasl.oauthbearer import OAuthBearerServer
from kohort.security.sasl.scram import check_users
from kohort.security.sasl.tokens import SigningKeys, UnsecuredTokens
from kohort.steps import at_once
from kohort.telemetry.otlp import BadTelemetry, parse_metrics
from kohort_lab.history.checker import check_history
from kohort_lab.history.lines import HistoryUnreadable
from support.telemetry.otlp_bytes import gauge, metrics_data, total

LONGEST = 1 << 16
IN_MEMORY = Path("/dev/shm")


class TextEntrance(Entrance):
    """One kind of text, with valid examples."""

    refusals: ClassVar[tuple[type[Exception], ...]] = (KohortError,)

    @abstractmethod
    def good(self) -> Sequence[bytes]:
        """Return valid examples."""

    @abstractmethod
    def read(self, data: bytes) -> None:
        """Read a text."""

    @cached_property
    def seeds(self) -> list[bytes]:
        return list(self.good())

    def generate(self, rng: random.Random) -> bytes:
        own = rng.choice(self.seeds)
        return own if rng.random() < 0.02 else mutated(own, rng, self.seeds)

    def run(self, data: bytes, watch: Watch) -> None:
        try:
            watch.step(lambda: self.read(data[:LONGEST]))
        except self.refusals as error:
            if not str(error):
                raise Wrong(f"{type(error).__name__} without a message") from error


def scratch_folder() -> Path:
    """Return a new folder that is removed with the process, in memory if possible."""
    folder = tempfile.mkdtemp(prefix="kohort-fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class OptionFiles(TextEntrance):
    """Option files of brokers and clients."""

    name = "option-files"
    feeds = "server.properties, client.properties, clusters.toml, options of client metrics, users, JAAS"

    @cached_property
    def folder(self) -> Path:
        return scratch_folder()

    def good(self) -> Sequence[bytes]:
        return [
            b"0num.partitions=3\nlisteners=PLAINTEXT://localhost:9092\nlog.retention.hours=1\nlog.dirs=/tmp/x\n",
            b"0listeners=A://h:1,B://:2\nlistener.security.protocol.map=A:PLAINTEXT,B:SASL_SSL\nlistener.name.b.sasl.enabled.mechanisms=PLAIN\n",
            b"0offsets.topic.num.partitions=5\ntransaction.max.timeout.ms=900000\nsuper.users=User:a;User:b\nconnections.max.idle.ms=-1",
            b"1bootstrap.servers=h:9092\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
            b'sasl.jaas.config=x required username="a" password="b";',
            b"1bootstrap.servers=h:9092,[::1]:9093\ngroup.id=g\nssl.ca.location=${env:CA}\nsession.timeout.ms=1\n",
            b'2[prod]\nbootstrap.servers = "h:9092"\nsasl.username = "u"\n[dev]\nbootstrap = "x"\n',
            b"3interval.ms=1000\nmetrics=org.apache.kafka.consumer.,x\nmatch=client_id=a.*,client_software_name=\\[\n",
            b"4SCRAM-SHA-256=[name=a,password=b,iterations=4096]\nSCRAM-SHA-512=[name=a,password=b,salt=YWJj]\n",
            b'5org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b" user_a="b";',
            b'6[{"keys": [{"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}]}]',
        ]

    def generate(self, rng: random.Random) -> bytes:
        own = rng.choice(self.seeds)
        if rng.random() < 0.4:
            return own[:1] + mutated(own[1:], rng, self.seeds)
        lines = own[1:].split(b"\n")
        at = rng.randrange(len(lines))
        name, equals, value = lines[at].partition(b"=")  # an unknown name would end the parsing, so only values change
        lines[at] = name + equals + mutated(value, rng, self.seeds)
        return own[:1] + b"\n".join(lines)

    def read(self, data: bytes) -> None:
        kind, text = data[:1], text_of(data[1:])
        match kind:
            case b"0":
                parse_config(BrokerConfig, understand(parse_properties(text)).options)
            case b"1":
                path = self.folder / "client.properties"
                path.write_bytes(data[1:])
                read_client_file(path, {"CA": "x"})
            case b"2":
                path = self.folder / "clusters.toml"
                path.write_bytes(data[1:])
                read_profile("prod", {"KOHORT_PROFILES": str(path)})
            case b"3":
                parse_subscription(parse_properties(text))
            case b"4":
                check_users("add.scram", Secret(text))
            case b"5":
                parse_jaas(Secret(text))
            case _:
                keys = SigningKeys("https://x", 1000, 0)
                keys.fetched(data[1:], 0)
                keys.candidates("a", "RS256", 1)


class ClientMetrics(TextEntrance):
    """Client metrics in OpenTelemetry's format."""

    name = "client-metrics"
    feeds = "metrics that clients push (OTLP)"
    refusals = (BadTelemetry,)

    def good(self) -> Sequence[bytes]:
        return [
            metrics_data(gauge("a.b", 1.5, topic="t", partition="0"), total("c", 3), group_id="g", group_member_id="m"),
            metrics_data(*(gauge(f"m{n}", n) for n in range(30))),
            metrics_data(total("x", -(1 << 63)), client_rack="ä"),
        ]

    def read(self, data: bytes) -> None:
        at_once(parse_metrics(data))


class Journals(TextEntrance):
    """Journal entries, which any process of the cluster can write, and the findings from them."""

    name = "journal-entries"
    feeds = "entries of the journal, mutated as trees, to the findings about groups"

    def good(self) -> Sequence[bytes]:
        from fuzz.entrances.good_ones import entries

        return entries()

    @cached_property
    def trees(self) -> list[Any]:
        return [json.loads(one) for one in self.seeds]

    def generate(self, rng: random.Random) -> bytes:
        chosen = [rng.choice(self.trees) for _ in range(rng.choice((1, 5, 20)))]
        start = rng.randrange(len(self.trees))
        chosen += self.trees[start : start + rng.choice((0, 20, 100))]
        kinds = [kind.__struct_config__.tag for kind in KINDS]
        lines = []
        for tree in chosen:
            if rng.random() < 0.3:
                tree = changed(tree, rng)
            if rng.random() < 0.05 and isinstance(tree, dict):
                tree = tree | {"kind": rng.choice(kinds)}
            lines.append(json_bytes(tree))
        return b"\n".join(lines)

    def read(self, data: bytes) -> None:
        reader = JournalReader()
        for line in data.split(b"\n"):
            reader.add(b"g", line)
        for find in (find_events, find_fenced, find_rebalances):
            find(reader.entries)


class Histories(TextEntrance):
    """Histories of clients."""

    name = "histories"
    feeds = "histories, mutated as bytes and as trees, to their checks"
    refusals = (HistoryUnreadable,)

    @cached_property
    def path(self) -> Path:
        return scratch_folder() / "history.jsonl"

    def good(self) -> Sequence[bytes]:
        from fuzz.entrances.good_ones import history

        return history()

    def generate(self, rng: random.Random) -> bytes:
        own = rng.choice(self.seeds)
        if rng.random() < 0.3:
            return mutated(own, rng, self.seeds)
        lines = [json.loads(line) for line in own.splitlines()]
        for _ in range(rng.choice((1, 2, 5))):
            at = rng.randrange(len(lines))
            lines[at] = changed(lines[at], rng)
        return b"\n".join(json_bytes(line) for line in lines)

    def read(self, data: bytes) -> None:
        self.path.write_bytes(data)
        check_history([self.path])


class KernelFiles(TextEntrance):
    """Machine code on disk: damaged code is not used."""

    name = "kernel-files"
    feeds = "object files of kernels on disk, damaged"

    @cached_property
    def folder(self) -> Path:
        return scratch_folder()

    @property
    def file(self) -> str:
        return f"k-{'0' * 20}.o"

    def good(self) -> Sequence[bytes]:
        store(self.file, bytes(range(256)) * 4, [self.folder])
        return [(self.folder / self.file).read_bytes()]

    def read(self, data: bytes) -> None:
        good = self.seeds[0]
        (self.folder / self.file).write_bytes(data)
        found = stored(self.file, [self.folder])
        if found is not None and found != good[32:]:
            raise Wrong("the broker would run damaged machine code")


class Tokens(TextEntrance):
    """OAUTHBEARER tokens that are valid without a signature."""

    name = "tokens"
    feeds = "tokens of OAUTHBEARER, mutated as text and inside"

    def good(self) -> Sequence[bytes]:
        from fuzz.entrances.broker_logins import token

        return [token(), token(exp=1.5), token(scope="a b"), token(scope=["a"]), token(sub="ä")]

    def generate(self, rng: random.Random) -> bytes:
        from fuzz.entrances.broker_logins import token

        if rng.random() < 0.5:
            return super().generate(rng)
        claims = changed({"sub": "c", "iat": 0, "exp": 4e9, "scope": ["x"], "nbf": 1, "aud": ["k"]}, rng)
        return token(**claims) if isinstance(claims, dict) else b""

    def read(self, data: bytes) -> None:
        OAuthBearerServer(UnsecuredTokens()).evaluate(data, 1_700_000_000_000)

"""Apache Kafka, one node in KRaft mode, as a plain Java process on a free port: a peer for tests, or by hand.

    python tools/kafka/run.py            starts one and prints its address; Ctrl-C or SIGTERM ends it
    python tools/kafka/run.py --resolve  only brings the jars

Needs Java 17 and Maven; the jars come from Maven Central by name and are kept in .kohort/kafka: those of the broker,
and those of Kafka's command-line tools, which Maven Central has one version behind.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

HERE = Path(__file__).parent
LIBS = HERE.parents[1] / ".kohort" / "kafka" / "libs"
TOOLS = LIBS.parent / "tools"
POMS = {LIBS: HERE / "pom.xml", TOOLS: HERE / "tools.xml"}
LOCK = LIBS.parents[1] / ".lock"
"""Held by whoever brings or builds something into ``.kohort``."""
RESOLVE_S = 900
PORTS = (20_000, 32_000)
"""Below those that Linux gives to clients (32768 on)."""
START_S = 180
END_S = 45
AGAIN_MS = 15_000
"""A broker that was killed is taken for registered for so long, and may not register again before."""
JVM_FLAGS = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
"""Few threads: where a machine is shared, what an idle broker costs is its threads waking up."""
MIB = 1024 * 1024


def missing() -> str | None:
    """What this machine lacks to run Apache Kafka, or None."""
    absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if absent and not (are_here() and absent == ["mvn"]):
        return f"Apache Kafka needs {' and '.join(absent)} on PATH"
    return None


def are_here() -> bool:
    """Tell whether there are jars, be it those of another version."""
    return all(folder.exists() for folder in POMS)


def resolve() -> None:
    """Bring the jars unless they are there; a process that finds another at it waits."""
    if all(map(_is_brought, POMS)):
        return
    with one_at_a_time():
        for folder in POMS:
            if not _is_brought(folder):
                _bring(folder)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Be the only process that brings or builds something into ``.kohort``: Maven's own store, too, bears no two."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _is_brought(folder: Path) -> bool:
    mark = folder / ".pom"
    return mark.exists() and mark.read_text() == POMS[folder].read_text()


def _bring(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".jsa").unlink(missing_ok=True)  # classes of the jars before
    declared = POMS[folder]
    goal = ["mvn", "-q", "-B", "-f", str(declared), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*goal, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"],
        timeout=RESOLVE_S, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"Maven could not bring Apache Kafka:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (folder / ".pom").write_text(declared.read_text())


def free_port() -> int:
    """A port that nobody has, and that the system gives no client of its own accord: one that tries to reach a broker
    which is down could otherwise be connected to itself, and keep the broker from its port."""
    for port in random.SystemRandom().sample(range(*PORTS), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {PORTS[0]} and {PORTS[1]}")


class Security(NamedTuple):
    """What an Apache Kafka is given beside its options to have more listeners than the one in plain text."""

    listeners: Mapping[str, str] = MappingProxyType({})
    """The protocol of each further listener, by its name."""
    scram: Sequence[str] = ()
    """The users of SCRAM that it begins with, as ``--add-scram`` takes them."""
    system: Mapping[str, str] = MappingProxyType({})
    """System properties of its JVM."""


class Kafka:
    """A running Apache Kafka; a context manager. ``addresses`` are those of its listeners, by their names."""

    def __init__(self, security: Security | None = None, **overrides: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kohort-kafka-"))
        self._security = security or Security()
        self._overrides = overrides
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""
        self.addresses: dict[str, str] = {}

    def __enter__(self) -> Kafka:
        try:
            self._start()
        except BaseException:  # a signal, too, leaves nothing behind
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        resolve()
        names = ["PLAINTEXT", *self._security.listeners]
        self.addresses = {name: f"127.0.0.1:{free_port()}" for name in names}
        self.bootstrap = self.addresses["PLAINTEXT"]
        config = self._folder / "server.properties"
        config.write_text("".join(f"{k}={v}\n" for k, v in self._properties(free_port()).items()))
        cluster = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode().replace("-", "A")
        users = [word for user in self._security.scram for word in ("--add-scram", user)]
        if self._java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(config), *users).wait(START_S):
            raise RuntimeError(f"kafka.tools.StorageTool failed:\n{self.log()}")
        self._serve()

    def _serve(self) -> None:
        self._java("kafka.Kafka", str(self._folder / "server.properties"))
        for address in self.addresses.values():
            self._wait(int(address.rpartition(":")[2]))

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    def restart(self, *, kill: bool) -> None:
        """End it, with SIGKILL or in order, and start it again over the same data. An end in order that takes too long,
        as on a busy machine, is made one."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(START_S)
        with (self._folder / "server.properties").open("a") as config:
            config.write(f"broker.session.timeout.ms={AGAIN_MS}\n")
        self._serve()

    def _properties(self, controller: int) -> dict[str, str]:
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **self._security.listeners}
        listeners = {**self.addresses, "CONTROLLER": f"127.0.0.1:{controller}"}
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{name}://{address}" for name, address in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{n}:{protocol}" for n, protocol in protocols.items()),
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "5",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "5",
            "group.initial.rebalance.delay.ms": "0",
            "num.io.threads": "2",
            "num.network.threads": "1",
            "background.threads": "2",
            "broker.session.timeout.ms": "600000",  # on a busy machine it stands still for seconds: that is no failure
            "controller.quorum.request.timeout.ms": "60000",
            "log.cleaner.dedupe.buffer.size": str(8 * MIB),
            **{k.replace("_", "."): v for k, v in self._overrides.items()},
        }

    def _java(self, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        system = [f"-D{name}={value}" for name, value in self._security.system.items()]
        command = ["java", *JVM_FLAGS, *system, "-cp", f"{LIBS}/*", main, *arguments]
        with (self._folder / "kafka.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        return self._process

    def _wait(self, port: int) -> None:
        deadline = time.monotonic() + START_S
        assert self._process is not None
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"Apache Kafka ended at its start:\n{self.log()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Apache Kafka did not listen within {START_S} s:\n{self.log()}")

    def keep(self, folder: Path) -> None:
        """Copy what it has on the disk and what it printed, as it is now: its own folder goes with it."""
        shutil.copytree(self._folder, folder, ignore_dangling_symlinks=True)

    def log(self) -> str:
        """The end of what it printed."""
        return (self._folder / "kafka.log").read_text(errors="replace")[-4000:]

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # a clean end takes seconds, and its data goes anyway
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--resolve", action="store_true", help="only bring the jars")
    if lack := missing():
        print(lack, file=sys.stderr)
        return 1
    if options.parse_args().resolve:
        resolve()
        return 0
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # what timeout, systemd and CI send ends it as Ctrl-C does
    try:
        with Kafka() as kafka:
            print(f"Apache Kafka ready on {kafka.bootstrap}; Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

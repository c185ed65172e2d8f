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
"""Lock of downloads and builds into ``.kohort``."""
RESOLVE_S = 900
PORTS = (20_000, 32_000)
"""Below Linux's range for clients (32768 and higher)."""
START_S = 180
END_S = 45
AGAIN_MS = 15_000
"""A killed broker counts as registered for this long, and cannot register again before."""
JVM_FLAGS = ["-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
"""Few threads: on a shared machine the wake-ups of an idle broker's threads are its cost."""
MIB = 1024 * 1024


def missing() -> str | None:
    """Return the missing prerequisites of Apache Kafka, or None."""
    absent = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if absent and not (are_here() and absent == ["mvn"]):
        return f"Apache Kafka needs {' and '.join(absent)} on PATH"
    return None


def are_here() -> bool:
    """Return True if jars are present, of any version."""
    return all(folder.exists() for folder in POMS)


def resolve() -> None:
    """Download the jars unless present; wait for another process that downloads them."""
    if all(map(_is_brought, POMS)):
        return
    with one_at_a_time():
        for folder in POMS:
            if not _is_brought(folder):
                _bring(folder)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Lock ``.kohort`` for one process: Maven's own store does not support two."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _is_brought(folder: Path) -> bool:
    mark = folder / ".pom"
    return mark.exists() and mark.read_text() == POMS[folder].read_text()


def _bring(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".jsa").unlink(missing_ok=True)  # class archive of the previous jars
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
    """Return a free port outside of the system's range for clients.

    A client's attempt to reach a stopped broker could otherwise connect to itself and occupy the broker's port.
    """
    for port in random.SystemRandom().sample(range(*PORTS), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {PORTS[0]} and {PORTS[1]}")


class Security(NamedTuple):
    """Listeners beside the plaintext one, with their options."""

    listeners: Mapping[str, str] = MappingProxyType({})
    """Protocol of each further listener, by name."""
    scram: Sequence[str] = ()
    """Initial SCRAM users, in the format of ``--add-scram``."""
    system: Mapping[str, str] = MappingProxyType({})
    """System properties of the JVM."""


class Kafka:
    """A running Apache Kafka; a context manager. ``addresses``: by listener name."""

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
        except BaseException:  # clean up after signals too
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
        """Stop the broker, with SIGKILL or cleanly, and start it again on the same data. A slow stop becomes a kill."""
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
            "broker.session.timeout.ms": "600000",  # a broker on a busy machine can stall for seconds
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
                raise RuntimeError(f"Apache Kafka exited during its start:\n{self.log()}")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise RuntimeError(f"Apache Kafka did not listen within {START_S} s:\n{self.log()}")

    def keep(self, folder: Path) -> None:
        """Copy its current data and log: its own folder is removed at the end."""
        shutil.copytree(self._folder, folder, ignore_dangling_symlinks=True)

    def log(self) -> str:
        """Return the end of its log."""
        return (self._folder / "kafka.log").read_text(errors="replace")[-4000:]

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # a clean stop takes seconds, and the data is removed anyway
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--resolve", action="store_true", help="only download the jars")
    if lack := missing():
        print(lack, file=sys.stderr)
        return 1
    if options.parse_args().resolve:
        resolve()
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM of timeout, systemd and CI, like Ctrl-C
    try:
        with Kafka() as kafka:
            print(f"Apache Kafka ready on {kafka.bootstrap}; Ctrl-C ends it", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

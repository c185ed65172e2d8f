"""Run producers and groups of both protocols against a broker that is killed, and check their histories.

    python lab/tools/history/run.py                      one run of 20 seconds on a broker of ours
    python lab/tools/history/run.py --runs 50            fifty, each with chance of its own
    python lab/tools/history/run.py --apache --runs 20   on Apache Kafka 4.4 (Java 17 and Maven)
    python lab/tools/history/run.py --keep FOLDER        keeps the histories of runs, to look at

Each client is a process that writes its own history (docs/lab/history-format.md). Some are killed with SIGKILL and
restart under another name; the broker is killed once in each run. Exit code 1: an anomaly.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from kohort import Admin, Consumer, KohortError, TopicPartition
from kohort_lab.history.checker import CheckedHistory, check_history
from kohort_lab.history.writer import ClientHistory

HERE = Path(__file__).parent
PARTITIONS = {"in": 6, "out": 3}
CLIENTS = [
    ("with_kohort.py", "produce", "plain"),
    ("with_kohort.py", "produce", "idempotent"),
    ("with_asyncio.py", "produce", "idempotent"),
    ("with_confluent.py", "produce", "idempotent"),
    *[("with_kohort.py", "consume", "classic")] * 2,
    ("with_confluent.py", "consume", "classic"),
    ("with_kohort.py", "consume", "consumer"),
    ("with_asyncio.py", "consume", "consumer"),
    *[("with_kohort.py", "copy", "classic")] * 2,
]
"""Program, verb and kind of each client."""
CLOCK = socket.gethostname()
ENDS_S = 60
AT_WORK_S = 300
AT_WORK_BYTES = 2_000
"""Growth of a history that shows progress: a few operations."""
READ_S = 60
STATE = [
    ("transactions", "list", "--output", "json"),
    *[("transactions", "describe", f"copy{number}") for number, (_, verb, _) in enumerate(CLIENTS) if verb == "copy"],
    ("group", "describe", "--all-groups"),
    ("group", "describe", "copiers", "--members"),
    ("group", "why", "copiers"),
]
"""Commands that describe a cluster with stalled clients."""


def now_us() -> int:
    return time.monotonic_ns() // 1000


def free_ports(count: int) -> int:
    """Return the first of ``count`` free ports in a row, outside of the system's range for clients."""
    for first in random.SystemRandom().sample(range(20_000, 32_000, count), 100):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise RuntimeError(f"no {count} free ports in a row")


class OurBroker:
    """``kohort serve`` on a folder, with the same addresses after a restart; several nodes in one process."""

    def __init__(self, folder: Path, *options: str, nodes: int = 1) -> None:
        self._folder = folder
        self._options = ["group.initial.rebalance.delay.ms=200", *options]
        self._nodes = nodes
        if nodes > 1:
            self._options.append(f"default.replication.factor={nodes}")
        self.bootstrap = f"127.0.0.1:{free_ports(nodes) if nodes > 1 else 0}"
        self.start()
        self.wait()

    def start(self) -> None:
        """Start the broker process, and return before it serves requests."""
        command = [sys.executable, "-m", "kohort", "serve", "--output", "json", "--quiet", "--data", str(self._folder)]
        command += ["--nodes", str(self._nodes), "--listen", self.bootstrap.partition(",")[0]]
        command += [word for option in self._options for word in ("--set", option)]
        with self._folder.with_name("broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)

    def wait(self) -> None:
        """Wait until the broker serves requests. Raises RuntimeError if its process exits."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            log = self._folder.with_name("broker.log").read_text()[-2000:]
            raise RuntimeError(f"kohort serve ended with {self._process.wait()}: {log}")
        self.bootstrap = json.loads(line)["bootstrap"]

    def end(self, *, kill: bool) -> None:
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.wait(ENDS_S)

    def restart(self, *, kill: bool) -> None:
        self.end(kill=kill)
        self.start()
        self.wait()

    def keep(self, folder: Path) -> None:
        """Copy no files: the broker writes its data folder beside the client histories."""

    def __enter__(self) -> OurBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


class ClientPool:
    """Clients of a run: processes that are replaced under new names after a kill or an exit."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._lives = [0] * len(CLIENTS)
        self._running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}
        self.killed = 0

    def start(self, number: int) -> None:
        program, verb, kind = CLIENTS[number]
        self._lives[number] += 1
        name = f"{verb}{number}#{self._lives[number]}"
        command = [sys.executable, str(HERE / program), verb, self._bootstrap, name, str(self._folder), kind]
        log = (self._folder / f"{name}.log").open("wb")
        self._running[number] = name, subprocess.Popen(command, stdout=log, stderr=log)

    def start_all(self) -> None:
        for number in range(len(CLIENTS)):
            self.start(number)

    def kill(self, number: int) -> None:
        name, process = self._running[number]
        process.kill()
        process.wait()
        self.killed += 1
        self._record_end(name)
        self.start(number)

    def _record_end(self, name: str) -> None:
        """Record a client's end in a file of its own: its last line may be incomplete."""
        with (self._folder / f"{name}.gone.jsonl").open("w") as file:
            file.write(json.dumps({"op": "gone", "client": name, "at": now_us()}) + "\n")

    def wait_until_at_work(self) -> None:
        """Wait until every client has made progress. Raises RuntimeError at the deadline."""
        before = self._sizes()
        deadline = time.monotonic() + AT_WORK_S
        while not all(self._sizes()[n] > before[n] + AT_WORK_BYTES for n in self._running):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"no progress of some clients within {AT_WORK_S} s: {self._sizes()} bytes, before: {before}"
                )
            time.sleep(0.2)
            self.look_after()

    def _sizes(self) -> dict[int, int]:
        files = {n: self._folder.glob(f"{CLIENTS[n][1]}{n}#*.jsonl") for n in self._running}
        return {n: sum(path.stat().st_size for path in found) for n, found in files.items()}

    def look_after(self) -> None:
        """Restart clients that exited, such as a fenced producer."""
        for number, (name, process) in list(self._running.items()):
            if process.poll() is not None:
                self._record_end(name)
                self.start(number)

    def end(self) -> None:
        for _, process in self._running.values():
            process.terminate()
        for name, process in self._running.values():
            try:
                process.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._record_end(name)


def read_all(bootstrap: str, folder: Path) -> None:
    """Read every topic to its end with ``read_committed``."""
    with (folder / "last-reader.jsonl").open("w") as file:
        written = ClientHistory(file, "last-reader", now_us, isolation="read_committed", clock=CLOCK)
        with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as c:
            partitions = [TopicPartition(topic, p) for topic, count in PARTITIONS.items() for p in range(count)]
            c.assign(partitions)
            for partition in partitions:
                written.write("seek", topic=partition.topic, partition=partition.partition, offset=0)
            ends, deadline = c.end_offsets(partitions), time.monotonic() + READ_S
            while any(c.position(p) < end for p, end in ends.items()) and time.monotonic() < deadline:
                at = now_us()
                for record in c.poll(500):
                    where = (record.topic, record.partition)
                    written.read(at, where, [(record.offset, record.value.decode())])
            for p in partitions:
                written.read(now_us(), (p.topic, p.partition), [], c.position(p))


def run(broker, folder: Path, seconds: float, rng: random.Random) -> CheckedHistory:
    """Run all clients while some are killed and the broker is restarted once; check the client histories."""

    def strike(crowd: ClientPool) -> None:
        for half in range(2):
            ends = time.monotonic() + seconds / 2
            while time.monotonic() < ends:
                time.sleep(rng.uniform(0.5, 3))
                crowd.look_after()
                if rng.random() < 0.5:
                    crowd.kill(rng.randrange(len(CLIENTS)))
            if not half:
                broker.restart(kill=rng.random() < 0.7)
            crowd.wait_until_at_work()

    return watch(broker, folder, strike)


def watch(broker, folder: Path, strike: Callable[[ClientPool], None]) -> CheckedHistory:
    """Run all clients while ``strike`` disturbs them and the broker; check the client histories."""
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.create_topics(PARTITIONS)
    with (folder / "0-groups.jsonl").open("w", buffering=1) as file:
        written = ClientHistory(file, "runner", now_us, clock=CLOCK)
        written.write("group", group="readers-consumer", protocol="consumer")
        written.write("group", group="copiers", effects="out")
        crowd = ClientPool(broker.bootstrap, folder)
        try:
            crowd.start_all()
            crowd.wait_until_at_work()
            strike(crowd)
        except RuntimeError as stalled:
            stalled.add_note(f"state of the cluster: {write_evidence(broker.bootstrap, folder)}")
            broker.keep(folder / "kept")
            raise
        finally:
            crowd.end()
    read_all(broker.bootstrap, folder)
    check_commits(folder)
    files = sorted(folder.glob("*.jsonl"), key=lambda path: (path.name.endswith(".gone.jsonl"), path.name))
    return check_history(files)


def write_evidence(bootstrap: str, folder: Path) -> Path:
    """Write the cluster's description of its transactions and groups while stalled clients exist."""
    written = folder / "stalled.txt"
    with written.open("w") as file:
        for words in STATE:
            command = [sys.executable, "-m", "kohort", *words, "--bootstrap", bootstrap]
            try:
                process = subprocess.run(command, capture_output=True, text=True, timeout=ENDS_S, check=False)
                output = process.stdout + process.stderr
            except subprocess.TimeoutExpired:
                output = f"no answer within {ENDS_S} s\n"
            file.write(f"$ kohort {' '.join(words)}\n{output}\n")
    return written


def check_commits(folder: Path) -> None:
    """Check that members of each kind have acknowledged commits: without them, a history does not test commits.
    Raises RuntimeError.
    """
    for number, (program, verb, kind) in enumerate(CLIENTS):
        if verb != "produce":
            lives = folder.glob(f"{verb}{number}#*.jsonl")
            if not any('"op":"commit"' in line and '"ok"' in line for life in lives for line in life.open()):
                raise RuntimeError(
                    f"{verb}{number} ({program}, {kind}): none of its commits was acknowledged: {folder}"
                )


class ApacheBroker:
    """An Apache Kafka at one address."""

    def __init__(self, stack: ExitStack) -> None:
        spec = importlib.util.spec_from_file_location("kafka_tool", HERE.parents[2] / "tools" / "kafka" / "run.py")
        assert spec is not None
        assert spec.loader is not None
        tool = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(tool)
        # A killed broker can register again only after its session; the default is nine seconds longer.
        self._kafka = stack.enter_context(tool.Kafka(broker_session_timeout_ms="15000"))
        self.bootstrap: str = self._kafka.bootstrap

    def restart(self, *, kill: bool) -> None:
        self._kafka.restart(kill=kill)

    def keep(self, folder: Path) -> None:
        """Copy its files before their removal."""
        self._kafka.keep(folder)


def one_run(number: int, options: argparse.Namespace, say: Callable[[str], None] = print) -> CheckedHistory:
    """Make one run from its number; remove its files unless an error occurred or they are to be kept."""
    folder = Path(tempfile.mkdtemp(prefix=f"run-{number}-", dir=options.keep))
    with ExitStack() as stack:
        broker = ApacheBroker(stack) if options.apache else stack.enter_context(OurBroker(folder / "data"))
        found = run(broker, folder, options.seconds, random.Random(number))
    wrong = ", ".join(f"{check} {count}" for check, count in found.counts.items()) or "nothing is wrong"
    size = f"{found.operations} operations of {found.clients} clients, {found.transactions} transactions"
    say(f"run {number}: {size}: {wrong}")
    if found.counts:
        for anomaly in found.anomalies:
            say(f"{anomaly.check}: {anomaly.sentence}")
            for proof in anomaly.evidence:
                say(f"    {proof.place}  {proof.line}")
    elif options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run, which is its seed")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--apache", action="store_true", help="use Apache Kafka")
    parser.add_argument("--keep", type=Path, help="existing folder for histories")
    return parser.parse_args(arguments)


def main() -> int:
    options = options_of(sys.argv[1:])
    try:
        found = [one_run(number, options) for number in range(options.first, options.first + options.runs)]
    except KohortError as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if any(one.counts for one in found) else 0


if __name__ == "__main__":
    sys.exit(main())

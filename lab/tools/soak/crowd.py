"""Processes of a soak: start them, sample them, end them, and check their histories."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from faults.process import sample

from kohort import Admin, Consumer, TopicPartition
from kohort.client.admin.model import ConfigResource, NewTopic
from kohort_lab.history.checker import CheckedHistory, check_history
from kohort_lab.history.writer import ClientHistory

HERE: Final = Path(__file__).parent
HISTORY: Final = HERE.parent / "history"
PARTITIONS: Final = {"in": 6, "out": 3}
ENDS_S: Final = 90
READ_S: Final = 120
LATE_S: Final = 0.1
"""Least delay of a late event loop check, rounded up to a histogram bucket."""
SEGMENT_BYTES: Final = 262_144
JOURNAL: Final = "__kohort_journal"
"""Topic kept for a week or a gibibyte by default, and so never flat in a soak."""
BROKER: Final = {
    "group.initial.rebalance.delay.ms": 200,
    "log.retention.check.interval.ms": 3000,
    "log.cleaner.backoff.ms": 3000,
    "log.cleaner.min.cleanable.ratio": 0.2,
    "log.cleaner.delete.retention.ms": 10_000,
    "log.roll.ms": 10_000,
    "offsets.topic.num.partitions": 5,
    "offsets.topic.segment.bytes": SEGMENT_BYTES,
    "transaction.state.log.num.partitions": 5,
    "transaction.state.log.segment.bytes": SEGMENT_BYTES,
    "producer.id.expiration.ms": 60_000,
}


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Soak:
    """One run."""

    STALL_S: Final = 20.0
    """A client without output for this long has stalled."""

    def __init__(self, folder: Path, samples: Path, *, minutes: float, every_s: float, spark: bool, leak: bool) -> None:
        self._folder = folder
        self._file = samples
        self._seconds = minutes * 60
        self._every_s = every_s
        self._spark = spark
        self._leak = leak
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._moved: dict[str, tuple[int, float]] = {}
        self.samples: list[dict[str, Any]] = []
        self.stalls: list[str] = []
        self._looks = self._late = 0.0
        self._lag: tuple[float, float] = (0.0, 0.0)

    @property
    def late_share(self) -> float:
        """Share of late event loop checks of the broker."""
        return self._late / self._looks if self._looks else 0.0

    @property
    def retention_s(self) -> int:
        """Retention time of records: so short that the log is in balance in the second half."""
        return int(min(300, max(30, self._seconds / 5)))

    def run(self) -> CheckedHistory:
        """Run all processes for the given time. Raises RuntimeError if one exits early."""
        try:
            self._start()
            self._take_samples()
            self._end_clients()
            self._read_all()
        finally:
            for process in self._processes.values():
                if process.poll() is None:
                    process.kill()
                    process.wait()
                if process.stdout is not None:
                    process.stdout.close()
        files = sorted(self._folder.glob("*.jsonl"), key=lambda path: (path.name.endswith(".gone.jsonl"), path.name))
        return check_history(files)

    # ------------------------------------------------------------ processes

    def _start(self) -> None:
        self._metrics = f"127.0.0.1:{free_port()}"
        options = [word for name, value in BROKER.items() for word in ("--set", f"{name}={value}")]
        data = self._folder / "data"
        self._spawn(
            "broker", "-m", "kohort", "serve", "--output", "json", "--quiet", "--data", str(data),
            "--listen", "127.0.0.1:0", "--metrics", self._metrics, *options,
        )  # fmt: skip
        out = self._processes["broker"].stdout
        assert out is not None
        line = out.readline()
        if not line:
            raise RuntimeError(f"kohort serve ended: {(self._folder / 'broker.log').read_text()[-2000:]}")
        self._bootstrap = json.loads(line)["bootstrap"]
        self._make_topics()
        programs = {
            "plain": (str(HISTORY / "with_kohort.py"), "produce", "plain"),
            "idempotent": (str(HISTORY / "with_kohort.py"), "produce", "idempotent"),
            "transactions": (str(HISTORY / "with_kohort.py"), "copy", "classic"),
        }
        for name, (program, verb, kind) in programs.items():
            self._spawn(name, program, verb, self._bootstrap, f"{name}#1", str(self._folder), kind)
        leak = ["LEAK"] if self._leak else []
        self._spawn("groups", str(HERE / "clients.py"), "groups", self._bootstrap, str(self._folder))
        self._spawn("churn", str(HERE / "clients.py"), "churn", self._bootstrap, str(self._folder), *leak)
        if self._spark:
            self._spawn("spark", str(HERE / "spark_stream.py"), self._bootstrap, str(self._folder))
        self._bound_journal()

    def _make_topics(self) -> None:
        with (self._folder / "0-groups.jsonl").open("w", buffering=1) as file:
            written = ClientHistory(file, "runner", now_us, clock=socket.gethostname())
            written.write("group", group="copiers", effects="out")
        kept = {"retention.ms": str(self.retention_s * 1000), "segment.bytes": str(SEGMENT_BYTES)}
        compacted = {
            "cleanup.policy": "compact",
            "segment.bytes": str(SEGMENT_BYTES),
            "min.cleanable.dirty.ratio": "0.2",
        }
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            admin.create_topics(
                [
                    *(NewTopic(topic, count, configs=kept) for topic, count in PARTITIONS.items()),
                    NewTopic("compacted", 1, configs=compacted),
                    NewTopic("short", 1, configs={**kept, "retention.ms": "20000"}),
                    NewTopic("spark-out", 2, configs=kept),
                ]
            )

    def _bound_journal(self) -> None:
        """Reduce the journal's retention once its topic exists. Raises RuntimeError without the topic."""
        journal = ConfigResource("topic", JOURNAL)
        bound = {"retention.bytes": str(8 * SEGMENT_BYTES), "segment.bytes": str(SEGMENT_BYTES)}
        deadline = time.monotonic() + READ_S
        with Admin(bootstrap_servers=self._bootstrap) as admin:
            while all(topic.name != JOURNAL for topic in admin.list_topics(internal=True)):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"the broker did not create {JOURNAL}, although groups exist")
                time.sleep(0.2)
            admin.alter_configs({journal: bound})

    def _spawn(self, name: str, *command: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            out = subprocess.PIPE if name == "broker" else log
            self._processes[name] = subprocess.Popen([sys.executable, *command], stdout=out, stderr=log, text=True)

    def _end_clients(self) -> None:
        for name, process in self._processes.items():
            if name != "broker":
                process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            if name == "broker":
                continue
            try:
                code = process.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                self.stalls.append(f"{name} did not end within {ENDS_S} s after SIGTERM")
                process.kill()
                code = process.wait()
            if code:
                self._ended(name, code, self._seconds)
            if name in ("plain", "idempotent", "transactions"):
                with (self._folder / f"{name}.gone.jsonl").open("w") as file:
                    file.write(json.dumps({"op": "gone", "client": f"{name}#1", "at": now_us()}) + "\n")

    def _read_all(self) -> None:
        """Read the retained records with ``read_committed``; record their start offsets."""
        options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        partitions = [TopicPartition(topic, p) for topic, count in PARTITIONS.items() for p in range(count)]
        with (
            (self._folder / "last-reader.jsonl").open("w") as file,
            Admin(bootstrap_servers=self._bootstrap) as admin,
            Consumer(bootstrap_servers=self._bootstrap, **options) as consumer,
        ):
            written = ClientHistory(file, "last-reader", now_us, isolation="read_committed", clock=socket.gethostname())
            consumer.assign(partitions)
            begins = {p: found.offset for p, found in admin.list_offsets(dict.fromkeys(partitions, "earliest")).items()}
            for p in partitions:
                written.write("seek", topic=p.topic, partition=p.partition)
            ends, deadline = consumer.end_offsets(partitions), time.monotonic() + READ_S
            while any(consumer.position(p) < end for p, end in ends.items()) and time.monotonic() < deadline:
                at = now_us()
                for record in consumer.poll(500):
                    written.read(at, (record.topic, record.partition), [(record.offset, record.value.decode())])
            now = {p: found.offset for p, found in admin.list_offsets(dict.fromkeys(partitions, "earliest")).items()}
            for p in partitions:
                written.write("cut", topic=p.topic, partition=p.partition, offset=max(now[p], begins[p]))

    # ------------------------------------------------------------ samples

    def _take_samples(self) -> None:
        began = time.monotonic()
        with self._file.open("w", buffering=1) as file:
            while (at_s := time.monotonic() - began) < self._seconds:
                one = {"at_s": round(at_s, 2), "values": dict(self._values(at_s))}
                self.samples.append(one)
                file.write(json.dumps(one) + "\n")
                time.sleep(self._every_s)

    def _values(self, at_s: float) -> Iterator[tuple[str, float]]:
        for name, process in self._processes.items():
            if process.poll() is not None:
                self._ended(name, process.returncode, at_s)
                continue
            found = [one for pid in tree(process.pid) if (one := _sample(pid)) is not None]
            yield f"{name} rss", sum(one.rss_bytes for one in found)
            yield f"{name} handles", sum(one.handles for one in found)
            yield f"{name} threads", sum(one.threads for one in found)
            yield f"{name} cpu_s", round(sum(one.cpu_s for one in found), 2)
        yield "broker disk", disk_bytes(self._folder / "data")
        for folder in (self._folder / "data").iterdir():
            if folder.is_dir():
                yield f"disk of {folder.name}", disk_bytes(folder)
        yield from self._scrape()
        self._look_for_stalls(at_s)

    def _ended(self, name: str, code: int, at_s: float) -> None:
        """Record the early exit of a process. Raises RuntimeError for the broker."""
        log = (self._folder / f"{name}.log").read_text(errors="replace")[-1000:]
        end_text = f"{name} ended with {code}"
        if name == "broker":
            raise RuntimeError(f"{end_text} after {at_s:.0f} s: {log}")
        if not any(stall.startswith(end_text) for stall in self.stalls):
            self.stalls.append(f"{end_text} after {at_s:.0f} s: {log}")

    def _scrape(self) -> Iterator[tuple[str, float]]:
        """Read /metrics, and the event loop's delay since the last scrape."""
        try:
            with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=20) as answer:
                page = answer.read().decode()
        except OSError as error:
            self.stalls.append(f"/metrics does not answer: {error}")
            return
        total, count = (_metric(page, f"kohort_broker_loop_lag_seconds_{what}") for what in ("sum", "count"))
        within = _within(page, "kohort_broker_loop_lag_seconds", LATE_S)
        self._looks, self._late = count, count - within
        was_total, was_count = self._lag
        if count > was_count:
            yield "broker loop_lag_ms", round((total - was_total) / (count - was_count) * 1000, 3)
        self._lag = total, count
        yield "scrape bytes", len(page)

    def _look_for_stalls(self, at_s: float) -> None:
        sizes = {name: (self._folder / f"{name}#1.jsonl") for name in ("plain", "idempotent", "transactions")}
        now = {name: path.stat().st_size if path.exists() else 0 for name, path in sizes.items()}
        now["groups"] = sum(path.stat().st_size for path in self._folder.glob("group*.jsonl"))
        if self._spark and (self._folder / "spark.batch").exists():
            now["spark"] = int((self._folder / "spark.batch").read_text())
        for name, size in now.items():
            was, since_s = self._moved.get(name, (-1, at_s))
            if size != was:
                self._moved[name] = size, at_s
            elif at_s - since_s > self.STALL_S:
                self.stalls.append(f"{name} did nothing from {since_s:.0f} s to {at_s:.0f} s")
                self._moved[name] = size, at_s


def _sample(pid: int) -> Any:
    with suppress(OSError, IndexError):
        return sample(pid)
    return None


def _metric(page: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _within(page: str, name: str, seconds: float) -> float:
    """Return the count of the smallest bucket that ends at or above ``seconds``."""
    buckets = re.findall(rf'^{name}_bucket{{le="([^"]+)"}} (\S+)$', page, re.MULTILINE)
    above = [(float(end), float(count)) for end, count in buckets if float(end) >= seconds]
    return min(above)[1] if above else 0.0


def tree(pid: int) -> list[int]:
    """Return a process and its descendants: Spark's Java and workers."""
    found = [pid]
    for one in found:
        with suppress(OSError):
            for task in (Path("/proc") / str(one) / "task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def disk_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

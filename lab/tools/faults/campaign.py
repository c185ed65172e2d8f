"""Run faults with every client face, measure their effects, and check the histories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.catalogue import Fault
from faults.process import Sample, sample
from faults.report import PROGRESS, history, now_us
from faults.report import Task as ClientTask
from faults.world import PARTITIONS, SCALED, SCALED_PRODUCER, World, write
from kohort import Consumer, TopicPartition
from kohort_lab.history.checker import CheckedHistory, check_history

CLIENT: Final = Path(__file__).parent / "client.py"
FACES: Final = (
    "poll-classic",
    "poll-modern",
    "arrow-classic",
    "arrow-modern",
    "asyncio-classic",
    "asyncio-modern",
    "handlers-classic",
    "handlers-modern",
    "async-handlers-classic",
    "async-handlers-modern",
    "producer",
    "transactions",
    "async-producer",
    "admin",
    "async-admin",
)
"""Client faces: consumers of both protocols (modern: KIP-848), producers, admin clients."""
AT_WORK_S: Final = 120
LOOK_S: Final = 0.02
SETTLED_S: Final = 3.5
"""Delay from the fault to the first measurement: requests in flight have timed out."""
GIVE_UP_S: Final = 60
READ_S: Final = 60


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of the measurements."""

    recovers_s: float = 20.0
    """From the fault's end to the end of the first operation that began after it."""
    cpu: float = 0.02
    """Share of a processor while no operation can succeed."""
    closes_s: float = 8.0
    """``close()`` during the fault: the scaled request timeouts are shorter."""
    producer_closes_s: float = 31.0
    """``close()`` of a producer delivers or aborts for up to 30 s, as documented."""
    grows_bytes: int = 24 << 20
    handles: int = 8
    threads: int = 8


@dataclass
class Cell:
    """Measurements of one face with one fault."""

    face: str
    fault: str
    recovered_s: float | None = None
    cpu: float | None = None
    close_s: float | None = None
    grew_bytes: int = 0
    more_handles: int = 0
    more_threads: int = 0
    first_report: str = ""
    """Its first warning or error."""
    wrong: list[str] = field(default_factory=list)


class Client:
    """One client under test: a process and its reports."""

    def __init__(self, world: World, face: str, name: str, door: str, *, group: str = "") -> None:
        self.face, self.name = face, name
        inject = {"named": ["resolver"], "oauth": ["token"]}.get(door, [])
        address = world.cluster.inside if door == "inside" else world.address(door)
        options = {**world.options(door), **SCALED, **(SCALED_PRODUCER if makes(face) else {})}
        if face == "feeder":
            options = {}
        self._task = ClientTask(face, name, str(world.folder), address, options, group or f"group-{face}", inject)
        write(self._task.file("json"), asdict(self._task))
        with self._task.file("log").open("wb") as log:
            command = [sys.executable, str(CLIENT), str(self._task.file("json"))]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    @property
    def progress(self) -> tuple[int, int, int]:
        """Number of successful operations; begin and end of the last one."""
        with suppress(FileNotFoundError):
            read = self._task.file("progress").read_bytes()
            if len(read) == PROGRESS.size:
                return PROGRESS.unpack(read)  # type: ignore[return-value]
        return 0, 0, 0

    def reports(self) -> list[dict[str, Any]]:
        """Reports so far: warnings, errors, its end."""
        with suppress(FileNotFoundError):
            lines = self._task.file("said").read_text().splitlines()
            return [json.loads(line) for line in lines if line.endswith("}")]
        return []

    def log(self) -> str:
        return self._task.file("log").read_text(errors="replace")[-2000:]

    def sample(self) -> Sample | None:
        with suppress(OSError, IndexError):
            return sample(self.process.pid)
        return None

    def end(self, wait_s: float) -> bool:
        """Wait for its end; kill it at the deadline. Return True if it ended by itself."""
        try:
            self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        finally:
            with self._task.file("gone.jsonl").open("w") as file:
                file.write(json.dumps({"op": "gone", "client": self.name, "at": now_us()}) + "\n")
        return self.process.returncode == 0


def makes(face: str) -> bool:
    """Return True for a producer."""
    return face in ("producer", "async-producer", "transactions")


class Campaign:
    """Successive faults in one cluster."""

    def __init__(self, world: World, faces: Iterable[str], bounds: Bounds, say: Callable[[str], None] = print) -> None:
        self._world = world
        self._faces = list(faces)
        self._bounds = bounds
        self._say = say
        self._lives = 0
        self._feeder = Client(world, "feeder", "feeder", "inside")
        self._all: list[Client] = []
        self.cells: list[Cell] = []

    def play(self, fault: Fault) -> list[Cell]:
        """Apply a fault twice to all faces: first measure the recovery, then ``close()``."""
        self._lives += 1
        clients = [self._begin(face, f"{face}#{self._lives}", fault.door) for face in self._faces]
        twins: list[Client] = []
        self._await_work(clients)
        if fault.twins:
            members = [face for face in self._faces if not makes(face) and "admin" not in face]
            twins = [self._begin(face, f"{face}-twin#{self._lives}", fault.door) for face in members]
            self._await_work(twins)
        cells = [Cell(face, fault.name) for face in self._faces]
        self._recover(fault, clients, cells)
        for twin in twins:
            twin.process.terminate()
        self._close(fault, clients, cells)
        for twin in twins:
            twin.end(GIVE_UP_S)
        for cell in cells:
            cell.wrong += wrongs(fault, cell, self._bounds)
            for wrong in cell.wrong:
                self._say(f"WRONG {fault.name}, {cell.face}: {wrong}")
        self.cells += cells
        return cells

    def _begin(self, face: str, name: str, door: str) -> Client:
        client = Client(self._world, face, name, door)
        self._all.append(client)
        return client

    def _await_work(self, clients: list[Client]) -> None:
        deadline = time.monotonic() + AT_WORK_S
        while idle := [client for client in clients if client.progress[0] < 3]:
            if time.monotonic() > deadline or any(client.process.poll() is not None for client in idle):
                idle_text = "\n".join(f"{client.name}: {client.reports()[-2:]} {client.log()}" for client in idle)
                raise RuntimeError(f"clients without progress before any fault:\n{idle_text}")
            time.sleep(0.1)

    def _recover(self, fault: Fault, clients: list[Client], cells: list[Cell]) -> None:
        pids = [client.process.pid for client in clients]
        before = [client.sample() for client in clients]
        struck_us = now_us()
        fault.strike(self._world, fault.door, pids)
        if fault.waits:
            time.sleep(SETTLED_S)
            first, at = [client.sample() for client in clients], time.monotonic()
            time.sleep(fault.lasts_s - SETTLED_S)
            waited_s = time.monotonic() - at
            for client, cell, one in zip(clients, cells, first, strict=True):
                two = client.sample()
                cell.cpu = (two.cpu_s - one.cpu_s) / waited_s if one and two else None
        else:
            time.sleep(fault.lasts_s)
        if not fault.stays:
            self._heal(fault, pids)
        healed_us = now_us()
        waiting = list(zip(cells, clients, strict=True))
        deadline = time.monotonic() + GIVE_UP_S
        while waiting and time.monotonic() < deadline:
            for pair in list(waiting):
                _, begun_us, done_us = pair[1].progress
                if begun_us >= healed_us:
                    pair[0].recovered_s = (done_us - healed_us) / 1e6
                    waiting.remove(pair)
            time.sleep(LOOK_S)
        if fault.stays:
            self._heal(fault, pids)
        time.sleep(0.5)  # replaced connections have closed
        for client, cell, was in zip(clients, cells, before, strict=True):
            now = client.sample()
            if was and now:
                cell.grew_bytes = now.rss_bytes - was.rss_bytes
                cell.more_handles = now.handles - was.handles
                cell.more_threads = now.threads - was.threads
            reports = [
                report for report in client.reports() if report["at"] >= struck_us and report["kind"] != "closed"
            ]
            cell.first_report = f"{reports[0]['name']}: {reports[0]['text']}" if reports else ""

    def _heal(self, fault: Fault, pids: list[int]) -> None:
        self._world.heal()
        if fault.heal is not None:
            fault.heal(self._world, fault.door, pids)

    def _close(self, fault: Fault, clients: list[Client], cells: list[Cell]) -> None:
        pids = [client.process.pid for client in clients]
        if fault.closes:
            fault.strike(self._world, fault.door, pids)
            time.sleep(min(fault.lasts_s, 1.0))
        for client in clients:
            client.process.send_signal(signal.SIGTERM)
        for client, cell in zip(clients, cells, strict=True):
            if not client.end(GIVE_UP_S):
                code = client.process.returncode
                how = f"did not end within {GIVE_UP_S} s" if code == -signal.SIGKILL else f"ended with {code}"
                cell.wrong.append(f"{how}: {client.log()[-300:]}")
            closed = [float(report["text"]) for report in client.reports() if report["kind"] == "closed"]
            cell.close_s = closed[-1] if closed else None
        if fault.closes:
            self._heal(fault, [])

    def end(self) -> CheckedHistory:
        """Stop the feeder, read all topics, and check the histories."""
        self._feeder.process.terminate()
        self._feeder.end(GIVE_UP_S)
        read_all(self._world)
        folder = self._world.folder
        files = sorted(folder.glob("*.jsonl"), key=lambda path: (path.name.endswith(".gone.jsonl"), path.name))
        return check_history(files)

    def kill(self) -> None:
        """Kill all processes."""
        for client in (*self._all, self._feeder):
            if client.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(client.process.pid, signal.SIGCONT)
                client.process.kill()
                client.process.wait()


def wrongs(fault: Fault, cell: Cell, bounds: Bounds) -> list[str]:
    """Return the exceeded bounds of one face with one fault."""
    found = []
    if cell.recovered_s is None:
        found.append(f"did not recover within {GIVE_UP_S} s; it said {cell.first_report or 'nothing'}")
    elif cell.recovered_s > bounds.recovers_s:
        found.append(f"recovered after {cell.recovered_s:.1f} s, not {bounds.recovers_s:.0f}")
    if cell.cpu is not None and cell.cpu > bounds.cpu:
        found.append(f"took {cell.cpu:.1%} of a processor while it waited")
    closes_s = bounds.producer_closes_s if makes(cell.face) else bounds.closes_s
    if cell.close_s is None:
        found.append("close did not return")
    elif cell.close_s > closes_s:
        found.append(f"close took {cell.close_s:.1f} s")
    if cell.grew_bytes > bounds.grows_bytes:
        found.append(f"grew by {cell.grew_bytes >> 20} MB")
    if cell.more_handles > bounds.handles or cell.more_threads > bounds.threads:
        found.append(f"has {cell.more_handles} more handles and {cell.more_threads} more threads")
    if fault.tells and not cell.first_report:
        found.append("said nothing")
    return found


def read_all(world: World) -> None:
    """Read every topic to its end without a proxy, with ``read_committed``."""
    of = ClientTask("last-reader", "last-reader", str(world.folder), world.cluster.inside, {}, "", [])
    written = history(of, isolation="read_committed")
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=of.bootstrap, **options) as consumer:
        partitions = [TopicPartition(topic, p) for topic, count in PARTITIONS.items() for p in range(count)]
        consumer.assign(partitions)
        for p in partitions:
            written.write("seek", topic=p.topic, partition=p.partition, offset=0)
        ends, deadline = consumer.end_offsets(partitions), time.monotonic() + READ_S
        while any(consumer.position(p) < end for p, end in ends.items()) and time.monotonic() < deadline:
            at = now_us()
            for record in consumer.poll(500):
                written.read(at, (record.topic, record.partition), [(record.offset, record.value.decode())])
        for p in partitions:
            written.read(now_us(), (p.topic, p.partition), [], consumer.position(p))

"""Processes of the demo (broker, group members), which end with the demo; and loading of its topics."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.aio.producing.producer import Producer
from kohort.errors import KohortError

if TYPE_CHECKING:
    import pyarrow as pa

    from kohort.aio.producing.delivery import Delivery


START_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0


class ProcessFailed(KohortError):
    pass


@dataclass(slots=True)
class Child:
    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def check_alive(self) -> None:
        code = self.process.poll()
        if code is not None:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-5:]
            raise ProcessFailed(
                f"{self.name} (pid {self.pid}) ended with code {code}: {' | '.join(tail) or 'no output'}"
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)


@dataclass(slots=True)
class Processes:
    folder: Path
    children: list[Child] = field(default_factory=list)

    def __enter__(self) -> Processes:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self.children):
            self.end(child)

    def start(self, name: str, *command: str, answers: bool = False) -> Child:
        """Start ``python -m ...`` in a session of its own: Ctrl-C reaches only the demo, which ends the process."""
        log = self.folder / f"{name}.log"
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if answers else subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        child = Child(name, process, log)
        self.children.append(child)
        return child

    def start_broker(self, data: Path, settings: dict[str, str]) -> str:
        options = ["--data", str(data), "--listen", "127.0.0.1:0", "--output", "json", "--quiet"]
        options += [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
        child = self.start("broker", "kohort", "serve", *options, answers=True)
        line = read_line(child, START_TIMEOUT_S)
        try:
            return str(json.loads(line)["bootstrap"])
        except (ValueError, KeyError):
            raise ProcessFailed(f"broker: expected the JSON line of a ready kohort serve, not {line!r}") from None

    def end(self, child: Child) -> None:
        if child.process.poll() is None:
            child.process.terminate()
        try:
            child.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
        if child.process.stdout is not None:
            child.process.stdout.close()


def read_line(child: Child, timeout_s: float) -> bytes:
    stdout = child.process.stdout
    if stdout is None:
        raise ProcessFailed(f"{child.name}: started without answers=True, so its output cannot be read")
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([stdout], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise ProcessFailed(f"{child.name}: no output within {timeout_s:.0f} s")
        chunk = os.read(stdout.fileno(), 4096)
        if not chunk:
            child.process.wait(STOP_TIMEOUT_S)
            child.check_alive()
        line += chunk
    return line.splitlines()[0]


class DemoHooks:
    """Hooks called by the demo, such as for its console; they may raise only KeyboardInterrupt."""

    def broker_started(self, bootstrap: str) -> None: ...

    def group_finished(self, until_ms: int) -> None:
        """Called with the time of the last entry in the group's journal."""

    def done(self) -> None: ...

    def end(self) -> None: ...


PARTITIONS: Final = 6
_ROWS_AT_ONCE: Final = 2000


def records_of(table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of each row; flights and weather of one airport and hour have the same key."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            yield f"{row['origin']} {row['time_hour'][:13]}".encode(), encode(row).encode()


def load_table(bootstrap: str, topic: str, table: pa.Table, on_rows: Callable[[int], None]) -> int:
    deliveries: list[Delivery] = []
    with Producer(
        bootstrap_servers=bootstrap, client_id="demo-loader", compression_type="lz4", batch_size=262144, linger_ms=20
    ) as producer:
        reported = 0
        for key, value in records_of(table):
            deliveries.append(producer.send(topic, value, key))
            if len(deliveries) - reported >= _ROWS_AT_ONCE:
                on_rows(len(deliveries) - reported)
                reported = len(deliveries)
        producer.flush()
        on_rows(len(deliveries) - reported)
    for delivery in deliveries:
        error = delivery.exception()
        if error is not None:
            raise error
    return len(deliveries)

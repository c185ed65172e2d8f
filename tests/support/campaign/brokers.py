"""Brokers of the campaign, one restartable process each, with a query of their rebalances."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from support.campaign.right_causes import APACHE, OURS
from support.peers.apache_kafka import kafka_tool

MIN_SESSION_MS: Final = 500
INITIAL_DELAY_MS: Final = 500
START_S: Final = 60.0
START_ATTEMPTS: Final = 5
"""A client that connects to the free port of the broker can occupy that port for a moment."""
BROKER_OPTIONS: Final = {
    "group.min.session.timeout.ms": MIN_SESSION_MS,
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.consumer.min.session.timeout.ms": MIN_SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
}


class CampaignBroker(Protocol):
    """A broker that the campaign runs on."""

    name: str
    bootstrap: str

    def restart(self, *, kill: bool) -> None: ...
    def stall(self, seconds: float) -> None: ...
    def findings(self, group: str) -> list[dict[str, Any]]: ...


def kohort(*words: str, env: dict[str, str] | None = None) -> list[str]:
    return [sys.executable, "-m", "kohort", *words]


def reported_rebalances(bootstrap: str, group: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return what ``kohort group why --all`` reports for a group; empty if it reports nothing."""
    command = kohort("group", "why", group, "--last", "0", "--output", "json", "--bootstrap", bootstrap)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    if done.returncode:
        return []
    found: list[dict[str, Any]] = json.loads(done.stdout)["rebalances"]
    return found


class KohortBroker:
    """``kohort serve`` on a data folder of its own."""

    name = OURS

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.bootstrap = f"127.0.0.1:{probe.getsockname()[1]}"
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        options = [word for name, value in BROKER_OPTIONS.items() for word in ("--set", f"{name}={value}")]
        command = kohort("serve", "--listen", self.bootstrap, "--data", str(self._folder / "data"), *options)
        with (self._folder / "serve.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self.bootstrap, process)
        return process

    def restart(self, *, kill: bool) -> None:
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.wait(30)
        for remaining in reversed(range(START_ATTEMPTS)):
            try:
                self._process = self._start()
            except RuntimeError:
                if not remaining:
                    raise
                time.sleep(1)
            else:
                return

    def stall(self, seconds: float) -> None:
        """Suspend the broker's process."""
        stand_still(self._process.pid, seconds)

    def findings(self, group: str) -> list[dict[str, Any]]:
        """Return the rebalances of a group from the broker's journal."""
        return reported_rebalances(self.bootstrap, group)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)


class ApacheBroker:
    """An Apache Kafka broker with ``kohort watch``."""

    name = APACHE

    def __init__(self, kafka: Any, folder: Path) -> None:
        self._kafka, self.bootstrap = kafka, kafka.bootstrap
        self._env = {**os.environ, "XDG_STATE_HOME": str(folder)}
        with (folder / "watch.log").open("ab") as log:
            command = kohort("watch", "--bootstrap", self.bootstrap, "--interval", "0.3", "--output", "ndjson")
            self._watcher = subprocess.Popen(command, stdout=log, stderr=log, env=self._env)

    def restart(self, *, kill: bool) -> None:
        self._kafka.restart(kill=kill)

    def stall(self, seconds: float) -> None:
        """Suspend the broker's process."""
        stand_still(self._kafka.pid, seconds)

    def findings(self, group: str) -> list[dict[str, Any]]:
        """Return the rebalances of a group from the watcher's journal."""
        assert self._watcher.poll() is None, "the watcher has ended"
        return reported_rebalances(self.bootstrap, group, self._env)

    def end(self) -> None:
        self._watcher.kill()
        self._watcher.wait(30)


def stand_still(pid: int, seconds: float) -> None:
    """Suspend a process for ``seconds``."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process listens at ``address``. Raises RuntimeError if it exits or exceeds the deadline."""
    host, _, port = address.rpartition(":")
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} exited during its start")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"no process listens on {address} after {START_S:.0f} s")


@contextmanager
def kohort_broker() -> Iterator[KohortBroker]:
    """Run a kohort broker in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="kohort-campaign-") as folder:
        ground = KohortBroker(Path(folder))
        try:
            yield ground
        finally:
            ground.end()


@contextmanager
def apache_broker() -> Iterator[ApacheBroker]:
    """Run an Apache Kafka broker with a watcher. Skips if Apache Kafka is not available."""
    options = {name.replace(".", "_"): str(value) for name, value in BROKER_OPTIONS.items()}
    options["broker_session_timeout_ms"] = "15000"  # a killed broker can register again only after this time
    with tempfile.TemporaryDirectory(prefix="kohort-campaign-") as folder, kafka_tool().Kafka(**options) as kafka:
        ground = ApacheBroker(kafka, Path(folder))
        try:
            yield ground
        finally:
            ground.end()

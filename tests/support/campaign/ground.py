"""The brokers of the campaign, each a process that can be stopped and started again, and how each is asked why."""

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

from support.campaign.truths import APACHE, OURS
from support.peers.apache_kafka import kafka_tool

MIN_SESSION_MS: Final = 500
INITIAL_DELAY_MS: Final = 500
START_S: Final = 60.0
START_ATTEMPTS: Final = 5
"""A client that tries to reach the broker's port may have got that very port for itself, and have it for a moment."""
BROKER_OPTIONS: Final = {
    "group.min.session.timeout.ms": MIN_SESSION_MS,
    "group.initial.rebalance.delay.ms": INITIAL_DELAY_MS,
    "group.consumer.min.session.timeout.ms": MIN_SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "offsets.topic.num.partitions": 5,
    "auto.create.topics.enable": "false",
}


class CampaignGround(Protocol):
    """A broker that the campaign is played on."""

    name: str
    bootstrap: str

    def restart(self, *, kill: bool) -> None: ...
    def stall(self, seconds: float) -> None: ...
    def findings(self, group: str) -> list[dict[str, Any]]: ...


def kohort(*words: str, env: dict[str, str] | None = None) -> list[str]:
    """Return the command line of ``kohort``."""
    return [sys.executable, "-m", "kohort", *words]


def told(bootstrap: str, group: str, env: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """Return what ``kohort group why`` tells of all rebalances of a group; nothing where there is none."""
    command = kohort("group", "why", group, "--last", "0", "--output", "json", "--bootstrap", bootstrap)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    if done.returncode:
        return []
    found: list[dict[str, Any]] = json.loads(done.stdout)["rebalances"]
    return found


class OurGround:
    """``kohort serve`` on a folder of its own."""

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
        """End the broker, in order or not, and start it again."""
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self._process.wait(30)
        for left in reversed(range(START_ATTEMPTS)):
            try:
                self._process = self._start()
            except RuntimeError:
                if not left:
                    raise
                time.sleep(1)
            else:
                return

    def stall(self, seconds: float) -> None:
        """Let it stand still."""
        stand_still(self._process.pid, seconds)

    def findings(self, group: str) -> list[dict[str, Any]]:
        """Return what is told of a group from the broker's journal."""
        return told(self.bootstrap, group)

    def end(self) -> None:
        self._process.kill()
        self._process.wait(30)


class ApacheGround:
    """An Apache Kafka, and ``kohort watch`` beside it."""

    name = APACHE

    def __init__(self, kafka: Any, folder: Path) -> None:
        self._kafka, self.bootstrap = kafka, kafka.bootstrap
        self._env = {**os.environ, "XDG_STATE_HOME": str(folder)}
        with (folder / "watch.log").open("ab") as log:
            command = kohort("watch", "--bootstrap", self.bootstrap, "--interval", "0.3", "--output", "ndjson")
            self._watcher = subprocess.Popen(command, stdout=log, stderr=log, env=self._env)

    def restart(self, *, kill: bool) -> None:
        """End the broker, in order or not, and start it again."""
        self._kafka.restart(kill=kill)

    def stall(self, seconds: float) -> None:
        """Let it stand still."""
        stand_still(self._kafka.pid, seconds)

    def findings(self, group: str) -> list[dict[str, Any]]:
        """Return what the watcher has seen of a group."""
        assert self._watcher.poll() is None, "the watcher has ended"
        return told(self.bootstrap, group, self._env)

    def end(self) -> None:
        self._watcher.kill()
        self._watcher.wait(30)


def stand_still(pid: int, seconds: float) -> None:
    """Stop a process for so long."""
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until somebody listens there. Raises RuntimeError where the process ends instead, or is too late."""
    host, _, port = address.rpartition(":")
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            raise RuntimeError(f"it ended at its start: {process.args!r}")
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"nobody listens on {address} after {START_S:.0f} s")


@contextmanager
def our_ground() -> Iterator[OurGround]:
    """A broker of ours, in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="kohort-campaign-") as folder:
        ground = OurGround(Path(folder))
        try:
            yield ground
        finally:
            ground.end()


@contextmanager
def apache_ground() -> Iterator[ApacheGround]:
    """An Apache Kafka with a watcher. Skips where there is none to be had."""
    options = {name.replace(".", "_"): str(value) for name, value in BROKER_OPTIONS.items()}
    options["broker_session_timeout_ms"] = "15000"  # one that was killed may register again only after that
    with tempfile.TemporaryDirectory(prefix="kohort-campaign-") as folder, kafka_tool().Kafka(**options) as kafka:
        ground = ApacheGround(kafka, Path(folder))
        try:
            yield ground
        finally:
            ground.end()

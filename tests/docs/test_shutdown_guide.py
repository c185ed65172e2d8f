"""Shutdown guide: each recipe runs as a process, handles records, and gets SIGTERM, with a broker and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

import kohort
from kohort.testing import StagedBroker
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
TEXT = (Path(__file__).parents[2] / "docs" / "guides" / "shutdown.md").read_text()
RECIPES = dict(re.findall(r"<!-- recipe: (\S+) -->\n```python\n(.*?)```", TEXT, re.DOTALL))
MANIFESTS = [yaml.safe_load(text) for text in re.findall(r"<!-- manifest -->\n```yaml\n(.*?)```", TEXT, re.DOTALL)]
RECORDS = 5
END_S = 20
"""Deadline of a recipe, ten times the two seconds of the page. The defaults that it replaces take 30 to 120 s."""
CELERY = "-m celery -A tasks worker --concurrency 1 --without-gossip --without-mingle"


def command_in(manifest: dict[str, Any]) -> str:
    """Return the command of a container without ``python``, on a free port of this machine."""
    python, *words = manifest["spec"]["template"]["spec"]["containers"][0]["command"]
    assert python == "python"
    return " ".join(words).replace("0.0.0.0", "127.0.0.1").replace("8000", "0")


@dataclass(frozen=True)
class Recipe:
    command: str
    topic: str = "orders"
    group: str = "billing"
    exit_code: int = 0


RUNS = {
    "consume.py": Recipe(command_in(MANIFESTS[0])),
    "consume_async.py": Recipe("consume_async.py"),
    "handlers.py": Recipe("handlers.py"),
    "app.py": Recipe(command_in(MANIFESTS[1]), "prices", "prices", -signal.SIGTERM),  # uvicorn ends by the signal
    "tasks.py": Recipe(CELERY, group="shipping"),
}


class Program:
    """Process that runs a recipe and collects its output."""

    def __init__(self, name: str, folder: Path, bootstrap: str) -> None:
        (folder / name).write_text(RECIPES[name])
        env = os.environ | {"KAFKA_BOOTSTRAP": bootstrap, "PYTHONUNBUFFERED": "1", "CELERY_BROKER": "memory://"}
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, *RUNS[name].command.split()], cwd=folder, env=env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._lines: list[str] = []
        self._reader = threading.Thread(target=lambda: self._lines.extend(self.process.stdout or ()))
        self._reader.start()

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def url(self, path: str) -> str:
        found = eventually(lambda: re.search(r"running on (http://\S+)", self.output), lambda: self.output)
        return f"{found.group(1)}{path}"

    def handled(self) -> int:
        if self.name == "app.py":
            return len(json.loads(_http(self.url("/prices"))))
        return len(set(re.findall(r"handled b?'?(\w+ \d)", self.output)))

    def wait_for_records(self) -> None:
        def all_handled() -> bool:
            assert self.process.poll() is None, self.output
            return self.handled() == RECORDS

        eventually(all_handled, lambda: self.output)

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs {END_S} s after SIGTERM: {self.output}") from None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout:
            self.process.stdout.close()


def _http(url: str, body: bytes | None = None) -> str:
    with urllib.request.urlopen(urllib.request.Request(url, data=body), timeout=240) as answer:
        return answer.read().decode()


@pytest.fixture
def broker() -> Iterator[StagedBroker]:
    with StagedBroker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for topic in ("orders", "prices"):
                for n in range(RECORDS):
                    producer.send(topic, f"order {n}", key=str(n))
        yield broker


@pytest.fixture
def start(broker: StagedBroker, tmp_path: Path) -> Iterator[Callable[[str], Program]]:
    programs: list[Program] = []

    def run(name: str) -> Program:
        programs.append(Program(name, tmp_path, broker.bootstrap))
        programs[-1].wait_for_records()
        return programs[-1]

    yield run
    for program in programs:
        program.end()


def committed(broker: StagedBroker, recipe: Recipe) -> int | None:
    partition = kohort.TopicPartition(recipe.topic, 0)
    with kohort.Consumer(bootstrap_servers=broker.bootstrap, group_id=recipe.group) as consumer:
        found = consumer.committed([partition])[partition]
    return None if found is None else found.offset


def test_page_has_five_recipes_and_two_manifests() -> None:
    assert set(RECIPES) == set(RUNS)
    assert len(MANIFESTS) == 2


@pytest.mark.parametrize("name", RUNS)
def test_recipe_commits_and_leaves_its_group_at_sigterm(
    name: str, broker: StagedBroker, start: Callable[[str], Program]
) -> None:
    program = start(name)
    broker.forget_requests()

    code = program.terminate()

    assert code == RUNS[name].exit_code, program.output
    assert len(broker.requests("LeaveGroup")) == 1
    assert committed(broker, RUNS[name]) == RECORDS
    assert "Traceback" not in program.output


@pytest.mark.parametrize("name", RUNS)
def test_recipe_ends_at_sigterm_without_broker(
    name: str, broker: StagedBroker, start: Callable[[str], Program]
) -> None:
    program = start(name)
    broker.stop()

    code = program.terminate()

    assert code == RUNS[name].exit_code, program.output
    assert "Traceback" not in program.output


def test_fastapi_recipe_ends_without_broker_during_an_open_request(
    broker: StagedBroker, start: Callable[[str], Program]
) -> None:
    program = start("app.py")
    url = program.url("/orders/1")
    assert "offset" in _http(url, b"first")
    broker.stop()
    with ThreadPoolExecutor(1) as beside:
        request: Future[str] = beside.submit(_http, url, b"second")
        eventually(lambda: "no broker at" in program.output, lambda: program.output)

        code = program.terminate()

        assert code == -signal.SIGTERM
        assert isinstance(request.exception(), OSError)


def test_plain_consumer_ends_at_sigterm_with_a_silent_broker(
    broker: StagedBroker, start: Callable[[str], Program]
) -> None:
    program = start("consume.py")
    with broker.hold("OffsetCommit", times=None), broker.hold("LeaveGroup", times=None):
        code = program.terminate()

    assert code == 0, program.output


def test_grace_periods_of_manifests_cover_their_hooks() -> None:
    for manifest in MANIFESTS:
        pod = manifest["spec"]["template"]["spec"]
        hook_s = pod["containers"][0].get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        assert pod["terminationGracePeriodSeconds"] >= hook_s + END_S

"""Tutorial: each of its blocks runs in order in an empty folder, and prints the lines that the page shows."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

import kohort
from support.spark.quick_jvm import QUICK_JVM
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
BLOCK = re.compile(r"<!-- (?:terminal (\d)(?:, (\w+))?|file: (\S+)) -->\n```\w+\n(.*?)```", re.DOTALL)
WHEEL = "file:///path/to/kohort-0.1.0-py3-none-any.whl"
END = "end of command"
DEADLINE_S = 800


class Block(NamedTuple):
    terminal: str
    mark: str
    """Empty, ``stays`` (the last command runs on), ``more`` (output of a running command), or ``Spark``."""
    file: str
    text: str

    def commands(self) -> list[tuple[str, list[str]]]:
        """Return the commands with the output lines that the page shows for each."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
        return found


BLOCKS = [Block(*found.groups("")) for found in BLOCK.finditer(TEXT)]


def loose(line: str) -> str:
    """Replace everything that differs between two runs: numbers, ids, times, countries, health, widths."""
    line = re.sub(r"(east|west)-[0-9a-f]{8}[-0-9a-f]*", r"\1-ID", line)
    line = re.sub(r"\d+(?:[-.:]\d+)*", "0", line.replace("localhost", "127.0.0.1"))
    line = re.sub(r"\b0 (?:ms|s|min|h)(?: 0 (?:ms|s|min))*", "0 s", line)
    line = re.sub(r'"[A-Z]{2}"', '"XX"', line)
    line = re.sub(r"(?<!\S)(?:OK|WARN|-|0 s)(?!\S)", "*", line)
    return " ".join(line.split())


def missing(expected: list[str], output: list[str]) -> list[str]:
    """Return the expected lines that the output lacks, in their order. ``...`` stands for any text."""
    remaining = [loose(line) for line in output]
    lacking = []
    for line in expected:
        text = loose(line.partition("...")[0])
        at = next(
            (n for n, shown in enumerate(remaining) if shown == text or ("..." in line and shown.startswith(text))),
            None,
        )
        if text and at is None:
            lacking.append(line)
        elif text and at is not None:
            remaining = remaining[at + 1 :]
    return lacking


class Terminal:
    """Bash process that runs commands and collects their output lines."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        script, commands = os.pipe()
        self._commands = os.fdopen(commands, "w")
        self.process = subprocess.Popen(
            ["bash", "--norc", f"/dev/fd/{script}"],
            cwd=folder,
            env=env,
            pass_fds=[script],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(script)
        self.output: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.output.extend(line.rstrip("\n") for line in lines)

    def run(self, command: str, expected: list[str]) -> None:
        """Run a command to its end; its exit code is 0, and it prints the expected lines."""
        begin = len(self.output)
        self.start(f"{command}\necho {END} $?")
        printed: list[str] = []

        def has_ended() -> bool:
            printed[:] = takewhile(lambda line: not line.startswith(END), self.output[begin:])
            return len(self.output) > begin + len(printed)

        eventually(has_ended, lambda: f"{command}: {self.output[begin:]}", deadline_s=DEADLINE_S)
        assert self.output[begin + len(printed)] == f"{END} 0", (command, printed)
        assert missing(expected, printed) == [], (command, printed)

    def start(self, command: str) -> None:
        print(command, file=self._commands, flush=True)

    def shows(self, expected: list[str]) -> None:
        """Wait until the running command has printed the expected lines."""
        eventually(lambda: not missing(expected, self.output), lambda: f"{self.output}", deadline_s=DEADLINE_S)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._commands.close()
        self._reader.join()


class Reader:
    """Plays a user who follows the page with several terminals in an empty folder."""

    def __init__(self, folder: Path, env: dict[str, str], wheel: Path) -> None:
        self._folder = folder
        self._env = env
        self._terminals: dict[str, Terminal] = {}
        self.changed = {WHEEL: wheel.as_uri(), "kohort serve": "kohort serve --listen 127.0.0.1:0"}
        """Texts of the page and their replacements: the path of the wheel, free ports."""
        self.changed["kohort console"] = "kohort console --listen 127.0.0.1:0"

    def follow(self, block: Block) -> None:
        if block.file:
            (self._folder / block.file).write_text(self._actual(block.text))
        elif block.mark == "more":
            self.terminal(block).shows(block.text.splitlines())
        else:
            *commands, (last, expected) = block.commands()
            for command, lines in commands:
                self.terminal(block).run(self._actual(command), lines)
            if block.mark == "stays":
                self.terminal(block).start(self._actual(last))
                self.terminal(block).shows(expected)
                self._note_address(self.terminal(block).output)
            else:
                self.terminal(block).run(self._actual(last), expected)

    def terminal(self, block: Block) -> Terminal:
        if block.terminal not in self._terminals:
            self._terminals[block.terminal] = Terminal(self._folder, self._env)
        return self._terminals[block.terminal]

    def _actual(self, text: str) -> str:
        for shown, actual in self.changed.items():
            text = text.replace(shown, actual)
        return text

    def _note_address(self, output: list[str]) -> None:
        """Replace the broker's address in later blocks by its actual one."""
        found = re.search(r"ready on (\S+)", "\n".join(output))
        if found and "KOHORT_BOOTSTRAP" not in self._env:
            self.changed["127.0.0.1:9092"] = self._env["KOHORT_BOOTSTRAP"] = found.group(1)

    def close(self) -> None:
        for terminal in self._terminals.values():
            terminal.end()


def environment(python: Path) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOHORT", "VIRTUAL"))}
    return clean | {"PATH": f"{python.parent}:{os.environ['PATH']}"}


@pytest.fixture
def reader(wheel: Path, tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path, environment(Path(sys.base_prefix) / "bin" / "python3"), wheel)
    yield reader
    reader.close()


def test_every_block_of_tutorial_is_run() -> None:
    fences = len(re.findall(r"^```\w", TEXT, re.MULTILINE))

    assert len(BLOCKS) == fences
    assert len([block for block in BLOCKS if block.mark == "Spark"]) == 3


def test_tutorial_from_install_to_console_and_pytest(reader: Reader) -> None:
    for block in BLOCKS:
        if block.mark != "Spark":
            reader.follow(block)
        if "kohort console" in block.text:
            shown = "\n".join(reader.terminal(block).output)
            (address,) = re.findall(r"console of .* on (http://\S+/)", shown)
            with urllib.request.urlopen(f"{address}api/v1/groups/billing/rebalances", timeout=60) as answer:
                assert b"SESSION_TIMEOUT.process_died" in answer.read()


def test_tutorial_loads_topic_into_table(tmp_path: Path) -> None:
    program = next(block.text for block in BLOCKS if block.file == "produce.py")
    _download, *blocks = [block for block in BLOCKS if block.mark == "Spark"]  # this environment has the extra
    with kohort.Broker(num_partitions=4) as broker:
        env = environment(Path(sys.executable)) | QUICK_JVM
        env |= {"KOHORT_BOOTSTRAP": broker.bootstrap, "KOHORT_BROKERS": broker.bootstrap}
        (tmp_path / "produce.py").write_text(program.replace("127.0.0.1:9092", broker.bootstrap))
        subprocess.run([sys.executable, "produce.py", "220"], cwd=tmp_path, env=env, check=True)
        terminal = Terminal(tmp_path, env)
        try:
            for block in blocks:
                for command, expected in block.commands():
                    terminal.run(command, expected)
        finally:
            terminal.end()

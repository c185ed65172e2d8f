"""The programs around other projects' clients (``tests/interop/clients``): built on first use, and run.

What is brought and built is kept in ``.kohort/clients`` beside a mark of what it was made from.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from apache_kafka import kafka_tool

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "interop" / "clients"
BUILT = ROOT / ".kohort" / "clients"
BUILD_S = 900
RUN_S = 120
OLDEST_JAVA = "2.1.1"
NEWEST_JAVA = "4.4.0"
PROGRAMS = ("java-oldest", "java-newest", "go-sarama", "go-franz", "node-kafkajs", "kcat")

Command = tuple[str, ...]


def program(name: str) -> Command:
    """How ``name`` is called, up to the verb; it is built if it is not. Skips where its toolchain is missing, unless
    peers are required."""
    return {
        "java-oldest": lambda: _java("java-oldest", OLDEST_JAVA),
        "java-newest": lambda: _java("java-newest", NEWEST_JAVA),
        "go-sarama": lambda: _go("go-sarama"),
        "go-franz": lambda: _go("go-franz"),
        "node-kafkajs": lambda: _node("node-kafkajs"),
    }[name]()


def run(command: Sequence[str], given: str = "") -> list[dict[str, Any]]:
    """Run a program to its end, and return the lines it printed."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def require(*tools: str) -> None:
    """Skip, or fail where peers are required, if a tool is not on PATH."""
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent and os.environ.get("KOHORT_REQUIRE_PEERS"):
        pytest.fail(f"{', '.join(absent)} not on PATH")
    if absent:
        pytest.skip(f"needs {', '.join(absent)}")


def jars(name: str, pom: Path, *options: str) -> str:
    """The class path of what ``pom`` depends on, brought from Maven Central."""
    require("java", "javac", "mvn")
    folder = BUILT / name / "jars"
    mark = BUILT / name / ".jars"
    if _stale(mark, wanted := _digest([pom], *options)):
        shutil.rmtree(folder, ignore_errors=True)
        _make("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
              f"-DoutputDirectory={folder}", "-DincludeScope=runtime", *options)  # fmt: skip
        mark.write_text(wanted)
    return f"{folder}/*"


def compiled(name: str, sources: Sequence[Path], class_path: str) -> str:
    """The class path of Java sources, compiled, with that of what they need."""
    folder = BUILT / name / "classes"
    mark = BUILT / name / ".classes"
    if _stale(mark, wanted := _digest(sources, class_path)):
        shutil.rmtree(folder, ignore_errors=True)
        _make("javac", "-nowarn", "-d", str(folder), "-cp", class_path, *map(str, sources))
        mark.write_text(wanted)
    return f"{folder}:{class_path}"


def java(class_path: str, main: str) -> Command:
    """A short-lived Java program: little memory, and no time spent on optimising what ends soon."""
    return ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path, main)


def assignor_judge() -> Command:
    """Apache Kafka's assignors (``java-assignors``), from the jars of ``tools/kafka``: they hold a JSON library."""
    require("java", "javac", "mvn")
    libs = f"{kafka_tool().LIBS}/*"
    return java(compiled("java-assignors", [SOURCES / "java-assignors" / "Judge.java"], libs), "Judge")


def _java(name: str, version: str) -> Command:
    class_path = jars(name, SOURCES / "java" / "pom.xml", f"-Dkafka.version={version}")
    return java(compiled(name, [SOURCES / "java" / "Client.java"], class_path), "Client")


def _go(name: str) -> Command:
    require("go")
    source = SOURCES / name
    binary = BUILT / name / "client"
    mark = BUILT / name / ".built"
    if _stale(mark, wanted := _digest([source / f for f in ("main.go", "go.mod", "go.sum")])):
        _make("go", "build", "-C", str(source), "-mod=readonly", "-o", str(binary), ".")
        mark.write_text(wanted)
    return (str(binary),)


def _node(name: str) -> Command:
    require("node", "npm")
    folder = BUILT / name
    mark = folder / ".built"
    sources = [SOURCES / name / f for f in ("client.js", "package.json", "package-lock.json")]
    if _stale(mark, wanted := _digest(sources)):
        for source in sources:
            shutil.copy(source, folder)
        _make("npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--silent")
        mark.write_text(wanted)
    return ("node", str(folder / "client.js"))


def _make(*command: str) -> None:
    done = subprocess.run(command, timeout=BUILD_S, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def _digest(sources: Sequence[Path], *also: str) -> str:
    return hashlib.sha256(b"\0".join([*(s.read_bytes() for s in sources), *(a.encode() for a in also)])).hexdigest()


def _stale(mark: Path, wanted: str) -> bool:
    mark.parent.mkdir(parents=True, exist_ok=True)
    return not mark.exists() or mark.read_text() != wanted

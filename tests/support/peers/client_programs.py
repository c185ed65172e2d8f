"""Programs with other projects' clients (``tests/interop/clients``): built on first use.

Downloads and builds are kept in ``.kohort/clients`` beside a mark of their inputs. One process builds at a time; others
wait.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import pytest
from _pytest.mark import ParameterSet

from support.peers.apache_kafka import kafka_module, kafka_tool

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "tests" / "interop" / "clients"
PYTHON = SOURCES / "python"
BUILT = ROOT / ".kohort" / "clients"
BUILD_S = 1800
RUN_S = 120
OLDEST_JAVA = "2.1.1"
NEWEST_JAVA = "4.4.0"
LIBRDKAFKA = {"confluent-oldest": "2.0.2", "confluent-newest": "2.16.0"}
"""librdkafka version of each program. The newest is in the project's lock file."""
BOTH_CONFLUENTS = tuple(LIBRDKAFKA)
STALLING_MEMBERS = ("kafka-python",)
"""Clients with members that can stall without a fault of the broker: kafka-python 3.0.12 may miss the wakeup of its
heartbeat loop on a busy machine, then sends no heartbeats. Their groups belong to campaigns.
"""
PYTHON_CLIENTS = (*BOTH_CONFLUENTS, "kafka-python", "aiokafka", "kohort")
TOOLCHAIN_CLIENTS = ("java-oldest", "java-newest", "go-sarama", "go-franz", "node-kafkajs", "node-rdkafka")
COMPILED = ("node-rdkafka",)
"""Programs that take minutes to build."""
JUDGES = ("java-assignors", "java-server-assignors")

Command = tuple[str, ...]
Header = tuple[str, bytes | None]


def program(name: str) -> Command:
    """Return the command of ``name`` up to the verb; build it first if needed.

    Skips if its toolchain is missing, unless peers are required.
    """
    return {
        "java-oldest": lambda: _java("java-oldest", OLDEST_JAVA),
        "java-newest": lambda: _java("java-newest", NEWEST_JAVA),
        "java-player": _java_player,
        "go-sarama": lambda: _go("go-sarama"),
        "go-franz": lambda: _go("go-franz"),
        "node-kafkajs": lambda: _node("node-kafkajs"),
        "node-rdkafka": lambda: _node("node-rdkafka", "g++", "make"),
        "confluent-oldest": lambda: _confluent("confluent-oldest", python("python-confluent-oldest")),
        "confluent-newest": lambda: _confluent("confluent-newest", sys.executable),
        "kafka-python": lambda: (sys.executable, str(PYTHON / "with_kafka_python.py")),
        "aiokafka": lambda: (sys.executable, str(PYTHON / "with_aiokafka.py")),
        "kohort": lambda: (sys.executable, str(PYTHON / "with_kohort.py")),
    }[name]()


def as_parameters(clients: Iterable[str]) -> list[ParameterSet]:
    """Return clients as pytest parameters, with marks for their requirements."""
    marks = {
        **{client: [pytest.mark.toolchain] for client in TOOLCHAIN_CLIENTS},
        **{client: [pytest.mark.toolchain, pytest.mark.campaign, pytest.mark.timeout(2400)] for client in COMPILED},
    }
    return [pytest.param(client, marks=marks.get(client, [])) for client in clients]


def run(command: Sequence[str], stdin: str = "") -> list[dict[str, Any]]:
    """Run a program to its end; return its output lines."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_line(partition: int | str, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> str:
    """Encode a record as input of the programs."""
    named = [f"{name}={_as_field(header)}" for name, header in headers]
    return "\t".join([str(partition), _as_field(key), _as_field(value), *named])


def as_bytes(text: str | None) -> bytes | None:
    """Decode a key, value or header from the programs' output."""
    return None if text is None else base64.b64decode(text)


def as_record(line: dict[str, Any]) -> tuple[int, int, bytes | None, bytes | None, list[Header]]:
    """Decode a record from a program's output: offset, time, key, value, headers."""
    offset, at, key, value, headers = line["record"]
    return offset, at, as_bytes(key), as_bytes(value), [(name, as_bytes(of)) for name, of in headers]


@contextmanager
def talk(command: Sequence[str]) -> Iterator[Talk]:
    """Run a program for a line-by-line dialogue; kill it at the end."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    late = threading.Timer(RUN_S, process.kill)
    late.start()
    try:
        yield Talk(process)
    finally:
        late.cancel()
        process.kill()
        process.communicate()


class Talk:
    """Dialogue with a running program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hear(self) -> dict[str, Any]:
        """Return the next line; fail if the program ends or is silent for two minutes."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(
                f"{self._process.args!r}: {self._process.wait()}: {self._process.stderr.read()[-4000:]}"
            )
        event: dict[str, Any] = json.loads(line)
        return event

    def say(self, line: str) -> dict[str, Any]:
        """Send a line; return the response."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        return self.hear()


def require(*tools: str) -> None:
    """Skip, or fail where peers are required, if a tool is not on PATH."""
    if absent := [tool for tool in tools if shutil.which(tool) is None]:
        lack(f"needs {', '.join(absent)}")


def lack(why: str) -> NoReturn:
    """Skip, or fail where peers are required."""
    if os.environ.get("KOHORT_REQUIRE_PEERS"):
        pytest.fail(why)
    pytest.skip(why)


def jars(name: str, pom: Path, *options: str) -> str:
    """Return the class path of the dependencies of ``pom``, from Maven Central."""
    require("java", "javac", "mvn")
    folder = BUILT / name / "jars"

    def bring() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        run_build("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
              f"-DoutputDirectory={folder}", "-DincludeScope=runtime", *options)  # fmt: skip

    once(BUILT / name / ".jars", _digest([pom], *options), bring)
    return f"{folder}/*"


def compiled(name: str, sources: Sequence[Path], class_path: str) -> str:
    """Compile Java sources; return their class path with that of their dependencies."""
    folder = BUILT / name / "classes"

    def compile_all() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        run_build("javac", "-nowarn", "-d", str(folder), "-cp", class_path, *map(str, sources))

    once(BUILT / name / ".classes", _digest(sources, class_path), compile_all)
    return f"{folder}:{class_path}"


def java(class_path: str, main: str) -> Command:
    """Return the command of a short-lived Java program: little memory, no optimizing compiler."""
    return ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path, main)


def assignor_judge(name: str = "java-assignors") -> Command:
    """Return the command of Apache Kafka's assignors, of the clients or of the coordinator
    (``java-server-assignors``), with the jars of ``tools/kafka``: they include a JSON library.
    """
    require("java", "javac", "mvn")
    libs = f"{kafka_tool().LIBS}/*"
    return java(compiled(name, [SOURCES / name / "Judge.java"], libs), "Judge")


def uv() -> str:
    """Return the path of uv: the running one, the one on PATH, or the project's own."""
    return os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")


def python(name: str) -> str:
    """Return the interpreter of an environment made from the lock file in ``name``'s folder."""
    require(uv())
    found = subprocess.run(
        [uv(), "python", "find", "--directory", str(SOURCES / name)], capture_output=True, check=False
    )
    if found.returncode:
        lack(f"{name} needs another Python: {found.stderr.decode().strip()}")
    environment = BUILT / name / "venv"

    def sync() -> None:
        variables = {"UV_PROJECT_ENVIRONMENT": str(environment), "UV_PYTHON_DOWNLOADS": "never"}
        run_build(uv(), "sync", "--frozen", "--project", str(SOURCES / name), env=variables)

    once(BUILT / name / ".made", _digest([SOURCES / name / f for f in ("pyproject.toml", "uv.lock")]), sync)
    return str(environment / "bin" / "python")


def _confluent(name: str, interpreter: str) -> Command:
    return (interpreter, str(PYTHON / "with_confluent.py"), LIBRDKAFKA[name])


def _as_field(value: bytes | None) -> str:
    return "~" if value is None else base64.b64encode(value).decode()


def _java(name: str, version: str) -> Command:
    source = SOURCES / "java"
    class_path = jars(name, source / "pom.xml", f"-Dkafka.version={version}")
    calls = source / name.removeprefix("java-") / "Calls.java"
    sources = [*(source / f"{part}.java" for part in ("Client", "Admin", "Security")), calls]
    return java(compiled(name, sources, class_path), "Client")


def _java_player() -> Command:
    """Return the ``play`` program of the newest Java client; older clients lack methods that it calls."""
    source = SOURCES / "java"
    class_path = jars("java-newest", source / "pom.xml", f"-Dkafka.version={NEWEST_JAVA}")
    return java(compiled("java-player", [source / "newest" / "Play.java"], class_path), "Play")


def _go(name: str) -> Command:
    require("go")
    source = SOURCES / name
    binary = BUILT / name / "client"

    def build() -> None:
        run_build("go", "build", "-C", str(source), "-mod=readonly", "-o", str(binary), ".", env={"CGO_ENABLED": "0"})

    once(BUILT / name / ".built", _digest(sorted(source.iterdir())), build)
    return (str(binary),)


def _node(name: str, *compilers: str) -> Command:
    require(*compilers)
    folder, client = node_packages(name), SOURCES / name / "client.js"
    once(folder / ".client", _digest([client]), lambda: shutil.copy(client, folder))
    return ("node", str(folder / "client.js"))


def node_packages(name: str) -> Path:
    """Return the folder with the installed packages of ``name``'s lock file."""
    require("node", "npm")
    folder = BUILT / name
    packages = ("package.json", "package-lock.json")

    def install() -> None:
        for package in packages:
            shutil.copy(SOURCES / name / package, folder)
        run_build(
            "npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", env=_for_compilers()
        )
        for dependencies in folder.glob("node_modules/*/deps"):
            shutil.rmtree(dependencies)  # sources and objects of the build: half a gigabyte

    once(folder / ".built", _digest([SOURCES / name / f for f in packages]), install)
    return folder


def _for_compilers() -> dict[str, str]:
    """Return the environment for builds.

    node-gyp uses installed headers of Node instead of a download. Builds are serial: node-rdkafka's make needs it.
    """
    prefix = Path(shutil.which("node") or "").resolve().parents[1]
    beside = (prefix / "include" / "node" / "node.h").exists()
    return {"MAKEFLAGS": "", **({"npm_config_nodedir": str(prefix)} if beside else {})}


def run_build(*command: str, env: Mapping[str, str] = MappingProxyType({})) -> None:
    """Run a command of a build; fail with its output."""
    done = subprocess.run(
        command, timeout=BUILD_S, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def _digest(sources: Sequence[Path], *also: str) -> str:
    return hashlib.sha256(b"\0".join([*(s.read_bytes() for s in sources), *(a.encode() for a in also)])).hexdigest()


def once(mark: Path, digest: str, make: Callable[[], object]) -> None:
    """Build unless ``mark`` matches ``digest``; one process builds at a time."""
    if _says(mark, digest):
        return
    with kafka_module().one_at_a_time():
        if not _says(mark, digest):
            mark.parent.mkdir(parents=True, exist_ok=True)
            make()
            mark.write_text(digest)


def _says(mark: Path, digest: str) -> bool:
    return mark.exists() and mark.read_text() == digest


def main() -> None:
    """Build all programs except the slow ones; report failures and continue."""
    names = [name for name in (*TOOLCHAIN_CLIENTS, "java-player", "confluent-oldest") if name not in COMPILED]
    steps: dict[str, Any] = {"kafka": kafka_tool, **{name: partial(program, name) for name in names}}
    steps["node-pyright"] = partial(node_packages, "node-pyright")
    for name, bring in {**steps, **{judge: partial(assignor_judge, judge) for judge in JUDGES}}.items():
        began = time.monotonic()
        try:
            bring()
        except (AssertionError, RuntimeError, pytest.fail.Exception, pytest.skip.Exception) as error:
            print(f"{name}: {error}", flush=True)
        else:
            print(f"{name}: here, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()

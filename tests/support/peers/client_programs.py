"""The programs around other projects' clients (``tests/interop/clients``): built on first use, and run.

What is brought and built is kept in ``.kohort/clients`` beside a mark of what it was made from. One process at a time
builds; who wants the same meanwhile waits for it.
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
"""The librdkafka of each: its program refuses to run on another. The newest stands in the project's own lock."""
BOTH_CONFLUENTS = tuple(LIBRDKAFKA)
STALLING_MEMBERS = ("kafka-python",)
"""Clients whose members can stop for no fault of the broker: kafka-python 3.0.12 may miss the wakeup of its heartbeat
loop on a busy machine; then the member sends no heartbeats and its poll spins. Their groups belong to campaigns."""
PYTHON_CLIENTS = (*BOTH_CONFLUENTS, "kafka-python", "aiokafka", "kohort")
TOOLCHAIN_CLIENTS = ("java-oldest", "java-newest", "go-sarama", "go-franz", "node-kafkajs", "node-rdkafka")
COMPILED = ("node-rdkafka",)
"""Whose building takes minutes."""
JUDGES = ("java-assignors", "java-server-assignors")

Command = tuple[str, ...]
Header = tuple[str, bytes | None]


def program(name: str) -> Command:
    """How ``name`` is called, up to the verb; it is built if it is not. Skips where its toolchain is missing, unless
    peers are required."""
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
    """Clients as the parameters of a story, marked by what they need."""
    marks = {
        **{client: [pytest.mark.toolchain] for client in TOOLCHAIN_CLIENTS},
        **{client: [pytest.mark.toolchain, pytest.mark.campaign, pytest.mark.timeout(2400)] for client in COMPILED},
    }
    return [pytest.param(client, marks=marks.get(client, [])) for client in clients]


def run(command: Sequence[str], given: str = "") -> list[dict[str, Any]]:
    """Run a program to its end, and return the lines it printed."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-4000:]}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_line(partition: int | str, key: bytes | None, value: bytes | None, headers: Iterable[Header] = ()) -> str:
    """A record as the programs read it."""
    named = [f"{name}={_as_field(header)}" for name, header in headers]
    return "\t".join([str(partition), _as_field(key), _as_field(value), *named])


def as_bytes(text: str | None) -> bytes | None:
    """A key, value or header as the programs print it."""
    return None if text is None else base64.b64decode(text)


def as_record(line: dict[str, Any]) -> tuple[int, int, bytes | None, bytes | None, list[Header]]:
    """A record that a program printed: offset, time, key, value, headers."""
    offset, at, key, value, headers = line["record"]
    return offset, at, as_bytes(key), as_bytes(value), [(name, as_bytes(of)) for name, of in headers]


@contextmanager
def talk(command: Sequence[str]) -> Iterator[Talk]:
    """A running program, to talk with line by line; it is killed if it has not ended by itself."""
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
    """What is said to a running program, and what it answers."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def hear(self) -> dict[str, Any]:
        """The next line; fails if the program ends instead, or is silent for two minutes."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(
                f"{self._process.args!r}: {self._process.wait()}: {self._process.stderr.read()[-4000:]}"
            )
        heard: dict[str, Any] = json.loads(line)
        return heard

    def say(self, line: str) -> dict[str, Any]:
        """Send a line; what is answered."""
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
    """The class path of what ``pom`` depends on, brought from Maven Central."""
    require("java", "javac", "mvn")
    folder = BUILT / name / "jars"

    def bring() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        _make("mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies",
              f"-DoutputDirectory={folder}", "-DincludeScope=runtime", *options)  # fmt: skip

    _once(BUILT / name / ".jars", _digest([pom], *options), bring)
    return f"{folder}/*"


def compiled(name: str, sources: Sequence[Path], class_path: str) -> str:
    """The class path of Java sources, compiled, with that of what they need."""
    folder = BUILT / name / "classes"

    def compile_all() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        _make("javac", "-nowarn", "-d", str(folder), "-cp", class_path, *map(str, sources))

    _once(BUILT / name / ".classes", _digest(sources, class_path), compile_all)
    return f"{folder}:{class_path}"


def java(class_path: str, main: str) -> Command:
    """A short-lived Java program: little memory, and no time spent on optimising what ends soon."""
    return ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path, main)


def assignor_judge(name: str = "java-assignors") -> Command:
    """Apache Kafka's assignors, the clients' or the coordinator's (``java-server-assignors``), from the jars of
    ``tools/kafka``: they hold a JSON library."""
    require("java", "javac", "mvn")
    libs = f"{kafka_tool().LIBS}/*"
    return java(compiled(name, [SOURCES / name / "Judge.java"], libs), "Judge")


def uv() -> str:
    """The program that brings Python packages: the one that runs this, on PATH, or the project's own."""
    return os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")


def python(name: str) -> str:
    """The interpreter of an environment of its own, made of the lock file in ``name``'s folder."""
    require(uv())
    found = subprocess.run(
        [uv(), "python", "find", "--directory", str(SOURCES / name)], capture_output=True, check=False
    )
    if found.returncode:
        lack(f"{name} needs another Python: {found.stderr.decode().strip()}")
    environment = BUILT / name / "venv"

    def sync() -> None:
        told = {"UV_PROJECT_ENVIRONMENT": str(environment), "UV_PYTHON_DOWNLOADS": "never"}
        _make(uv(), "sync", "--frozen", "--project", str(SOURCES / name), env=told)

    _once(BUILT / name / ".made", _digest([SOURCES / name / f for f in ("pyproject.toml", "uv.lock")]), sync)
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
    """The verb ``play`` of the newest Java client, which calls what older ones have not."""
    source = SOURCES / "java"
    class_path = jars("java-newest", source / "pom.xml", f"-Dkafka.version={NEWEST_JAVA}")
    return java(compiled("java-player", [source / "newest" / "Play.java"], class_path), "Play")


def _go(name: str) -> Command:
    require("go")
    source = SOURCES / name
    binary = BUILT / name / "client"

    def build() -> None:
        _make("go", "build", "-C", str(source), "-mod=readonly", "-o", str(binary), ".", env={"CGO_ENABLED": "0"})

    _once(BUILT / name / ".built", _digest(sorted(source.iterdir())), build)
    return (str(binary),)


def _node(name: str, *compilers: str) -> Command:
    require("node", "npm", *compilers)
    folder = BUILT / name
    packages, client = ("package.json", "package-lock.json"), SOURCES / name / "client.js"

    def install() -> None:
        for package in packages:
            shutil.copy(SOURCES / name / package, folder)
        _make("npm", "ci", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel=error", env=_for_compilers())
        for left in folder.glob("node_modules/*/deps"):
            shutil.rmtree(left)  # sources and objects of what was compiled: half a gigabyte

    _once(folder / ".built", _digest([SOURCES / name / f for f in packages]), install)
    _once(folder / ".client", _digest([client]), lambda: shutil.copy(client, folder))
    return ("node", str(folder / "client.js"))


def _for_compilers() -> dict[str, str]:
    """Node's headers where they came with it, which node-gyp would fetch from nodejs.org otherwise; and one thing after
    the other, whatever the ``make`` that runs the tests was told: node-rdkafka's make knows no other order."""
    prefix = Path(shutil.which("node") or "").resolve().parents[1]
    beside = (prefix / "include" / "node" / "node.h").exists()
    return {"MAKEFLAGS": "", **({"npm_config_nodedir": str(prefix)} if beside else {})}


def _make(*command: str, env: Mapping[str, str] = MappingProxyType({})) -> None:
    done = subprocess.run(
        command, timeout=BUILD_S, capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def _digest(sources: Sequence[Path], *also: str) -> str:
    return hashlib.sha256(b"\0".join([*(s.read_bytes() for s in sources), *(a.encode() for a in also)])).hexdigest()


def _once(mark: Path, wanted: str, make: Callable[[], object]) -> None:
    """Make something unless ``mark`` says that it was made of just this; no two processes make anything at once."""
    if _says(mark, wanted):
        return
    with kafka_module().one_at_a_time():
        if not _says(mark, wanted):
            mark.parent.mkdir(parents=True, exist_ok=True)
            make()
            mark.write_text(wanted)


def _says(mark: Path, wanted: str) -> bool:
    return mark.exists() and mark.read_text() == wanted


def main() -> None:
    """Bring and build all that need no long compiling; of what cannot be, say why, and go on."""
    wanted = [name for name in (*TOOLCHAIN_CLIENTS, "java-player", "confluent-oldest") if name not in COMPILED]
    steps: dict[str, Any] = {"kafka": kafka_tool, **{name: partial(program, name) for name in wanted}}
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

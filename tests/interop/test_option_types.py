"""Type checkers and editors know the options of clients and brokers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.peers.client_programs import node_packages

TYPOS = """\
import json
import os

from kohort import Admin, AsyncAdmin, AsyncConsumer, AsyncConsumerGroup, AsyncProducer
from kohort import Broker, Consumer, ConsumerGroup, ConsumerOptions, Producer
from kohort.testing import StagedBroker

servers = os.environ.get("KAFKA", "localhost:9092")
shared: ConsumerOptions = {"bootstrap_servers": servers, "group_instance": "one"}  # error

Consumer(bootstrap_server=servers)  # error
Consumer(bootstrap_servers=servers, auto_offset_rest="earliest")  # error
Consumer(bootstrap_servers=servers, auto_offset_reset="earliset")  # error
Consumer(bootstrap_servers=servers, session_timeout_ms="30s")  # error
AsyncConsumer(bootstrap_servers=servers, max_poll_record=10)  # error
ConsumerGroup(bootstrap_servers=servers, group_id="g", enable_auto_commit="no")  # error
AsyncConsumerGroup(bootstrap_servers=servers, group_id="g", isolation_level="committed")  # error
Producer(bootstrap_servers=servers, ack="all")  # error
Producer(bootstrap_servers=servers, acks=2)  # error
Producer(bootstrap_servers=servers, partitioner=lambda key: 0)  # error
Producer(profil="prod", value_serializer="json")  # error
AsyncProducer(bootstrap_servers=servers, compression_type="bzip2")  # error
Admin(bootstrap_servers=9092)  # error
AsyncAdmin(bootstrap_servers=servers, security_protocol="SASL-SSL")  # error
Broker(num_partition=3)  # error
StagedBroker(num_partitions="three")  # error
"""
VALID = """\
import json
from datetime import timedelta

from kohort import Admin, AsyncConsumer, AsyncProducer, Broker, Consumer, ConsumerGroup, ConsumerOptions, Producer
from kohort import TopicPartition, assignor
from kohort.testing import StagedBroker

shared: ConsumerOptions = {"bootstrap_servers": ["a:9092", "b:9092"], "group_id": "g"}


@assignor("nothing")
def nothing(topics: object, members: object) -> dict[str, list[TopicPartition]]:
    return {}


Consumer(shared, partition_assignment_strategy=["range", nothing], auto_offset_reset=timedelta(hours=1))
Consumer(profile="prod", group_id="g", value_deserializer=json.loads, key_deserializer=lambda key: key.decode())
AsyncConsumer(**shared)
Consumer({"group.id": "g", "auto.offset.reset": "by_duration:PT1H"}, bootstrap_servers="a:9092")
ConsumerGroup(shared, max_processing_time_ms=50, group_protocol="consumer")
Producer(bootstrap_servers="a:9092", acks=1, partitioner=lambda key, count: len(key or b"") % count)
Producer(profile="prod", value_serializer=lambda value: json.dumps(value).encode()).send("t", {"id": 1}, "key")
AsyncProducer(bootstrap_servers="a:9092", acks="all", compression_type="zstd", ssl_cafile="ca.pem")
Admin(bootstrap_servers="a:9092", security_protocol="sasl_ssl", sasl_plain_username="u", sasl_plain_password="p")
Broker({"num.partitions": 3}, broker_rack="r", log_retention_ms=1000)
StagedBroker(frozen=True, nodes=3, num_partitions=6, users={"u": "p"})
"""
PROGRAM = "program.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.mypy]\n[tool.pyright]\n")
    return tmp_path


def marked_lines(program: str) -> list[int]:
    return [number for number, line in enumerate(program.splitlines(), 1) if line.endswith("# error")]


def lines_that_mypy_rejects(folder: Path, program: str) -> list[int]:
    (folder / PROGRAM).write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", PROGRAM],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return sorted({int(n) for n in re.findall(rf"^{PROGRAM}:(\d+): error:", done.stdout, re.MULTILINE)})


def lines_that_pyright_rejects(folder: Path, program: str) -> list[int]:
    (folder / PROGRAM).write_text(program)
    checker = node_packages("node-pyright") / "node_modules" / "pyright" / "index.js"
    done = subprocess.run(
        ["node", str(checker), "--outputjson", "--pythonpath", sys.executable, PROGRAM],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    return sorted({d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"})


def test_mypy_finds_each_wrong_option(folder: Path) -> None:
    assert lines_that_mypy_rejects(folder, TYPOS) == marked_lines(TYPOS)


def test_mypy_accepts_valid_options(folder: Path) -> None:
    assert lines_that_mypy_rejects(folder, VALID) == []


@pytest.mark.toolchain
def test_pyright_finds_each_wrong_option(folder: Path) -> None:
    assert lines_that_pyright_rejects(folder, TYPOS) == marked_lines(TYPOS)


@pytest.mark.toolchain
def test_pyright_accepts_valid_options(folder: Path) -> None:
    assert lines_that_pyright_rejects(folder, VALID) == []


class LanguageServer:
    """Dialogue with a language server over its standard input and output (JSON-RPC)."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._number = 0

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._send({"method": method, "params": params})

    def request(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result; answer the server's own requests with null."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
            elif message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        size = 0
        while line := self._process.stdout.readline().strip():
            name, _, value = line.partition(b":")
            size = int(value) if name.lower() == b"content-length" else size
        message: dict[str, Any] = json.loads(self._process.stdout.read(size))
        return message


@contextmanager
def pyright_server(folder: Path) -> Iterator[LanguageServer]:
    server = node_packages("node-pyright") / "node_modules" / "pyright" / "langserver.index.js"
    process = subprocess.Popen(
        ["node", str(server), "--stdio"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield LanguageServer(process)
    finally:
        process.kill()
        process.communicate()


def completions(folder: Path, text: str) -> list[str]:
    """Return the proposals of Pyright's language server at the end of ``text``."""
    (folder / "pyproject.toml").write_text(
        f'[tool.pyright]\nvenvPath = "{Path(sys.prefix).parent}"\nvenv = "{Path(sys.prefix).name}"\n'
    )
    (folder / PROGRAM).write_text(text)
    uri = (folder / PROGRAM).as_uri()
    lines = text.splitlines()
    with pyright_server(folder) as server:
        root = folder.as_uri()
        server.request(
            "initialize",
            {
                "processId": None,
                "rootUri": root,
                "capabilities": {},
                "workspaceFolders": [{"uri": root, "name": "folder"}],
            },
        )
        server.notify("initialized", {})
        document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
        server.notify("textDocument/didOpen", {"textDocument": document})
        place = {"line": len(lines) - 1, "character": len(lines[-1])}
        found = server.request("textDocument/completion", {"textDocument": {"uri": uri}, "position": place})
    return [item["label"] for item in found["items"]]


@pytest.mark.toolchain
def test_language_server_completes_options_of_consumers(folder: Path) -> None:
    labels = completions(folder, "from kohort import Consumer\n\nConsumer(auto_")

    assert {"auto_offset_reset=", "auto_commit_interval_ms="} <= set(labels)


@pytest.mark.toolchain
def test_language_server_completes_values_of_an_enumeration(folder: Path) -> None:
    labels = completions(folder, "from kohort import Producer\n\nProducer(compression_type=")

    assert {"'gzip'", "'zstd'"} <= set(labels)

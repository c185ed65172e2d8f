"""librdkafka's own test suite: built with gcc and make, every broker test run in full.

It runs in its oldest and its newest version; the newest also with consumer groups (KIP-848). The oldest is Debian's
source package. The newest is in Confluent's npm package, tests included: PyPI has only the Python part of
confluent-kafka, Go modules contain binaries, and the copy in crates.io's rdkafka-sys is older.

A test is a process and passes if its row in the runner's summary says PASSED; the exit code is ignored. Many tests have
deadlines of a few seconds: one that fails in parallel with others is retried alone, unless its failure is explained
(some of those hang until their timeout). Three brokers serve: one creates topics on use, one does not ("noautocreate",
a scenario of the suite), and one has TLS and logins for tests that need them (``secured``). Some tests call Kafka's own
command-line tools, those of ``tools/kafka``, which need Java and Maven.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

from results import Results, SuiteList, rows, subtest_passed
from secured import Way, secured_broker
from sources import WORK, debian_library, debian_source, npm

from support.peers.apache_kafka import kafka_tool
from support.processes.served_broker import Served

BUILD_S = 3600
NEWEST = ("@confluentinc/kafka-javascript", "1.10.1")
"""npm package with librdkafka 2.15.1."""
RAPIDJSON = "1.1.0+dfsg2"
"""Header-only library for four of the tests."""
CURL = ("libcurl4-openssl-dev", "libcurl4")
"""Library for token requests; without it, librdkafka is built without OIDC."""
NEEDED = ("WITH_CURL", "WITH_RAPIDJSON", "WITH_SSL", "WITH_ZLIB")
NOTHING: Mapping[str, str] = MappingProxyType({})
GROUP_PROTOCOL = "TEST_CONSUMER_GROUP_PROTOCOL"
TEST_S = 900
AT_ONCE = 4
"""Number of tests that run in parallel; most tests mostly wait."""
BROKER_VERSION = "4.0.0"
SCENARIOS = ("default", "noautocreate")
NODES = "3"
SETTINGS = {
    "num.partitions": "4",
    "default.replication.factor": NODES,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Broker settings of their scenarios."""
OWN_PART = {
    "0045_resubscribe_with_regex": "do_test_resubscribe_with_regex",
    "0045_subscribe_update_non_exist_and_partchange": "do_test_non_exist_and_partchange",
}
"""Tests with a subtest that does not end: retried with this subtest alone."""
DECLARED = re.compile(r"^ {4}_TEST\((?P<name>\w+),(?P<rest>.*?)\),?$(?=\n(?: {4}\S|#|\n))", re.MULTILINE | re.DOTALL)
TOOLS = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "run-class": "",
}
NOT_BROKER_TESTS = ("TEST_F_LOCAL", "TEST_F_MANUAL")


def librdkafka(suite_list: SuiteList) -> Results:
    """Return the results of every broker test of Debian's version."""
    return suite(debian_source("librdkafka", suite_list.version), suite_list)


def librdkafka_newest(suite_list: SuiteList, environment: Mapping[str, str] = NOTHING) -> Results:
    """Return the results of all broker tests of the newest version; ``environment``: variables of the tests.

    Raises RuntimeError if the package has another version.
    """
    folder = npm(*NEWEST) / "deps" / "librdkafka"
    version = re.search(r"RD_KAFKA_VERSION 0x(..)(..)(..)ff", (folder / "src" / "rdkafka.h").read_text())
    found = ".".join(str(int(part, 16)) for part in version.groups()) if version else "unknown"
    if found != suite_list.version:
        raise RuntimeError(f"{' '.join(NEWEST)} contains librdkafka {found}, not {suite_list.version}")
    return suite(folder, suite_list, environment)


def librdkafka_consumer(suite_list: SuiteList) -> Results:
    """Return the same results with consumer groups (KIP-848)."""
    return librdkafka_newest(suite_list, {GROUP_PROTOCOL: "consumer"})


def suite(folder: Path, suite_list: SuiteList, environment: Mapping[str, str] = NOTHING) -> Results:
    """Return the results of every broker test of the source in this folder."""
    tests = build(folder)
    kafka_tools()  # downloaded once, before several threads need them
    log = tests / "-".join(("said", *environment.values()))
    log.mkdir(exist_ok=True)
    found: Results = {}
    with ExitStack() as stack:
        brokers = {}
        for scenario in SCENARIOS:
            served = Served(*broker_words(scenario))
            brokers[scenario] = Way(stack.enter_context(served).bootstrap, {}, {})
        secured = stack.enter_context(secured_broker(tests / "secured", *broker_words("default")))
        pool = stack.enter_context(ThreadPoolExecutor(AT_ONCE))
        tests_to_run = list(broker_tests((tests / "test.c").read_text()))
        ways = {name: secured.get(name, brokers[scenario]) for name, scenario in tests_to_run}
        ways = {name: replace(way, environment={**way.environment, **environment}) for name, way in ways.items()}
        runs = [(name, pool.submit(run, log, name, scenario, ways[name])) for name, scenario in tests_to_run]
        for name, running in runs:
            found[name] = running.result()
            print(f"  {name}: {found[name]}", flush=True)
        for name, scenario in tests_to_run:
            if found[name] == "failed" and name not in suite_list.explained:
                found[name] = run(log, name, scenario, ways[name], OWN_PART.get(name))
                print(f"  {name}, alone: {found[name]}", flush=True)
    return found


def broker_words(scenario: str) -> list[str]:
    """Return the start options of a broker for a scenario."""
    settings = {**SETTINGS, "auto.create.topics.enable": str(scenario == "default").lower()}
    return ["--nodes", NODES, *(word for key, value in settings.items() for word in ("--set", f"{key}={value}"))]


def build(folder: Path) -> Path:
    """Build the tests; return their folder."""
    tests = folder / "tests"
    if not (tests / "test-runner").exists() or lacking(folder):
        curl = debian_library(*CURL)
        headers = [debian_source("rapidjson", RAPIDJSON) / "include", *curl.glob("usr/include/*-linux-gnu")]
        include = os.pathsep.join(map(str, headers))
        environment = {
            "C_INCLUDE_PATH": include,  # not CPATH: warnings of these headers would be errors
            "CPLUS_INCLUDE_PATH": include,
            "LIBRARY_PATH": os.pathsep.join(map(str, curl.glob("usr/lib/*-linux-gnu"))),
        }
        for command in (["./configure", "--disable-lz4-ext", "--disable-zstd"], ["make", "libs"]):
            _make(command, folder, environment)
        if lacks := lacking(folder):
            raise RuntimeError(f"librdkafka would be built without {' and '.join(lacks)}; see {folder / 'config.log'}")
        _make(["make", "test-runner"], tests, environment)
    return tests


def lacking(folder: Path) -> list[str]:
    """Return missing features that tests need: they would be skipped."""
    config = folder / "config.h"
    text = config.read_text() if config.exists() else ""
    return [feature for feature in NEEDED if f"#define {feature} 1" not in text]


def _make(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment},
        capture_output=True, text=True, timeout=BUILD_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} in {folder}: {done.stdout[-2000:]}{done.stderr[-4000:]}")


@cache
def kafka_tools() -> Path:
    """Return a folder like Kafka's distribution, with the tools and Java classes of the tests."""
    os.environ["KOHORT_REQUIRE_PEERS"] = "1"  # download missing jars instead of a skip
    tool = kafka_tool()
    folder = WORK / "kafka-tools"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    if not (folder / "libs").exists():
        (folder / "libs").symlink_to(tool.TOOLS)
    java = f'exec java -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$CLASSPATH:{tool.TOOLS}/*"'
    for name, main in TOOLS.items():
        script = folder / "bin" / f"kafka-{name}.sh"
        script.write_text(f'#!/bin/sh\n{java} {main} "$@"\n')
        script.chmod(0o755)
    return folder


def broker_tests(source: str) -> Iterator[tuple[str, str]]:
    """Yield the tests that need a broker with their scenarios, from the table in the runner's source."""
    for test in DECLARED.finditer(source):
        rest = test["rest"]
        if not any(flag in rest for flag in NOT_BROKER_TESTS):
            yield test["name"], "noautocreate" if '"noautocreate"' in rest else "default"


def run(log: Path, name: str, scenario: str, way: Way, part: str | None = None) -> str:
    """Run one test; return passed, failed or skipped. Its output is kept in the folder ``log``.

    All tests of its number run in its process, or only the subtest ``part``.
    """
    tests = log.parent
    conf = log / f"{name}.conf"  # one file per test, because tests run in parallel
    properties = {"metadata.broker.list": way.bootstrap, "test.timeout.multiplier": "3", **way.conf}
    conf.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    environment = {
        "TESTS": name[:4],
        "TEST_KAFKA_VERSION": BROKER_VERSION,
        "RDKAFKA_TEST_CONF": str(conf),
        "KAFKA_PATH": str(kafka_tools()),
        "BROKERS": way.bootstrap,
        **way.environment,
        **({"SUBTESTS": part} if part else {}),
        "LD_LIBRARY_PATH": f"{tests.parent / 'src'}:{tests.parent / 'src-cpp'}",
    }
    command = ["./test-runner", "-p1", "-L", "-s", scenario]
    output_path = log / f"{name}.log"
    with output_path.open("w") as out:
        try:
            subprocess.run(
                command, cwd=tests, env={**os.environ, **environment}, stdout=out, stderr=subprocess.STDOUT,
                timeout=TEST_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "failed"
    text = output_path.read_text(errors="replace")
    if part and not subtest_passed(text, part):
        return "failed"
    return rows(text).get(name, "failed")

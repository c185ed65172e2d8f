"""Test suites of other projects against our broker, and docs/report-card.md made of what came out.

    python tools/suites/run.py            runs every suite; fails where one that passed before does not
    python tools/suites/run.py --write    and takes what newly passes into the lists, and writes the report card

A suite's own files come from its source distribution, into .kohort/suites; nothing of theirs is kept here. What must
pass, and why the rest does not, stands beside this file in one list per suite (``<suite>.toml``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORK = ROOT / ".kohort" / "suites"
CARD = ROOT / "docs" / "report-card.md"
sys.path.insert(0, str(ROOT / "tests" / "support"))

from served import Served  # noqa: E402  # the tests' way to a broker in a process of its own

SUITE_S = 1200
TEST_S = 90
Results = dict[str, str]
"""passed, failed or skipped, by the name of the test."""

SERVICE = '''"""A broker that somebody else started: what the source distribution leaves out."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    """Never used: the broker is an external one."""
'''


def sdist(name: str, version: str) -> Path:
    """The unpacked source distribution of a package."""
    folder = WORK / f"{name}-{version}"
    if not folder.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
        bring = [uv, "tool", "run", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*bring, "--dest", str(WORK), f"{name}=={version}"], check=True, timeout=300)
        (archive,) = WORK.glob(f"{name.replace('-', '_')}-{version}.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(WORK / "unpacking", filter="data")
        (inside,) = (WORK / "unpacking").iterdir()
        inside.rename(folder)
    return folder


def kafka_python(version: str) -> Results:
    """Its integration tests, on a broker with the settings that its own fixture gives to Apache Kafka."""
    folder = sdist("kafka-python", version)
    (folder / "test" / "__init__.py").touch()
    (folder / "test" / "service.py").write_text(SERVICE)
    (folder / "nothing").mkdir(exist_ok=True)
    settings = {
        "node.id": "0",
        "num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
    }
    tests = [f"test/integration/test_{part}_integration.py" for part in ("admin", "consumer", "producer")]
    report = WORK / "kafka-python.xml"
    with Served(*(word for k, v in settings.items() for word in ("--set", f"{k}={v}"))) as served:
        told = {"KAFKA_URI": f"kafka://{served.bootstrap}", "KAFKA_VERSION": "4.2.0", "PYTHONPATH": str(folder)}
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts="]
        subprocess.run(
            [*pytest, *tests, "--tb=native", f"--timeout={TEST_S}", f"--junitxml={report}"],
            cwd=folder, env={**os.environ, **told, "KAFKA_ROOT": str(folder / "nothing")},
            timeout=SUITE_S, check=False, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    return outcomes(report)


def outcomes(report: Path) -> Results:
    """The results in a JUnit report."""
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        found[name] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    return found


SUITES = {"kafka-python": kafka_python}


def judge(suite: str, results: Results, known: dict[str, object]) -> list[str]:
    """What is wrong with the results: a test that passed before, or a failure that nobody has explained."""
    must, explained = set(known["passes"]), dict(known["explained"])  # type: ignore[call-overload]  # TOML's shape
    lost = [f"{suite}: {name} passed before and is {results.get(name, 'gone')}" for name in sorted(must)
            if results.get(name) != "passed"]  # fmt: skip
    unexplained = [f"{suite}: {name} failed, and {suite}.toml does not say why" for name, result in results.items()
                   if result == "failed" and name not in explained and name not in must]  # fmt: skip
    return lost + unexplained


def write_list(suite: str, version: str, results: Results, explained: dict[str, str]) -> None:
    passes = sorted(name for name, result in results.items() if result == "passed")
    lines = [f'version = "{version}"', "", "# What passes has to go on passing: this list may only grow.", "passes = ["]
    lines += [f'    "{name}",' for name in passes]
    lines += ["]", "", "# Why the others do not.", "[explained]"]
    lines += [f'"{name}" = "{why}"' for name, why in sorted(explained.items()) if results.get(name) != "passed"]
    (HERE / f"{suite}.toml").write_text("\n".join(lines) + "\n")


def card(found: dict[str, tuple[str, Results, dict[str, str]]]) -> str:
    """docs/report-card.md."""
    lines = ["# Report card: test suites of other projects against our broker", ""]
    lines += ["<!-- made by `make suites` with --write: tools/suites/run.py -->", ""]
    lines += ["| suite | version | tests | passed | failed | skipped |", "|---|---|---:|---:|---:|---:|"]
    for suite, (version, results, _) in found.items():
        counts = [sum(result == kind for result in results.values()) for kind in ("passed", "failed", "skipped")]
        lines.append(f"| {suite} | {version} | {len(results)} | {' | '.join(map(str, counts))} |")
    for suite, (_, results, explained) in found.items():
        lines += ["", f"## {suite}: what does not pass", "", "| test | result | why |", "|---|---|---|"]
        lines += [f"| {name} | {result} | {explained.get(name, 'not for this version of Kafka')} |"
                  for name, result in sorted(results.items()) if result != "passed"]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--write", action="store_true", help="take what newly passes, and write the report card")
    write = options.parse_args().write
    found, wrong = {}, []
    for suite, run in SUITES.items():
        known = tomllib.loads((HERE / f"{suite}.toml").read_text())
        results = run(known["version"])
        found[suite] = (known["version"], results, known["explained"])
        wrong += judge(suite, results, known)
        print(f"{suite}: {sum(r == 'passed' for r in results.values())} of {len(results)} passed")
        if write and not wrong:
            write_list(suite, known["version"], results, known["explained"])
    if write and not wrong:
        CARD.write_text(card(found))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

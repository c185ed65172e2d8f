"""What came out of a suite: read off its own report, held against the list beside this file, told on the card."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field

Results = dict[str, str]
"""passed, failed or skipped, by the name of the test."""

KINDS = ("passed", "failed", "skipped")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ROW = re.compile(r"^\|\s*(?P<name>\w\S*)\s*\|\s*(?P<state>PASSED|FAILED|SKIPPED|RUNNING)\s*\|", re.MULTILINE)
ENDED = re.compile(r"=== Test (?P<name>\w+) (?P<state>PASSED|FAILED|SKIPPED) ===")
COUNTED = re.compile(r"^\| (?P<suite>[a-z][\w-]*) \| \d.*$", re.MULTILINE)


@dataclass
class Known:
    """The list of one suite: its version, what must pass, and why the rest does not."""

    version: str
    passes: list[str] = field(default_factory=list)
    explained: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Known:
        """The list in a TOML text."""
        return cls(**tomllib.loads(text))

    def build(self) -> str:
        """The TOML text."""
        lines = [f'version = "{self.version}"', "", "# What passes has to go on passing: this list may only grow."]
        lines += ["passes = [", *(f'    "{name}",' for name in sorted(self.passes)), "]"]
        lines += ["", "# Why the others do not.", "[explained]"]
        lines += [f'"{name}" = "{why}"' for name, why in sorted(self.explained.items())]
        return "\n".join(lines) + "\n"

    def judge(self, suite: str, results: Results) -> list[str]:
        """What is wrong: a test that passed before and does not, or a failure that nobody has explained."""
        lost = [(name, results.get(name, "gone")) for name in sorted(self.passes)]
        failed = [name for name in sorted(results) if results[name] == "failed"]
        told = {*self.passes, *self.explained}
        return [
            *(f"{suite}: {name} passed before and is {result}" for name, result in lost if result != "passed"),
            *(f"{suite}: {name} failed, and {suite}.toml does not say why" for name in failed if name not in told),
        ]

    def grown(self, results: Results) -> Known:
        """The list with what passes by now; nothing leaves it, and what passes needs no explanation any more."""
        passes = sorted({*self.passes, *(name for name, result in results.items() if result == "passed")})
        explained = {name: why for name, why in self.explained.items() if name not in passes}
        return Known(self.version, passes, explained)


def junit(text: str) -> Results:
    """The results in a JUnit report."""
    found: Results = {}
    for case in ElementTree.fromstring(text).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"} or found.get(name) == "failed"  # a teardown's error is a case of its own
        found[name] = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
    return found


def rows(text: str) -> Results:
    """How tests ended by what librdkafka's test runner prints: as they end, and in a summary, which is not there where
    one of them left threads behind. A test that was still running has failed."""
    plain, found = COLOURS.sub("", text), {}
    for row in (*ENDED.finditer(plain), *ROW.finditer(plain)):
        state = row["state"].lower()
        found[row["name"]] = state if state in KINDS else "failed"
    return found


def subtest_passed(text: str, name: str) -> bool:
    """Whether librdkafka's test runner ran a subtest and it passed: a test whose subtests are left out passes too."""
    return re.search(rf"\[ {re.escape(name)}:\d+: PASS ", COLOURS.sub("", text)) is not None


def card(found: dict[str, tuple[Known, Results]], before: str, suites: Iterable[str]) -> str:
    """docs/lab/report-card.md: counts for each suite, and why what does not pass does not.

    Of ``suites`` those that are not ``found`` stay as ``before``, the card of now, has them.
    """
    lines = ["# Report card: test suites of other projects against our broker", ""]
    lines += ["<!-- made by `make suites` with --write: lab/tools/suites/run.py -->", ""]
    lines += ["| suite | version | tests | passed | failed | skipped |", "|---|---|---:|---:|---:|---:|"]
    counted = {row["suite"]: row[0] for row in COUNTED.finditer(before)}
    told = {title.partition(":")[0]: title for title in before.split("\n## ")[1:]}
    named = list(suites)
    for suite in named:
        if suite in found:
            known, results = found[suite]
            counts = " | ".join(str(sum(result == kind for result in results.values())) for kind in KINDS)
            lines.append(f"| {suite} | {known.version} | {len(results)} | {counts} |")
        elif suite in counted:
            lines.append(counted[suite])
    for suite in named:
        if suite in found:
            lines += _others(suite, *found[suite])
        elif suite in told:
            lines += ["", f"## {told[suite].rstrip()}"]
    return "\n".join(lines) + "\n"


def _others(suite: str, known: Known, results: Results) -> list[str]:
    others = sorted((name, result) for name, result in results.items() if result != "passed")
    lines = ["", f"## {suite}: what does not pass", "", "| test | result | why |", "|---|---|---|"] if others else []
    return [
        *lines,
        *(f"| {name} | {result} | {known.explained.get(name, 'skips itself')} |" for name, result in others),
    ]

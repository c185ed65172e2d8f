"""Each promise of docs/guarantees.md and SECURITY.md cites existing tests, options and commands."""

import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from kohort.cli.main import main
from kohort.config import BrokerConfig, TopicConfig, options_of
from kohort.config.client import ConsumerConfig, ProducerConfig
from kohort.config.options import Option
from kohort.errors import KohortError
from kohort.spark.options.sink import SINK_TABLE
from kohort.spark.options.table import TABLE, SparkOption
from kohort_lab.sim.planted.catalogue import all_bugs

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PROMISES = (ROOT / "docs" / "guarantees.md").read_text()
PAGES = {"guarantees": PROMISES, "SECURITY": (ROOT / "SECURITY.md").read_text()}
CITED = re.compile(r"`((?:\w+/)+\w+\.py)(?:::(\w+))?`")
BUG = re.compile(r"`bug:([a-z][a-z0-9-]*)`")
PROMISE = re.compile(r"^- \*\*(.+?)\*\*\n((?:  [^\n]*\n)*)", re.MULTILINE | re.DOTALL)
PART = re.compile(r"^  - (Requires|Not promised|Held by):((?:.*\n)(?:    .*\n)*)", re.MULTILINE)
DEFAULT = re.compile(r"^\| `([\w.]+)` \| ([\w. `]+) \| (?:`([^`]*)`|none) \|$", re.MULTILINE)
SET = re.compile(r"`([a-z][\w.]+)=([^`(.][^`]*)`")
COMMAND = re.compile(r"`kohort ((?:[a-z][a-z-]* ?)+)(--[a-z-]+)?")
TABLES: dict[str, Any] = {
    "topic": options_of(TopicConfig),
    "broker": options_of(BrokerConfig),
    "producer": options_of(ProducerConfig),
    "consumer": options_of(ConsumerConfig),
    "consumer with `group.id`": options_of(ConsumerConfig),
    "Spark source": list(TABLE),
    "Spark sink": list(SINK_TABLE),
}
IN_FORCE = {
    ("enable.idempotence", "producer"): ProducerConfig(bootstrap_servers=["a:1"]).enable_idempotence,
    ("enable.auto.commit", "consumer with `group.id`"): ConsumerConfig(
        bootstrap_servers=["a:1"], group_id="g"
    ).enable_auto_commit,
}
"""Effective defaults of options that depend on other options."""


def default_of(name: str, of: str) -> str | None:
    """Return the default of an option as users write it."""
    (option,) = [option for option in TABLES[of] if option.name == name]
    value = IN_FORCE.get((name, of), option.default)
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def promises(page: str) -> list[dict[str, str]]:
    """Return the parts of each promise, by their labels."""
    return [{"promise": promise, **dict(PART.findall(body))} for promise, body in PROMISE.findall(PAGES[page])]


def test_parser_finds_all_promises_and_parts():
    for page, text in PAGES.items():
        parsed = promises(page)
        assert len(parsed) == len(re.findall(r"^- \*\*", text, re.MULTILINE))
        assert sum(map(len, parsed)) - len(parsed) == len(re.findall(r"^  - ", text, re.MULTILINE))


@pytest.mark.parametrize(("page", "least"), [("guarantees", 50), ("SECURITY", 20)])
def test_every_promise_cites_a_test_or_links_a_decision(page, least):
    parsed = promises(page)
    evidence = {promise["promise"]: promise.get("Held by", "") for promise in parsed}
    assert [text for text, cited in evidence.items() if not CITED.search(cited) and "](" not in cited] == []
    assert len(evidence) == len(parsed) > least


def defines(file: Path, name: str) -> bool:
    """Return True if the file defines a function, a class or a module variable of this name."""
    return bool(re.search(rf"^\s*(?:(?:async )?def|class) {name}\b|^{name} = ", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_cited_tests_exist(page):
    cited = CITED.findall(PAGES[page])
    missing = [file for file, _ in cited if not (TESTS / file).is_file() and not (ROOT / file).is_file()]
    assert missing == []
    named = [(file, name) for file, name in cited if (TESTS / file).is_file()]
    absent = [f"{file}::{name}" for file, name in named if name and not defines(TESTS / file, name)]
    assert absent == []
    assert len(named) > 10


def test_cited_bugs_exist():
    named = set(BUG.findall(PROMISES))
    assert len(named) > 30
    assert named - set(all_bugs()) == set()


def test_listed_defaults_match_the_code():
    listed = DEFAULT.findall(PROMISES)
    assert len(listed) > 30
    wrong = {
        (name, of): (value, default_of(name, of))
        for name, of, value in listed
        if (value or None) != default_of(name, of)
    }
    assert wrong == {}


def accepts(option: Option | SparkOption, value: str) -> bool:
    try:
        option.parse(value) if isinstance(option, Option) else option.parse(option.name, value)
    except KohortError:
        return False
    return True


def test_options_in_promises_are_valid_and_have_a_listed_default():
    listed = {name for name, _, _ in DEFAULT.findall(PROMISES)}
    options = [option for table in TABLES.values() for option in table]
    settings = SET.findall(PROMISES)
    assert len(settings) > 30
    assert {name for name, _ in settings} - listed == set()
    invalid = [s for s in settings if not any(option.name == s[0] and accepts(option, s[1]) for option in options)]
    assert invalid == []
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", PROMISES)) & {option.name for option in options}
    assert named - listed == set()


def test_cited_commands_and_extras_exist():
    unknown = []
    for words, option in COMMAND.findall(PROMISES):
        command: click.Command = main
        context = click.Context(main)
        for word in words.split():
            found = command.get_command(context, word) if isinstance(command, click.Group) else None
            if found is None:
                unknown.append(f"kohort {words}")
                break
            command = found
        if option and option not in {name for parameter in command.params for name in parameter.opts}:
            unknown.append(f"kohort {words}{option}")
    assert unknown == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"`kohort\[(\w+)\]`", PROMISES)) <= set(extras)


@pytest.mark.parametrize(
    ("figure", "file", "source"),
    [
        ("[21 of 119](lab/hardening.md", "docs/lab/hardening.md", "Clients alone detect 21 of 119 planted bugs"),
        (
            "3 in every run of the tests, 100 in the long runs",
            "tests/behaviour/test_kills.py",
            '"kills", [3, pytest.param(100',
        ),
        (
            "3 and 20 in the long runs",
            "tests/spark/test_killed_pipeline.py",
            "[(1, 3), (2, 20)]",
        ),
        (
            "fifty long runs",
            "tests/behaviour/test_histories_of_runs.py",
            "runs(tmp_path, 50)",
        ),
        (
            "up to 300 partitions in one request",
            "src/kohort/broker/apis/offset_commit.py",
            "parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True)",
        ),
        ("282 of 283 rebalances were named rightly", "docs/lab/campaign.md", "| kohort | 283 | 282 | 99.6 % |"),
    ],
)
def test_figures_match_their_sources(figure, file, source):
    assert figure in " ".join(PROMISES.split())
    assert source in (ROOT / file).read_text()

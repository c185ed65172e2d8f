"""docs/guarantees.md and SECURITY.md promise nothing without what holds it, and name only what is there."""

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
TABLE_OF_PROMISES = re.compile(r"^(\| promised \|.*)\n\|[-|]+\|\n((?:\|.*\n)+)", re.MULTILINE)
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
"""Of options whose default follows from others: what is in force."""


def default_of(name: str, of: str) -> str | None:
    """What stands for an option in ``docs/reference``, with lists and switches as users write them."""
    (option,) = [one for one in TABLES[of] if one.name == name]
    value = IN_FORCE.get((name, of), option.default)
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def promises(page: str) -> list[dict[str, str]]:
    """Each row of the tables of promises, by the heads of its columns."""
    tables = TABLE_OF_PROMISES.findall(PAGES[page])
    return [dict(zip(cells(head), cells(row), strict=True)) for head, body in tables for row in body.splitlines()]


@pytest.mark.parametrize(("page", "least"), [("guarantees", 50), ("SECURITY", 20)])
def test_every_promise_says_what_holds_it(page, least):
    made = promises(page)
    silent = [one["promised"] for one in made if not CITED.search(one["held by"]) and "](" not in one["held by"]]
    assert len(made) > least
    assert silent == []


def defines(file: Path, name: str) -> bool:
    """Whether a module has a test of this name: a function, a method, or a class that is made of a machine."""
    return bool(re.search(rf"^\s*(?:(?:async )?def|class) {name}\b|^{name} = ", file.read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES)
def test_the_tests_that_are_named_are_there(page):
    cited = CITED.findall(PAGES[page])
    missing = [file for file, _ in cited if not (TESTS / file).is_file() and not (ROOT / file).is_file()]
    assert missing == []
    named = [(file, name) for file, name in cited if (TESTS / file).is_file()]
    absent = [f"{file}::{name}" for file, name in named if name and not defines(TESTS / file, name)]
    assert absent == []
    assert len(named) > 10


def test_the_planted_bugs_that_are_named_are_planted():
    named = set(BUG.findall(PROMISES))
    assert len(named) > 30
    assert named - set(all_bugs()) == set()


def test_the_defaults_are_those_of_the_code():
    listed = DEFAULT.findall(PROMISES)
    assert len(listed) > 30
    wrong = {
        (name, of): (told, default_of(name, of)) for name, of, told in listed if (told or None) != default_of(name, of)
    }
    assert wrong == {}


def takes(option: Option | SparkOption, value: str) -> bool:
    try:
        option.parse(value) if isinstance(option, Option) else option.parse(option.name, value)
    except KohortError:
        return False
    return True


def test_what_promises_say_to_set_can_be_set_and_stands_in_the_list_of_defaults():
    listed = {name for name, _, _ in DEFAULT.findall(PROMISES)}
    every = [one for options in TABLES.values() for one in options]
    given = SET.findall(PROMISES)
    assert len(given) > 30
    assert {name for name, _ in given} - listed == set()
    assert [given for given in given if not any(one.name == given[0] and takes(one, given[1]) for one in every)] == []
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", PROMISES)) & {one.name for one in every}
    assert named - listed == set()


def test_the_commands_and_extras_that_are_named_are_there():
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
        if option and option not in {name for one in command.params for name in one.opts}:
            unknown.append(f"kohort {words}{option}")
    assert unknown == []
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(re.findall(r"`kohort\[(\w+)\]`", PROMISES)) <= set(extras)


@pytest.mark.parametrize(
    ("said", "file", "words"),
    [
        ("[21 of 119](lab/hardening.md", "docs/lab/hardening.md", "21 of 119 are seen by clients alone"),
        (
            "3 in every run of the tests, 100 in the campaigns",
            "tests/behaviour/test_kills.py",
            '"kills", [3, pytest.param(100',
        ),
        (
            "3 and 20 in the campaigns",
            "tests/spark/test_killed_pipeline.py",
            "[(1, 3), (2, 20)]",
        ),
        (
            "fifty runs in the campaigns",
            "tests/behaviour/test_histories_of_runs.py",
            "runs(tmp_path, 50)",
        ),
        (
            "up to 300 partitions in one request",
            "src/kohort/broker/apis/offset_commit.py",
            "parts=Parts(PARTITIONS, PARTITIONS, 300, writes=True)",
        ),
        ("267 of 268 rebalances were named rightly", "docs/lab/campaign.md", "| kohort | 268 | 267 | 99.6 % |"),
    ],
)
def test_figures_are_those_of_where_they_come_from(said, file, words):
    assert said in PROMISES
    assert words in (ROOT / file).read_text()

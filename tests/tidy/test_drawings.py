"""The drawings in ARCHITECTURE.md and in docstrings are what the code is: layers, seams, the tree of errors."""

import configparser
import re
import typing
from pathlib import Path

import pytest

import kohort.broker.io
import kohort.client.requests.io

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()


def layers_of_the_linter() -> list[list[str]]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    rows = parser["importlinter:contract:layers"]["layers"].strip().splitlines()
    names = [[name.strip().removeprefix("kohort.") for name in row.split("|")] for row in rows]
    return [row for row in names if row != ["__main__"]]


def layers_as_drawn() -> list[list[str]]:
    drawing = re.search(r"## Layers\n+```\n(.*?)```", TEXT, re.DOTALL)
    assert drawing is not None
    return [re.findall(r"\w+", re.split(r"  +[a-z]+ [a-z]+ ", line)[0]) for line in drawing.group(1).splitlines()]


def test_the_layers_are_drawn_as_the_linter_holds_them():
    assert [sorted(row) for row in layers_as_drawn()] == [sorted(row) for row in layers_of_the_linter()]


@pytest.mark.parametrize("io", [kohort.broker.io, kohort.client.requests.io], ids=["broker", "client"])
def test_architecture_lists_all_events_of_a_state_machine(io):
    path = io.__name__.removeprefix("kohort.").replace(".", "/") + ".py"
    item = re.search(rf"^- `{re.escape(path)}`: (.*?)\n(?=- |\n)", TEXT, re.DOTALL | re.MULTILINE)
    assert item is not None
    going_in, coming_out = item[1].split(" go in; ")
    for words, union in ((going_in, io.Input), (coming_out, io.Output)):
        assert set(re.findall(r"\b[A-Z]\w+", words)) == {event.__name__ for event in typing.get_args(union)}

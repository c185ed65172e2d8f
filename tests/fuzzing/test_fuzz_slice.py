"""A slice of the fuzzer: every input of its corpus, and some inputs of each entrance from a fixed seed.

``make fuzz`` does the same for as long as it is let.
"""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
from fuzz.campaign import cut, input_of
from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances import PLACES, entrance_of
from fuzz.guided import lines_of
from fuzz.measure import InputRunner, place_of
from fuzz.mutate import mutated
from fuzz.scripts import Step, build, parse

from kohort.config import parse_config
from kohort.config.client import ProducerConfig
from kohort.errors import KohortError

CORPUS = Path(__file__).parents[2] / "lab" / "tools" / "fuzz" / "corpus"
KEPT = sorted(CORPUS.glob("*/*.bin"))
RUNS = {
    "broker-frames": 15,
    "record-batches": 500,
    "data-folders": 30,
    "internal-records": 20,
    "client-answers": 5,
    "admin-answers": 1000,
    "client-metrics": 2000,
    "tokens": 2000,
    "broker-logins": 20,
    "journal-entries": 200,
    "option-files": 300,
    "schemas": 1000,
    "pipeline-files": 100,
    "histories": 300,
    "kernel-files": 500,
    "watch-stores": 100,
    "scrapes": 300,
    "command-lines": 200,
}
NEEDS = {"record-batches": "pyarrow", "schemas": "fastavro", "pipeline-files": "yaml"}


def test_slice_has_all_entrances():
    assert RUNS.keys() == PLACES.keys()


@pytest.mark.parametrize("name", RUNS)
def test_generated_inputs_of_an_entrance_harm_nothing(name):
    pytest.importorskip(NEEDS.get(name, "kohort"))
    entrance = entrance_of(name)
    for number in range(RUNS[name]):
        entrance.run(input_of(entrance, 1, number), Watch())


@pytest.mark.parametrize("path", KEPT, ids=[f"{path.parent.name}/{path.stem}" for path in KEPT])
def test_fixed_findings_do_not_recur(path):
    pytest.importorskip(NEEDS.get(path.parent.name, "kohort"))
    entrance_of(path.parent.name).run(path.read_bytes(), Watch())


def test_corpus_is_small_and_has_known_entrances_only():
    assert sum(path.stat().st_size for path in KEPT) < 300_000
    assert {path.parent.name for path in KEPT} <= PLACES.keys()


@pytest.mark.parametrize("name", RUNS)
def test_an_input_follows_from_its_seed(name):
    pytest.importorskip(NEEDS.get(name, "kohort"))
    entrance = entrance_of(name)

    assert input_of(entrance, 5, 3) == input_of(entrance, 5, 3)


# ---------------------------------------------------------------- the fuzzer itself


class Fragile(Entrance):
    """Fails for what holds an X, and then a Y."""

    name = "fragile"
    feeds = "bytes"

    def generate(self, rng: random.Random) -> bytes:
        return rng.randbytes(10)

    def run(self, data: bytes, watch: Watch) -> None:
        if b"Y" in data.partition(b"X")[2]:
            raise Wrong("a Y after an X")


def test_finding_is_reported_and_minimized():
    entrance = Fragile()
    data = b"some X and more and Y and the rest"

    found = InputRunner(entrance).run(data)

    assert found is not None
    assert (found.kind, found.where) == ("crash", "wrong: a Y after an X")
    assert cut(entrance, data, found.where) == b"XY"
    assert InputRunner(entrance).run(b"Y X") is None


class Reading(Entrance):
    """Reads an option."""

    name = "reading"
    feeds = "text"

    def generate(self, rng: random.Random) -> bytes:
        return b"5"

    def run(self, data: bytes, watch: Watch) -> None:
        with suppress(KohortError):
            parse_config(ProducerConfig, {"bootstrap_servers": ["h:1"], "linger.ms": data.decode()})


def test_coverage_detects_input_with_new_lines():
    entrance = Reading()
    usual = lines_of(entrance, b"5") | lines_of(entrance, b"7")

    assert usual
    assert not lines_of(entrance, b"6") - usual
    assert {Path(file).name for file, _ in lines_of(entrance, b"many") - usual} >= {"options.py"}


def test_any_bytes_are_a_script():
    rng = random.Random(3)
    steps = [Step(0, 1, b"abc"), Step(4, 0, b"\0\0\0\1")]
    assert parse(build(steps)) == steps
    for _ in range(200):
        assert all(step.op < 7 and step.connection < 4 for step in parse(mutated(build(steps), rng)))


def test_the_same_mistake_has_the_same_place():
    def place(number):
        try:
            raise Wrong(f"{number} is too much") if number else ValueError("nothing")
        except (Wrong, ValueError) as error:
            return place_of(error)

    assert place(0) == place(0)
    assert place(0) != place(1)

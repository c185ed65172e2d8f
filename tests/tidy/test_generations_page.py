"""The page that compares generations of consumer groups tells what was run: tables and figures are made from it."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("generations", ROOT / "lab" / "tools" / "generations.py")
assert SPEC is not None
assert SPEC.loader is not None
generations = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generations)


def test_tables_and_figures_are_made_from_what_was_run():
    assert generations.stale() == [], "run python lab/tools/generations.py"


def test_what_the_page_says_of_two_owners_is_so_in_every_row():
    rows = generations.stored()
    split = {row.generation for row in rows if row.split_s > 0}

    assert split == {"zookeeper"}
    assert {row.generation for row in rows if row.zombie_s > 0} == set(generations.GENERATIONS) - split


def test_generations_page_has_each_change_for_each_generation_and_size():
    found = {(row.members, row.change, row.generation) for row in generations.stored()}
    expected = {
        (size, change, generation)
        for size in generations.SEEDS
        for change in generations.SOME.get(size) or generations.CHANGES
        for generation in generations.GENERATIONS
        if generation not in generations.OMITTED.get(size, ())
    }
    assert found == expected

"""One word for one thing: a public class has a name that no other package gives to a class of its own."""

import ast
from collections import defaultdict
from pathlib import Path

from support.source_trees import tree_of

KOHORT = Path(__file__).parents[2] / "src" / "kohort"
REASONS = Path(__file__).parent / "names_in_two_packages.txt"


def packages_by_class() -> dict[str, set[str]]:
    """Return, for each public class of a module, the packages of ``kohort`` that define one of this name."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(KOHORT.rglob("*.py")):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(KOHORT).parts[0])
    return found


def reasons() -> dict[str, str]:
    """Return the names that may stand in two packages, each with its reason."""
    lines = [line for line in REASONS.read_text().splitlines() if line and not line.startswith("#")]
    return {name: reason.strip() for name, _, reason in (line.partition(" ") for line in lines)}


def test_no_two_packages_give_a_class_the_same_name():
    allowed = reasons()
    twice = {n: sorted(p) for n, p in packages_by_class().items() if len(p) > 1 and n not in allowed}
    assert twice == {}, f"rename one of them, or give the reason in {REASONS.name}"


def test_every_name_on_the_list_stands_twice_and_has_a_reason():
    found = packages_by_class()
    assert [name for name, reason in reasons().items() if not reason or len(found[name]) < 2] == []

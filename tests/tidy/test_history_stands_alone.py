"""The history checker imports only Python's standard library and itself, nothing of the checked code."""

import ast
import sys
from pathlib import Path

from support.source_trees import tree_of

HISTORY = Path(__file__).parents[2] / "lab" / "src" / "kohort_lab" / "history"


def imported(path):
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module


def test_history_imports_the_standard_library_alone():
    files = sorted(HISTORY.rglob("*.py"))
    assert len(files) > 10
    foreign = [
        f"{path.name}: {module}"
        for path in files
        for module in imported(path)
        if module.partition(".")[0] not in sys.stdlib_module_names and not module.startswith("kohort_lab.history")
    ]
    assert foreign == []

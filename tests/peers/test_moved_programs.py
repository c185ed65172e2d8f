"""Programs of other clients in ``examples/moving`` and their kohort versions: few changed lines, the same output."""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

import pytest

from kohort import Broker
from support.schema_registry import fake_registry

PROGRAMS = Path(__file__).parents[2] / "examples" / "moving"
MOST_CHANGED = 12


def changed_lines(before: Path, after: Path) -> int:
    """Count changed lines: the larger of removed and added lines of each difference."""
    old, new = (path.read_text().splitlines() for path in (before, after))
    changes = difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in changes if kind != "equal")


def output_of(program: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("before", "after"), [("orders_aiokafka", "orders_kohort"), ("users_confluent", "users_kohort")]
)
def test_moved_program_prints_the_same_after_few_changes(before: str, after: str) -> None:
    paths = [PROGRAMS / f"{name}.py" for name in (before, after)]
    assert changed_lines(*paths) <= MOST_CHANGED
    with Broker() as broker, fake_registry() as registry:
        servers = [registry.url] if before.startswith("users") else []
        printed = [output_of(path, broker.bootstrap, *servers, path.stem) for path in paths]
    assert printed[0] == printed[1]
    assert printed[0]

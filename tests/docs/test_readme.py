"""The examples of the README run as they stand."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark.quick_jvm import QUICK_JVM

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SLOW = {"group_history", "spark_connect", "console_incidents", "topic_to_delta"}
"""They start a JVM, as one of the README does, or a guide whose test is in `make test` shows the same."""
SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def face(source: str) -> str:
    return "spark" if "kohort.spark" in source else "consumer" if "Consumer(" in source else "broker"


def shows_something(script, folder):
    done = subprocess.run(
        [sys.executable, script],
        cwd=folder,
        env=os.environ | QUICK_JVM,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip(), "an example shows something"


@pytest.mark.timeout(900)  # Spark starts slowly on a busy machine
@pytest.mark.parametrize(
    "source", [pytest.param(e, id=face(e), marks=[pytest.mark.campaign] * (face(e) == "spark")) for e in EXAMPLES]
)
def test_readme_example_runs_unchanged(source, tmp_path):
    script = tmp_path / "readme_example.py"
    script.write_text(source)
    shows_something(script, tmp_path)


def test_readme_has_a_short_example_of_each_client_face():
    assert {face(e) for e in EXAMPLES} == {"broker", "consumer", "spark"}
    assert [e for e in EXAMPLES if len(e.splitlines()) > 18] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "script", [pytest.param(p, id=p.stem, marks=[pytest.mark.campaign] * (p.stem in SLOW)) for p in SCRIPTS]
)
def test_an_example_of_the_folder_runs(script, tmp_path):
    shows_something(script, tmp_path)

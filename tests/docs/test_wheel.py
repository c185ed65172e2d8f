"""First steps of a new user: the wheel in an empty environment and an empty folder."""

import os
import subprocess
import venv

import pytest

pytestmark = pytest.mark.slow
PROGRAM = """
from kohort import Broker, Consumer, Producer

with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap) as producer:
    producer.send("orders", b"42").result(60_000)
    with Consumer(bootstrap_servers=broker.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        while not (records := consumer.poll(timeout_ms=1000)):
            pass
        print(records[0].value)
        try:
            consumer.poll_arrow(timeout_ms=1000)
        except ImportError as missing:
            print(missing)
"""


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Create an environment with the wheel and its dependencies alone."""
    folder = tmp_path_factory.mktemp("new-user")
    venv.create(folder / "venv", with_pip=True)
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wheel], check=True, timeout=300)
    return folder


def run(installed, *words):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KOHORT", "VIRTUAL"))}
    return subprocess.run(
        [installed / "venv/bin" / words[0], *words[1:]],
        cwd=installed,
        env=clean,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_a_wheel_in_an_empty_environment_serves_produces_and_reads(installed):
    (installed / "first.py").write_text(PROGRAM)

    lines = run(installed, "python", "-W", "error", "first.py").splitlines()

    assert lines == ["b'42'", "poll_arrow needs the package pyarrow: pip install 'kohort[arrow]'"]


def test_wheel_has_the_command_with_its_version(installed):
    version = run(installed, "kohort", "--version").split()[-1]

    assert version in run(installed, "python", "-m", "pip", "list", "--format=freeze")
    assert run(installed, "kohort", "--help").startswith("Usage: kohort")

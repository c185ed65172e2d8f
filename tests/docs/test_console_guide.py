"""The guide to the console: its commands run as they stand, its incidents are what it says, its tables are whole."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import struct
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from kohort.cli.serve.console import console
from kohort.console.answers import ConsoleAnswers
from kohort.console.changes import KINDS
from kohort.console.recorded import read_recording
from kohort.console.routes import TimeSpan
from kohort.console.views import ROUTES

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guides" / "console.md"
TEXT = GUIDE.read_text()
RECORDING = ROOT / "docs" / "console" / "incidents.ndjson"
GROUPS = ("slow-handler", "killed-dynamic", "killed-static", "not-revoked")
BROKER, CONSOLE = "127.0.0.1:9092", "127.0.0.1:9310"
READY_S = 60
NOTHING_WRONG = (0, -signal.SIGTERM, 130)
"""A console that serves ends well on SIGTERM; one that has only just said where it is was interrupted (exits.py)."""


def played(text: str = TEXT) -> list[str]:
    blocks = re.findall(r"<!-- played -->\n```console\n(.*?)```", text, re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


class Shell:
    """Runs the guide's commands in a folder, at addresses that are free."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.broker, self.console = folder, BROKER, CONSOLE

    def words(self, line: str) -> list[str]:
        line = line.replace(BROKER, self.broker).replace(CONSOLE, self.console).replace("0.0.0.0:9310", "127.0.0.1:0")
        words = shlex.split(line)
        if words[:2] == ["kohort", "serve"]:
            words = [word.replace("--console", "--console=127.0.0.1:0") for word in words] + ["--listen", "127.0.0.1:0"]
        elif words[:3] == ["kohort", "sim", "story"]:
            words = [word.replace("--console", "--console=127.0.0.1:0") for word in words]
        elif words[:2] == ["kohort", "console"] and "--listen" not in words and "--export" not in words:
            words += ["--listen", "127.0.0.1:0"]
        first = {"kohort": [sys.executable, "-m", "kohort"], "python": [sys.executable]}
        return [*first.get(words[0], words[:1]), *words[1:]]

    def environ(self) -> dict[str, str]:
        return os.environ | {"KOHORT_BOOTSTRAP": self.broker, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT / "src")}

    def run(self, line: str) -> str:
        """Run a command that ends, and return what it prints."""
        command, _, into = line.partition(" > ")
        done = subprocess.run(
            self.words(command), cwd=self.folder, env=self.environ(), capture_output=True, text=True, check=False,
            timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
        if into:
            (self.folder / into).write_text(done.stdout)
        return done.stdout

    @contextmanager
    def serving(self, line: str) -> Iterator[str]:
        """Run a server command during the block; yield its output until it is ready."""
        with subprocess.Popen(
            self.words(line), cwd=self.folder, env=self.environ(), stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                output = ""
                for part in process.stdout:
                    output += part
                    if re.search(r"console .*on https?://", output):
                        break
                yield output
            finally:
                process.terminate()
                process.wait(READY_S)
        assert process.returncode in NOTHING_WRONG


def address_in(output: str) -> str:
    found = re.search(r"console .*on (https?://\S+)/", output)
    assert found is not None, output
    return found.group(1)


def json_at(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    for name in ("docs", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    (tmp_path / "console.password").write_text("secret\n")
    (tmp_path / "console.password").chmod(0o600)
    return Shell(tmp_path)


def program() -> str:
    (block,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    return block


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
def test_the_commands_of_the_guide_provoke_what_it_explains(shell: Shell) -> None:
    lines = played()
    serve, *others = lines
    incidents = [line for line in others if line.startswith("python ")]
    assert serve == "kohort serve --console"
    assert len(incidents) == 3
    with ExitStack() as stack:
        output = stack.enter_context(shell.serving(serve))
        shell.broker = re.search(r"ready on (\S+)", output).group(1)
        shell.console = address_in(output).removeprefix("http://")
        with ThreadPoolExecutor(len(incidents)) as beside:
            outputs = list(beside.map(shell.run, incidents))
        assert "cannot commit" in outputs[0]
        api = f"http://{shell.console}/api/v1/groups"
        check_incidents(lambda group: json_at(f"{api}/{group}/rebalances")["rebalances"])
        script = shell.folder / "ask.py"
        script.write_text(program().replace(CONSOLE, shell.console))
        assert "moved" in shell.run(f"python {script}")
        for line in (line for line in others if line not in incidents):
            check_other(shell, line)


def check_other(shell: Shell, line: str) -> None:
    """Run a command of the guide that is not about an incident."""
    if line.startswith("curl "):
        assert json_at(shell.words(line)[-1])["schema"] == "kohort/v1/group.why"
    elif "--export" in line or " > " in line:
        shell.run(line)
    else:
        with shell.serving(line) as output:
            url = address_in(output)
            assert url.startswith("https" if "--tls-cert" in line else "http")
            if url.startswith("http:"):
                assert json_at(f"{url}/api/v1/cluster")["allow_changes"] is ("--allow-changes" in line)
    if "--export" in line:
        assert "MAX_POLL_EXCEEDED" in (shell.folder / "incident.html").read_text()


def check_incidents(rebalances: Any) -> None:
    """Check the guide's statements about its incidents."""
    slow, dynamic, static, modern = (rebalances(group) for group in GROUPS)
    assert "MAX_POLL_EXCEEDED" in {r["cause"] for r in slow}
    owners = [m["to"] for r in slow for m in r["moves"] if m["partition"] == 0 and m["to"]]
    assert len(set(owners)) >= 3, "the record goes round"
    dead = next(m["member_id"] for r in dynamic for m in r["members"] if m["client_id"] == "pay-2")
    assert any(r["departures"].get(dead) == "session_expired" for r in dynamic)
    (restart,) = [r for r in static if r["cause"] == "STATIC_RESTART"]
    assert restart["end"] == "no_rebalance"
    assert not [r for r in static if "pay-2" in str(r["departures"]) and r["end"] == "stable"]
    (waited,) = [r for r in modern if r["cause"] == "NEW_MEMBER" and r["trigger"]["client_id"] == "reader-3"]
    assert waited["blocker"]["because"] == "slow_to_revoke"
    assert waited["blocker"]["waited_ms"] > 1_000


def test_the_recording_holds_what_the_pictures_show_and_the_guide_quotes() -> None:
    answers = ConsoleAnswers(read_recording(RECORDING))
    rebalances_of = {group: msgspec.to_builtins(answers.rebalances(group, TimeSpan()).rebalances) for group in GROUPS}
    check_incidents(rebalances_of.__getitem__)
    sentences = {rebalance["sentence"] for group in GROUPS for rebalance in rebalances_of[group]}
    quotes = re.findall(r"(?:^> .*\n)+", TEXT, re.MULTILINE)
    quoted = [" ".join(line[1:].strip() for line in quote.splitlines()) for quote in quotes]
    assert len(quoted) == 4
    assert [quote for quote in quoted if quote not in sentences] == []


def pictures(text: str) -> list[tuple[str, str]]:
    return re.findall(
        r"!\[([^\]]*)\]\(\S*?docs/console/([\w-]+\.png)\)|!\[([^\]]*)\]\(\.\./console/([\w-]+\.png)\)", text
    )


def test_pictures_of_guide_are_generated_described_and_of_declared_size() -> None:
    made = set(re.findall(r'^    "([\w-]+)": Picture\(', (ROOT / "tools" / "screenshots.py").read_text(), re.MULTILINE))
    shown = [
        tuple(part for part in found if part) for found in pictures(TEXT) + pictures((ROOT / "README.md").read_text())
    ]
    there = {path.stem for path in (ROOT / "docs" / "console").glob("*.png")}

    assert made == there
    assert len(shown) > 6
    assert [name for alt, name in shown if len(alt) < 20 or Path(name).stem not in made] == []
    for name in there:
        head = (ROOT / "docs" / "console" / f"{name}.png").read_bytes()[:24]
        width, height = struct.unpack(">II", head[16:24])
        assert (width, height <= 1000) == (1280, True)


def table(title: str) -> str:
    return TEXT.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_every_command_that_is_shown_is_run() -> None:
    assert re.findall(r"^\$ (.*)$", TEXT, re.MULTILINE) == played()


def test_option_table_lists_all_console_options() -> None:
    rows = [line.split("|")[1] for line in table("Where it looks").splitlines() if line.startswith("| `--")]
    listed = set(re.findall(r"`(--[\w-]+)`", "".join(rows)))
    own = {name for param in console.params for name in (*param.opts, *param.secondary_opts) if name.startswith("--")}
    of_all = {"--bootstrap", "--bootstrap-server", "--config", "--command-config", "--profile", "--set", "--output"}

    assert listed == own - of_all
    assert of_all <= own


def test_address_tables_list_all_api_addresses() -> None:
    firsts = "".join(re.findall(r"^\| (`[^|]*)", table("What it answers to programs"), re.MULTILINE))
    listed = set(re.findall(r"`([a-z]+(?:/[^`\s]*)?)`", firsts))
    routes: Any = ROUTES
    served = {route.path.removesuffix("/") for route in routes} | {"groups", "cluster", "stream"}

    assert listed == served
    assert len(KINDS) == 4


def test_key_table_lists_all_keys_of_the_page() -> None:
    static = ROOT / "src" / "kohort" / "console" / "static"
    helped = re.findall(
        r'^  \["([^"]+)", "', (static / "parts" / "keys.js").read_text().split("const HELP")[1], re.MULTILINE
    )
    helped += [f"g {key}" for key in re.findall(r' key: "(\w)", View', (static / "views" / "group.js").read_text())]
    listed = re.findall(r"`([^`]+)`", table("Keys"))

    assert len(helped) > 15
    assert [keys for keys in helped if keys not in listed] == []

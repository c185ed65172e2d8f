"""Supply chain: reproducible wheels, and their bill of materials."""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
UV = shutil.which("uv") or str(ROOT / ".tools/bin/uv")
BESIDE = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}


def built(folder: Path, umask: int) -> dict[str, bytes]:
    """Return the files of ``make wheel`` in a clone of the last commit, by name."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True, umask=umask, timeout=120)
    subprocess.run(
        ["make", "wheel", f"UV={UV}", f"PYTHON={sys.executable}"],
        cwd=folder,
        env=BESIDE,
        umask=umask,
        check=True,
        capture_output=True,
        timeout=300,
    )
    return {path.name: path.read_bytes() for path in sorted((folder / "dist").iterdir())}


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    return built(tmp_path_factory.mktemp("supply") / "a clone", 0o022)


@pytest.fixture(scope="module")
def bom(dist):
    return json.loads(next(content for name, content in dist.items() if name.endswith(".cdx.json")))


def test_two_clones_of_one_commit_make_the_same_bytes(dist, tmp_path):
    again = built(tmp_path / "another name" / "deeper", 0o077)

    kinds = {".whl", ".json"}
    mine = {name: content for name, content in dist.items() if Path(name).suffix in kinds}
    assert {Path(name).suffix for name in mine} == kinds
    assert {name: hashlib.sha256(again[name]).hexdigest() for name in mine} == {
        name: hashlib.sha256(content).hexdigest() for name, content in mine.items()
    }


def test_the_bill_is_valid_and_names_the_wheel_and_the_time_of_its_commit(dist, bom):
    text = next(content for name, content in dist.items() if name.endswith(".cdx.json")).decode()
    committed = subprocess.run(
        ["git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"],
        cwd=ROOT,
        env=BESIDE | {"TZ": "UTC"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    wheel = next(content for name, content in dist.items() if name.startswith("kohort-") and name.endswith(".whl"))

    assert JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    assert "serialNumber" not in bom
    assert bom["metadata"]["timestamp"] == committed
    assert bom["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel).hexdigest()}]


def test_bill_of_materials_lists_dependencies_with_hashes_of_lock_file(bom):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components = {one["name"]: one for one in bom["components"]}
    locked = {
        package["name"]: {file["hash"].removeprefix("sha256:") for file in package["wheels"]}
        for package in LOCK["package"]
        if package.get("wheels")
    }

    def name(need: str) -> str:
        return need.split(">", maxsplit=1)[0].split("[", maxsplit=1)[0]

    for need in project["dependencies"]:
        assert components[name(need)]["scope"] == "required"
    assert {name(need) for needs in project["optional-dependencies"].values() for need in needs} - {"kohort"} <= set(
        components
    )
    assert components["pyarrow"]["scope"] == "optional"
    assert not {"pytest", "mypy", "sphinx", "kafka-python"} & set(components)
    of_click = {sum_["content"] for ref in components["click"]["externalReferences"] for sum_ in ref["hashes"]}
    assert locked["click"] <= of_click


class Advisories(BaseHTTPRequestHandler):
    """A database of vulnerabilities, by OSV's protocol, that knows one thing against click."""

    def do_POST(self):
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        advisories = [{"id": "PYSEC-0000-1", "modified": "2020-01-01T00:00:00Z"}]
        self.say({"results": [{"vulns": advisories} if one["package"]["name"] == "click" else {} for one in queries]})

    def do_GET(self):
        self.say({"id": "PYSEC-0000-1", "modified": "2020-01-01T00:00:00Z", "summary": "planted"})

    def say(self, answer):
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def audited(url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "tools/supply/audit.py", "--uv", UV, "--service-url", url],
        cwd=ROOT,
        env=BESIDE | {"UV_HTTP_RETRIES": "0", "NO_PROXY": "127.0.0.1", "UV_NO_CACHE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_an_audit_fails_where_something_is_known_of_a_package():
    with ThreadingHTTPServer(("127.0.0.1", 0), Advisories) as database:
        thread = threading.Thread(target=database.serve_forever)
        thread.start()
        try:
            done = audited(f"http://127.0.0.1:{database.server_address[1]}/")
        finally:
            database.shutdown()
            thread.join()

    assert done.returncode == 1, done.stdout
    assert "PYSEC-0000-1: planted" in done.stdout
    assert "NOT AUDITED" not in done.stdout


def test_an_audit_that_reaches_no_database_says_so_and_fails_no_build():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    done = audited(f"http://127.0.0.1:{port}/")

    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("NOT AUDITED: no database of vulnerabilities could be reached")

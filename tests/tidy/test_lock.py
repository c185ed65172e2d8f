"""Installed packages equal the locked ones: every package of uv.lock has its hash and comes from the public index."""

import json
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from kohort.version import VERSION

ROOT = Path(__file__).parents[2]
LOCK = tomllib.loads((ROOT / "uv.lock").read_text())
MEMBERS = {"kohort": ".", "kohort-lab": "lab"}
OTHERS = [package for package in LOCK["package"] if package["name"] not in MEMBERS]
FILES = [file for package in OTHERS for file in (*package.get("wheels", ()), *filter(None, [package.get("sdist")]))]


def test_every_package_comes_from_the_public_index_and_from_nowhere_else():
    assert {json.dumps(package["source"]) for package in OTHERS} == {'{"registry": "https://pypi.org/simple"}'}
    assert {(urlsplit(file["url"]).scheme, urlsplit(file["url"]).hostname) for file in FILES} == {
        ("https", "files.pythonhosted.org")
    }
    own = {package["name"]: package["source"] for package in LOCK["package"] if package["name"] in MEMBERS}
    assert own == {name: {"editable": folder} for name, folder in MEMBERS.items()}


def test_locked_files_have_hashes():
    assert len(OTHERS) > 100
    assert [package["name"] for package in OTHERS if not package.get("wheels") and not package.get("sdist")] == []
    assert [file["url"] for file in FILES if len(file.get("hash", "").removeprefix("sha256:")) != 64] == []


def test_only_locked_packages_are_installed():
    """Without ``--frozen``, uv would update the lock file; without the lock file, install the newest versions."""
    syncs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "$(UV) sync" in line]
    assert syncs
    assert [line for line in syncs if "--frozen" not in line] == []
    assert "index" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]


def test_laboratory_requires_kohort_of_its_own_version():
    lab = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
    assert lab["version"] == VERSION
    assert f"kohort=={VERSION}" in lab["dependencies"]

"""Bring what the console's pages need of others from npm's registry: Preact, htm, uPlot, as vendor.json says.

Python alone does it. A tarball whose sha512 is not the one that is written down is refused; of it only the files that
are named are taken, with their licences, and ``manifest.json`` beside them says what each is. What is there already
and right is not asked for again.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONSOLE = ROOT / "src" / "kohort" / "console"
TARGET = CONSOLE / "static" / "vendor"
REGISTRY = "https://registry.npmjs.org/"
MOST_BYTES = 20 << 20
WAIT_S = 30


class Refused(Exception):
    """The downloaded file differs from vendor.json."""


def packages() -> list[dict[str, Any]]:
    """Return the packages of vendor.json."""
    listed: list[dict[str, Any]] = json.loads((CONSOLE / "vendor.json").read_text())["packages"]
    return listed


def registry() -> str:
    """Return npm's registry: from the environment, from npm's own settings, or the public one."""
    url = os.environ.get("NPM_CONFIG_REGISTRY") or os.environ.get("npm_config_registry")  # noqa: SIM112 - npm takes both
    npm = None if url else shutil.which("npm")
    if npm is not None:
        try:
            process = subprocess.run(
                [npm, "config", "get", "registry"], capture_output=True, text=True, timeout=WAIT_S, check=False
            )
            url = process.stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            url = None
    where = url if url and url.startswith(("https://", "http://")) else REGISTRY
    return where if where.endswith("/") else f"{where}/"


def files_of(package: dict[str, Any], tarball: bytes) -> dict[str, bytes]:
    """Return the listed files of a package under their new names. Raises Refused."""
    named = f"{package['name']} {package['version']}"
    kind, _, digest = package["integrity"].partition("-")
    if kind != "sha512" or base64.b64encode(hashlib.sha512(tarball).digest()).decode() != digest:
        raise Refused(f"{named}: the tarball of the registry does not have the sha512 of vendor.json")
    found: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(tarball), mode="r:gz") as archive:
        for inside, name in package["files"].items():
            member = archive.extractfile(inside) if inside in archive.getnames() else None
            if member is None:
                raise Refused(f"{named}: the tarball has no {inside}")
            found[name] = member.read()
    return found


def manifest_of(listed: list[dict[str, Any]], files: dict[str, bytes]) -> str:
    """Return the manifest of the files: their package, version, licence and sha256."""
    entries = [
        {
            "name": package["name"],
            "version": package["version"],
            "licence": package["licence"],
            "files": {name: hashlib.sha256(files[name]).hexdigest() for name in package["files"].values()},
        }
        for package in listed
    ]
    return json.dumps({"packages": entries}, indent=2) + "\n"


def is_there(listed: list[dict[str, Any]]) -> bool:
    """Return True if all files are present and unchanged, in the versions of vendor.json."""
    try:
        entries = json.loads((TARGET / "manifest.json").read_text())["packages"]
        versions = [(p["name"], p["version"], sorted(p["files"])) for p in entries]
        if versions != [(p["name"], p["version"], sorted(p["files"].values())) for p in listed]:
            return False
        sums = {name: of for p in entries for name, of in p["files"].items()}
        return all(hashlib.sha256((TARGET / name).read_bytes()).hexdigest() == of for name, of in sums.items())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetched(package: dict[str, Any], where: str) -> bytes:
    """Download the tarball of a package. Raises OSError if no registry has it."""
    with urllib.request.urlopen(where + package["tarball"], timeout=WAIT_S) as answer:
        tarball: bytes = answer.read(MOST_BYTES + 1)
    if len(tarball) > MOST_BYTES:
        raise Refused(f"{package['name']}: the tarball of the registry exceeds {MOST_BYTES >> 20} MiB")
    return tarball


def bring() -> bool:
    """Download missing files; return True if any was downloaded. Raises OSError, Refused."""
    listed = packages()
    if is_there(listed):
        return False
    where = registry()
    files: dict[str, bytes] = {}
    for package in listed:
        files |= files_of(package, fetched(package, where))
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in {path.name for path in TARGET.iterdir()} - set(files):
        (TARGET / name).unlink()
    for name, content in files.items():
        (TARGET / name).write_bytes(content)
    (TARGET / "manifest.json").write_text(manifest_of(listed, files))
    return True


def main() -> int:
    try:
        bring()
    except Refused as error:
        print(f"vendor: {error}", file=sys.stderr)
        return 1
    except (urllib.error.URLError, OSError) as error:
        why = getattr(error, "reason", error)
        print(f"vendor: npm's registry does not answer ({why}): the console stays without its pages", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

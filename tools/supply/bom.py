"""Write the software bill of materials of a wheel: what it needs, in which versions, from where, with which hashes.

    python tools/supply/bom.py --uv UV dist/kohort-0.1.0-py3-none-any.whl      writes dist/kohort-0.1.0.cdx.json

It is CycloneDX 1.5 in JSON. uv makes it from the lock file, with every extra; here it is made the same for everybody:
no random serial number, and no time but ``SOURCE_DATE_EPOCH``. The wheel's own hash is put in, and each component's
scope: ``required`` by kohort alone, ``optional`` where an extra brings it. What tests kohort is not in it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
EXPORT: Final = ("export", "--frozen", "--no-dev", "--quiet", "--preview-features", "sbom-export")
FORM: Final = ("--format", "cyclonedx1.5")


def exported(uv: str, *more: str) -> dict[str, Any]:
    """Return uv's export of the lock file. Exits with uv's message if it fails."""
    done = subprocess.run([uv, *EXPORT, *FORM, *more], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{done.stderr.strip()}\n{uv} writes no bill of materials; an older uv cannot: pip install -U uv")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def identity(component: dict[str, Any]) -> tuple[str, str]:
    """Return name and version: uv's reference numbers depend on the other exported packages."""
    return component["name"], component["version"]


def settled(bom: dict[str, Any], required: set[tuple[str, str]], wheel: Path, epoch: str | None) -> dict[str, Any]:
    """Return the bill without values that differ between runs, with scopes and the wheel's hash."""
    bom.pop("serialNumber", None)
    about = bom["metadata"]
    about.pop("timestamp", None)
    if epoch:
        about["timestamp"] = datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    whole = about["component"]
    whole["purl"] = f"pkg:pypi/{whole['name']}@{whole['version']}"
    whole["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    for component in bom["components"]:
        component["scope"] = "required" if identity(component) in required else "optional"
    return bom


def main() -> None:
    """Write the bill beside the wheel and print its path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--uv", default="uv", help="path of uv, for reading the lock file")
    arguments = parser.parse_args()
    required = {identity(component) for component in exported(arguments.uv)["components"]}
    bom = settled(
        exported(arguments.uv, "--all-extras"), required, arguments.wheel, os.environ.get("SOURCE_DATE_EPOCH")
    )
    target = arguments.wheel.with_name("-".join(arguments.wheel.name.split("-")[:2]) + ".cdx.json")
    target.write_text(json.dumps(bom, indent=2) + "\n")
    print(target)


if __name__ == "__main__":
    main()

"""axe-core, which checks the accessibility of a page. It is downloaded from npm to ``.tools``, and verified."""

from __future__ import annotations

import base64
import hashlib
import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession

NAME, VERSION = "axe-core", "4.14.1"
INTEGRITY = "sha512-FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
KEPT = Path(__file__).parents[2] / ".tools" / f"{NAME}-{VERSION}" / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class NoAxe(Exception):
    """axe-core is missing and cannot be downloaded."""


def axe_source() -> str:
    """Return axe-core as JavaScript text. Raises NoAxe if it is missing and npm cannot download it."""
    if not KEPT.exists():
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=KEPT.parent, delete=False) as whole:
            whole.write(_fetched())
        Path(whole.name).replace(KEPT)  # atomic replacement: another process may read the file
    return KEPT.read_text()


def _fetched() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise NoAxe("npm is missing, but it is needed to download axe-core")
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [npm, "pack", f"{NAME}@{VERSION}", "--silent", "--pack-destination", folder],
            capture_output=True, text=True, check=False, cwd=folder,
        )  # fmt: skip
        packed = list(Path(folder).glob("*.tgz"))
        if not packed:
            raise NoAxe(f"npm cannot download {NAME}: {done.stderr[-500:]}")
        data = packed[0].read_bytes()
    digest = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    assert digest == INTEGRITY, f"{NAME} {VERSION} is not what it was: {digest}"
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        member = tar.extractfile("package/axe.min.js")
        assert member is not None
        return member.read()


def violations(cdp: CDPSession, scope: str = "document") -> list[str]:
    _evaluate(cdp, axe_source() + "; true")
    options = f"{{runOnly: {{type: 'tag', values: {TAGS!r}}}, resultTypes: ['violations']}}"
    script = f"axe.run({scope}, {options}).then(r => r.violations.map(v => [v.id, v.help, v.nodes.map(n => n.target.join(' ') + ' ' + (n.failureSummary || ''))]))"  # noqa: E501
    return [f"{rule}: {words} at {'; '.join(where[:3])}" for rule, words, where in _evaluate(cdp, script)]


def _evaluate(cdp: CDPSession, script: str) -> Any:
    response = cdp.send("Runtime.evaluate", {"expression": script, "awaitPromise": True, "returnByValue": True})
    assert "exceptionDetails" not in response, response["exceptionDetails"]
    return response["result"].get("value")

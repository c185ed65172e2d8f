"""Which state of the sources a campaign ran on: so long as it is the same, what several campaigns did adds up."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path


def code_of(root: Path) -> str:
    """Return the hash of the folder ``src`` as it was committed, with a mark of what was changed there since.

    ``unknown`` without git, or without commits.
    """

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True).stdout

    try:
        committed = git("rev-parse", "--short=12", "HEAD:src").decode().strip()
        changed = git("diff", "HEAD", "--", "src")
        for name in git("ls-files", "-z", "--others", "--exclude-standard", "--", "src").split(b"\0")[:-1]:
            changed += name + (root / os.fsdecode(name)).read_bytes()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{committed}-dirty-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else committed

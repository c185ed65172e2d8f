"""State of the sources of a campaign: results of campaigns on equal sources are added up."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path
from typing import Final

FOLDERS: Final = ("src", "lab/src")


def code_of(root: Path) -> str:
    """Return the hash of the committed folders ``src`` and ``lab/src``, with a mark of uncommitted changes.

    ``unknown`` without git, or without commits.
    """

    def git(*words: str) -> bytes:
        return subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True).stdout

    try:
        trees = git("rev-parse", *(f"HEAD:{folder}" for folder in FOLDERS))
        committed = hashlib.sha256(trees).hexdigest()[:12]
        changed = git("diff", "HEAD", "--", *FOLDERS)
        for name in git("ls-files", "-z", "--others", "--exclude-standard", "--", *FOLDERS).split(b"\0")[:-1]:
            changed += name + (root / os.fsdecode(name)).read_bytes()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{committed}-dirty-{hashlib.sha256(changed).hexdigest()[:8]}" if changed else committed

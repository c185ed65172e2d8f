"""Small scripts that stand in front of a program, made once and kept in the user's cache."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path


def write_script(target: Path, script: str) -> Path:
    """Make ``target`` an executable with this text, in one step, so that nobody runs half of it."""
    if not target.exists() or target.read_text() != script:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        fresh.write_text(script)
        fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        fresh.replace(target)
    return target


def script_folder() -> Path:
    """Where scripts of this Python are kept: the user's cache, or a temporary folder where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return cache / "kohort" / f"py{sys.version_info.major}{sys.version_info.minor}"
    except OSError:
        pass
    return Path(tempfile.gettempdir()) / f"kohort-{os.getuid()}"

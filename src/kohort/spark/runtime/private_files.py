"""Small files that Spark is told of (scripts in front of a program, its log settings), in a folder that nobody else can
write to: others could make Spark run what they like.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def write_script(target: Path, script: str) -> Path:
    """Make ``target`` an executable with this text, in one step, so that nobody runs half of it."""
    return write_whole(target, script, stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def write_whole(target: Path, text: str, more_mode: int = 0) -> Path:
    """Make ``target`` a file with this text, in one step."""
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(fresh.stat().st_mode | more_mode)
        fresh.replace(target)
    return target


def private_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where files of this Python are kept: in the user's cache, or in a temporary folder of this process where
    there is none, or where another user could write to it."""
    root = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    try:
        root.mkdir(parents=True, exist_ok=True)
        if root.stat().st_mode & stat.S_IWOTH:
            return _temporary_folder()
        folder = root
        for name in ("kohort", f"py{sys.version_info.major}{sys.version_info.minor}"):
            folder = folder / name
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                return _temporary_folder()
            if found.st_mode & _BY_OTHERS:
                folder.chmod(0o700)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # no home
        pass
    return _temporary_folder()


@cache
def _temporary_folder() -> Path:
    """Make one that only this user can enter; programs that this process becomes or leaves may still need it."""
    return Path(tempfile.mkdtemp(prefix="kohort-"))

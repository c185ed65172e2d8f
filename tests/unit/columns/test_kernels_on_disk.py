"""Kernels are compiled once on a machine; from then on a process loads them without their compiler."""

import ctypes
import random
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("numba")
from kohort.columns import kernels, pack
from kohort.columns.native import machine_code
from kohort.columns.native.machine_code import DIGEST_BYTES, address_of_kernel, fingerprint, store, stored
from kohort.wire.record_batch import NewRecord, build_batch

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
def test_what_was_compiled_once_needs_no_compiler():
    for _ in range(2):  # the first may be the first on this machine
        subprocess.run(
            [sys.executable, "-c", WITHOUT_NUMBA.replace('sys.modules["numba"] = None', "")], check=True, timeout=120
        )
    again = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA], check=True, timeout=120, capture_output=True, text=True
    )
    assert again.stdout == "[b'v']\n"


def test_a_kernel_does_what_its_python_says():
    batches = b"".join(build_batch([NewRecord(b"k%d" % i, b"v" * i, (), i)], base_offset=i) for i in range(20))
    data = ctypes.create_string_buffer(batches, len(batches))
    tables = [ctypes.create_string_buffer(8 * kernels.SECTION_FIELDS * 20) for _ in range(2)]
    for function, table in zip((SCAN, SCAN.function), tables, strict=True):
        arguments = (ctypes.addressof(data), len(batches), 5, 1 << 62, ctypes.addressof(table), 20)
        assert function(*arguments) == 20
    assert tables[0].raw == tables[1].raw


def test_partitions_are_chosen_alike_compiled_and_in_python():
    rng = random.Random(7)
    keys = [rng.randbytes(rng.randrange(40)) for _ in range(200)]
    held = [ctypes.create_string_buffer(key, len(key)) for key in keys]
    places = (ctypes.c_int64 * 200)(*map(ctypes.addressof, held))
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
def test_a_compilation_is_told_once_and_what_is_found_is_not(caplog, tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "folders", lambda: [tmp_path])
    machine_code.tell_of_compilation.cache_clear()
    for function in (one_more, one_less, one_more):
        machine_code.address_of_kernel(function)
    assert [record.message for record in caplog.records] == [
        "kernels are compiled for this processor, once on this machine: that takes some seconds"
    ]


@pytest.mark.heavy
def test_a_file_that_holds_another_kernel_is_made_anew(tmp_path, monkeypatch):
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
def test_a_damaged_file_is_compiled_anew_and_told_once(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(machine_code, "folders", lambda: [tmp_path])
    assert address_of_kernel(SCAN.function)
    (kept,) = tmp_path.glob("*.o")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    machine_code.tell_of_compilation()
    caplog.clear()

    for _ in range(2):
        assert address_of_kernel(SCAN.function)

    assert [record.message for record in caplog.records] == [f"{kept} is damaged: the kernel is compiled anew"]
    assert stored(kept.name, [tmp_path]) is not None


def test_another_constant_is_another_file():
    def of(module_constant):
        names = {**SCAN.function.__globals__, "SECTION_FIELDS": module_constant}
        return fingerprint(type(SCAN.function)(SCAN.function.__code__, names, "scan"))

    assert of(13) == fingerprint(SCAN.function) != of(14)

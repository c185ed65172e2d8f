import errno
import os
import random
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from kohort.aio.serving.file_storage import FileStorage
from kohort.config import BrokerConfig
from kohort.errors import DataDirInUse, StorageError
from kohort.log.topics import Topics
from support.machines.log_stage import LogStage, batch, values_from

NOW = 1_700_000_000_000


def open_files(folder):
    count = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += entry.readlink().is_relative_to(folder)
    return count


@pytest.fixture
def storage(tmp_path):
    with FileStorage(tmp_path / "data") as storage:
        yield storage


def test_private_file_that_replaces_a_leftover_file_is_readable_for_owner_only(storage, tmp_path):
    leftover = tmp_path / "data" / "users.json.tmp"
    leftover.write_bytes(b"torn")
    leftover.chmod(0o644)
    storage.replace("users.json", b"salted", private=True)
    assert (tmp_path / "data" / "users.json").stat().st_mode & 0o777 == 0o600


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize(
    ("mask", "folders", "files"), [(0o000, 0o770, 0o640), (0o022, 0o750, 0o640), (0o077, 0o700, 0o600)]
)
def test_new_files_are_accessible_to_owner_and_group_only(umask, tmp_path, mask, folders, files):
    umask(mask)
    with FileStorage(tmp_path / "data") as storage:
        storage.make_folder("orders-0")
        log = storage.open("orders-0/00000000000000000000.log")
        log.close()
        storage.replace("meta.properties", b"node.id=1")
        storage.replace("kohort-security.json", b"salted", private=True)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [tmp_path / "data", *(tmp_path / "data").rglob("*")]}

    assert modes.pop("kohort-security.json") == 0o600
    assert {modes.pop("data"), modes.pop("orders-0")} == {folders}
    assert set(modes.values()) == {files}


def test_existing_data_folder_keeps_its_mode(umask, tmp_path):
    shared = tmp_path / "data"
    shared.mkdir()
    shared.chmod(0o2775)
    with FileStorage(shared):
        assert shared.stat().st_mode & 0o7777 == 0o2775


def test_file_storage_behaves_like_memory_storage(storage):
    storage.make_folder("a")
    file = storage.open("a/x")
    assert file.append([b"one", memoryview(b"two"), bytearray(b"")]) == 0
    assert file.append([b"three"]) == 6

    assert (file.read(3, 5), file.read(9, 99), file.read(99, 1)) == (b"twoth", b"ee", b"")
    assert storage.read("a/x") == b"onetwothree"
    file.truncate(3)
    assert file.append([b"!"]) == 3
    file.close()
    file.close()
    assert storage.read("a/x") == b"one!"
    storage.replace("a/y", b"new")
    storage.replace("a/y", b"newer", durable=False)
    storage.replace("root", b"r")
    assert storage.files("a") == {"x": 4, "y": 5}
    assert storage.files("missing") == {}
    assert storage.files() == {".lock": len(f"{os.getpid()}\n"), "root": 1}
    storage.rename_folder("a", "b")
    storage.delete("b/y")
    storage.delete("b/y")
    assert (storage.folders(), storage.files("b"), storage.read("b/y")) == (["b"], {"x": 4}, None)
    storage.delete_folder("b")
    storage.delete_folder("b")
    assert storage.folders() == []


def test_storage_reports_its_path_and_free_space(tmp_path):
    with FileStorage(tmp_path / "data") as storage:
        place, (total, usable) = storage.place, storage.disk_space()

    assert place == str(tmp_path / "data")
    assert 0 <= usable <= total == os.statvfs(tmp_path).f_blocks * os.statvfs(tmp_path).f_frsize


def test_flush_of_file_reports_flushed_size(storage):
    storage.make_folder("a")
    file = storage.open("a/x")
    file.append([b"12345"])
    assert file.flushed == 0

    file.flush()

    assert file.flushed == 5
    file.append([b"678"])
    assert file.flushed == 5
    file.start_flush()
    file.close()
    storage.close()
    assert file.flushed == 8


def test_background_flush_ends_and_reports_flushed_size(storage):
    file = storage.open("x")
    file.append([b"12345"])
    assert not file.is_flushing

    file.start_flush()
    storage.close()  # close() waits for the background flush

    assert (file.is_flushing, file.flushed) == (False, 5)
    file.close()


def test_failed_flush_does_not_increase_flushed_size(storage, monkeypatch):
    def refuse(_fd):
        raise OSError(5, "the disk is broken")

    monkeypatch.setattr(os, "fsync", refuse)
    file = storage.open("x")
    file.append([b"12345"])

    file.start_flush()
    storage.close()

    assert (file.is_flushing, file.flushed) == (False, 0)
    file.close()


def test_3000_buffers_are_written_to_file_in_order(storage):
    file = storage.open("x")
    parts = [str(i).encode() for i in range(3000)]

    file.append(parts)

    assert storage.read("x") == b"".join(parts)
    file.close()


def test_partial_file_write_is_continued(storage, monkeypatch):
    file = storage.open("x")
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real(fd, [bytes(buffers[0])[:2]], at))

    assert file.append([b"abc", b"def"]) == 0

    assert storage.read("x") == b"abcdef"
    file.close()


def test_failed_append_truncates_file_to_previous_size(storage, monkeypatch):
    file = storage.open("x")
    file.append([b"before"])
    real = os.pwritev
    monkeypatch.setattr(os, "pwritev", lambda fd, buffers, at: real(fd, [bytes(buffers[0])[:2]], at))

    def full(fd, data, at):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match=r"cannot write 6 bytes to .*x: No space left on device"):
        file.append([b"abc", b"def"])
    monkeypatch.undo()

    assert (storage.read("x"), file.size) == (b"before", 6)
    file.append([b" after"])
    assert storage.read("x") == b"before after"
    file.close()


def test_data_folder_cannot_be_opened_twice_in_a_process(storage):
    with pytest.raises(DataDirInUse, match="in use by another broker of this process"):
        FileStorage(storage.place)
    storage.close()

    FileStorage(storage.place).close()


def test_data_folder_cannot_be_opened_by_two_processes(storage):
    code = "import sys; from kohort.aio.serving.file_storage import FileStorage; FileStorage(sys.argv[1])"
    command = [sys.executable, "-c", code, str(storage.place)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)

    assert done.returncode == 1
    assert f"DataDirInUse: the data folder {storage.place} is in use by process {os.getpid()}" in done.stderr


def test_error_for_uncreatable_data_folder_names_folder(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StorageError, match=r"cannot make the data folder .*file/data"):
        FileStorage(tmp_path / "file" / "data")


def test_log_keeps_its_records_after_clean_stops_and_crashes(storage):
    stage = LogStage(storage)
    names = stage.fill(40)
    assert stage.restart() == []
    names += stage.fill(40)
    stage.crash()

    assert values_from(stage.log, 0) == names
    assert values_from(stage.log, 33, max_bytes=200) == names[33:]
    stage.check()
    stage.topics.close()


def test_recovery_truncates_only_a_torn_last_batch(tmp_path):
    whole = batch(["last"], at_ms=1)
    with FileStorage(tmp_path / "data", sync=False) as storage:
        stage = LogStage(storage)
        names = stage.fill(3)
        path = Path(storage.place, "orders-0", f"{0:020d}.log")
        good = stage.log.size_bytes
        for kept in range(len(whole)):
            stage.log.append(whole, stage.now_ms)
            stage.log.drop()
            with path.open("r+b") as file:
                file.truncate(good + kept)
                file.seek(0, os.SEEK_END)
                file.write(random.Random(kept).randbytes(kept % 7))

            notes = stage.crash()

            assert any("truncated" in note for note in notes) == bool(kept + kept % 7)
            assert values_from(stage.log, 0) == names
            assert stage.log.size_bytes == path.stat().st_size == good
        stage.check()
        stage.topics.close()


def test_base_offset_with_a_flipped_bit_is_repaired(tmp_path):
    with FileStorage(tmp_path / "data", sync=False) as storage:
        stage = LogStage(storage)
        names = stage.fill(3)
        path = Path(storage.place, "orders-0", f"{0:020d}.log")
        whole = path.read_bytes()
        stage.log.drop()
        path.write_bytes(bytes([whole[0] ^ 4]) + whole[1:])

        assert "repaired base offset 288230376151711744" in stage.crash()[0]

        assert path.read_bytes() == whole
        assert values_from(stage.log, 0) == names
        stage.topics.close()


def test_empty_partition_needs_no_open_file(storage, tmp_path):
    topics = Topics(storage, BrokerConfig(), random.Random(1), NOW)
    before = open_files(tmp_path)
    topics.create("__consumer_offsets", 50, {"cleanup.policy": "compact"}, NOW, internal=True)
    again = Topics(storage, BrokerConfig(), random.Random(2), NOW)

    assert open_files(tmp_path) == before
    assert storage.files("__consumer_offsets-7") == {"partition.metadata": 44}
    assert again.recovery_notes == []


def test_closed_log_has_no_open_file(storage, tmp_path):
    stage = LogStage(storage)
    stage.fill(40)
    values_from(stage.log, 0)

    stage.topics.close()
    storage.close()  # wait for background flushes, which use their own file handles

    assert open_files(tmp_path) == 0


def test_open_file_is_readable_after_it_was_renamed(storage):
    storage.make_folder("a")
    file = storage.open("a/x")
    file.append([b"one"])
    storage.open("a/y").append([b"replaced"])

    storage.rename("a/x", "a/y")

    assert storage.files("a") == {"y": 3}
    assert file.read(0, 10) == b"one"
    with pytest.raises(StorageError, match="cannot rename a/z to a/x: No such file"):
        storage.rename("a/z", "a/x")


def test_file_name_can_be_reused_while_old_file_is_deleted_in_background(tmp_path):
    with FileStorage(tmp_path / "data") as storage:
        storage.make_folder("a")
        storage.make_folder("b")
        storage.open("a/x").append([b"one"])
        storage.open("b/x").append([b"two"])

        storage.start_delete("a/x")
        storage.start_delete("a/never was")
        assert storage.open("a/x").size == 0
        storage.start_delete_folder("b")

    assert [path.name for path in (tmp_path / "data").rglob("*") if path.is_file() and path.name != ".lock"] == ["x"]
    assert not (tmp_path / "data" / "b").exists()


def test_log_in_files_is_compacted_in_background(tmp_path):
    with FileStorage(tmp_path) as storage:
        stage = LogStage(storage, cleanup_policy="compact", min_cleanable_dirty_ratio="0.1", segment_bytes="20000")
        stage.fill(1000, key=b"k")
        stage.log.roll(stage.now_ms)
        notes: list[str] = []
        deadline = time.monotonic() + 30
        while not any("compacted up to offset 1000" in note for note in notes) and time.monotonic() < deadline:
            stage.clock.advance(max(stage.topics.wake_at_ms - stage.now_ms, 0))
            notes += map(str, stage.topics.tick(stage.now_ms))

        assert len(values_from(stage.log, 0)) == 1
        stage.check()
        assert stage.restart() == []
        assert len(values_from(stage.log, 0)) == 1
        assert not stage.files(".cleaned")
        assert not stage.files(".swap")
        stage.topics.close()


def test_buffer_lent_by_file_has_the_same_bytes_as_a_read(storage):
    file = storage.open("file")
    file.append([bytes(range(250)) * 2000])

    for at, size in ((0, 400_000), (1000, 1 << 30), (499_990, 100), (500_000, 100)):
        assert bytes(file.lend(at, size)) == file.read(at, size)
    file.close()

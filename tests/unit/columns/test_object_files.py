"""Object files on disk: whole, this user's own, and not too many."""

import os

import pytest

from kohort.columns.native.machine_code import BYTES_MOST, FILES_MOST, VARIANTS_MOST, remove_old, store, stored


def test_a_damaged_file_counts_as_none(tmp_path):
    store("a.o", b"machine code", [tmp_path])
    assert stored("a.o", [tmp_path / "none", tmp_path]) == b"machine code"
    kept = tmp_path / "a.o"
    kept.write_bytes(kept.read_bytes()[:-1])
    assert stored("a.o", [tmp_path]) is None
    kept.write_bytes(b"")
    assert stored("a.o", [tmp_path]) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners and modes here")
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_file_that_others_may_have_written_is_never_run(tmp_path, caplog, mode):
    store("a.o", b"planted", [tmp_path])
    (tmp_path / "a.o").chmod(mode)
    store("a.o", b"machine code", [tmp_path / "second"])

    assert stored("a.o", [tmp_path]) is None
    assert stored("a.o", [tmp_path, tmp_path / "second"]) == b"machine code"
    assert f"a.o is not used: user {os.geteuid()} owns it, mode {mode:o}" in caplog.text


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_never_run(tmp_path, caplog):
    store("a.o", b"planted", [tmp_path])
    os.chown(tmp_path / "a.o", 65534, 65534)

    assert stored("a.o", [tmp_path]) is None
    assert "a.o is not used: user 65534 owns it" in caplog.text


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store("a.o", b"machine code", [tmp_path / "file"])
    store("b.o", b"machine code", [tmp_path / "file", tmp_path / "new" / "folder"])
    assert [p.name for p in tmp_path.rglob("*.o")] == ["b.o"]


def test_who_shares_the_installation_may_read_what_was_compiled(tmp_path):
    store("a.o", b"machine code", [tmp_path])
    assert (tmp_path / "a.o").stat().st_mode & 0o777 == 0o644


def test_what_cannot_be_finished_leaves_nothing_behind(tmp_path):
    (tmp_path / "a.o").mkdir()
    store("a.o", b"machine code", [tmp_path])
    assert [p.name for p in tmp_path.iterdir()] == ["a.o"]


def name_of(kernel, number):
    return f"{kernel}-{number:020x}.o"


def keep(folder, name, age, size=1):
    """An object file that was written ``age`` seconds before others."""
    (folder / name).write_bytes(bytes(size))
    os.utime(folder / name, (1_000_000 - age, 1_000_000 - age))
    return name


def left(folder):
    return {path.name for path in folder.iterdir()}


def test_of_a_kernel_the_newest_files_stay(tmp_path):
    names = [keep(tmp_path, name_of("kohort.columns.kernels.scan", n), age=n) for n in range(VARIANTS_MOST + 3)]
    other = keep(tmp_path, name_of("kohort.columns.pack.pack", 0), age=99)

    remove_old(tmp_path)

    assert left(tmp_path) == {*names[:VARIANTS_MOST], other}


def test_a_new_file_takes_the_place_of_the_oldest(tmp_path):
    names = [keep(tmp_path, name_of("a.b", n), age=n) for n in range(VARIANTS_MOST)]

    store(name_of("a.b", 99), b"machine code", [tmp_path])

    assert left(tmp_path) == {name_of("a.b", 99), *names[:-1]}


def test_kernels_that_are_no_more_do_not_pile_up(tmp_path):
    names = [keep(tmp_path, name_of(f"kohort.old{n}", n), age=n) for n in range(FILES_MOST + 5)]

    remove_old(tmp_path)

    assert left(tmp_path) == set(names[:FILES_MOST])


def test_a_folder_holds_so_many_bytes_and_no_more(tmp_path):
    names = [keep(tmp_path, name_of(f"k{n}", n), age=n, size=BYTES_MOST // 2) for n in range(3)]

    remove_old(tmp_path)

    assert left(tmp_path) == set(names[:2])


def test_what_a_killed_process_left_unfinished_goes_with_time(tmp_path):
    begun = keep(tmp_path, f"{name_of('a.b', 0)}.x_1y.unfinished", age=10)
    names = [keep(tmp_path, name_of("a.b", n), age=n) for n in range(1, VARIANTS_MOST + 1)]

    remove_old(tmp_path)

    assert begun not in left(tmp_path)
    assert left(tmp_path) == set(names)


def test_other_files_and_folders_are_let_be(tmp_path):
    for name in ("jit.cpython-313.pyc", "notes.o", "a.b-0.o"):
        keep(tmp_path, name, age=1000)
    folder = tmp_path / name_of("a.b", 7)
    folder.mkdir()
    before = left(tmp_path)
    for n in range(10, 20):
        keep(tmp_path, name_of("a.b", n), age=n)

    remove_old(tmp_path)

    assert before <= left(tmp_path)
    assert len(left(tmp_path) - before) == VARIANTS_MOST

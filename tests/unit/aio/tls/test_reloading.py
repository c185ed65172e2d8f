import ssl

import pytest

from kohort.aio.tls.contexts import CHECK_INTERVAL_S, Reloading
from kohort.errors import ConfigError


class Files:
    def __init__(self, *paths):
        self.now_s = 0.0
        self.made = []
        self.notes = []
        self.is_bad = False
        self.reloading = Reloading(self.make, [str(path) for path in paths], self.notes.append, lambda: self.now_s)

    def make(self):
        if self.is_bad:
            raise ConfigError("ssl.keystore.location=x: cannot be read")
        self.made.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return self.made[-1]

    def later(self):
        self.now_s += CHECK_INTERVAL_S
        return self.made.index(self.reloading.current())


def rewrite(path, text):
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "own.pem"
    path.write_text("first")
    return path


def test_unchanged_certificate_file_is_read_once(path):
    files = Files(path)
    assert [files.later() for _ in range(3)] == [0, 0, 0]
    assert (len(files.made), files.notes) == (1, [])


def test_changed_certificate_file_creates_a_new_tls_context(path):
    files = Files(path)
    rewrite(path, "second")
    assert files.later() == 1
    [note] = files.notes
    assert str(note) == f"reloaded certificates: {path}"


def test_certificate_files_are_checked_at_most_once_a_second(path):
    files = Files(path)
    rewrite(path, "second")
    files.now_s += CHECK_INTERVAL_S / 2
    assert files.made.index(files.reloading.current()) == 0
    assert files.later() == 1


def test_unusable_new_certificate_file_is_logged_once_and_old_tls_context_is_used(path):
    files = Files(path)
    files.is_bad = True
    rewrite(path, "half")
    assert [files.later(), files.later()] == [0, 0]
    [note] = files.notes
    assert str(note).startswith("cannot reload certificates, the old ones stay in use: ssl.keystore.location=x")
    files.is_bad = False
    rewrite(path, "whole")
    assert files.later() == 1


def test_tls_context_is_reloaded_after_deletion_of_file_and_change_in_folder(path, tmp_path):
    files = Files(tmp_path)
    (tmp_path / "more.pem").write_text("another")
    assert files.later() == 1
    (tmp_path / "more.pem").write_text("longer")
    assert files.later() == 2
    path.unlink()
    assert files.later() == 3


def test_unusable_certificate_file_at_the_start_raises_config_error(path):
    def fail():
        raise ConfigError("no")

    with pytest.raises(ConfigError):
        Reloading(fail, [str(path)])

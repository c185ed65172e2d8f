"""The file of a recording: made anew, readable by its owner alone, and ended without harm when the disk refuses."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from types import TracebackType
from typing import IO

from kohort.errors import ConfigError

log = logging.getLogger("kohort.server")


def new_recording(path: Path) -> RecordingFile:
    """Make the file. Raises ConfigError where it is there already or cannot be made."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ConfigError(f"--record {path}: the file is there already; name another one, or remove it") from None
    except OSError as error:
        raise ConfigError(f"--record {path}: {error.strerror}") from None
    return RecordingFile(path, os.fdopen(descriptor, "wb"))


class RecordingFile:
    """Takes entries in order. What it holds is what users sent, so nobody else may read it."""

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file: IO[bytes] | None = file

    def write(self, entry: bytes) -> None:
        """Append; a disk that refuses ends the recording, not the broker."""
        if self._file is None:
            return
        try:
            self._file.write(entry)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        log.warning("%s: %s: nothing more is recorded", self._path, error.strerror)
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
        except OSError:
            log.debug("%s: not closed cleanly", self._path)

    def __enter__(self) -> RecordingFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as refused:
            self._give_up(refused)

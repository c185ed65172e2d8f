"""Contexts that follow their files: a certificate is renewed without a restart.

Whether a file has changed is looked at when a connection is made, once a second at most. A new context is made of what
is there then; connections that stand keep theirs. What cannot be used is told, and the old one stays.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from kohort.errors import ConfigError, MissingExtra
from kohort.notes import Note, info, warning

LOOK_EVERY_S: Final = 1.0

Seen = tuple[object, ...]


class Reloading:
    """The context of one listener or client. Raises ConfigError, MissingExtra if there is none to begin with."""

    def __init__(
        self,
        make: Callable[[], ssl.SSLContext],
        files: Sequence[str],
        tell: Callable[[Note], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._files = [Path(path).expanduser() for path in files]
        self._tell = tell
        self._clock = clock
        self._seen = self._look()
        self._looked_s = clock()
        self._context = make()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        now_s = self._clock()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                self._renew()
        return self._context

    def _renew(self) -> None:
        try:
            self._context = self._make()
        except (ConfigError, MissingExtra) as error:
            self._say(warning(f"the certificates that were there before stay in use: {error}", "certificates"))
        else:
            names = ", ".join(str(path) for path in self._files)
            self._say(info(f"certificates were read again: {names}"))

    def _say(self, note: Note) -> None:
        if self._tell is not None:
            self._tell(note)

    def _look(self) -> Seen:
        return tuple(_state(path) for path in self._files)


def _state(path: Path) -> object:
    try:
        state = path.stat()
        if S_ISDIR(state.st_mode):
            return tuple((entry.name, _state(entry)) for entry in sorted(path.iterdir()) if not entry.is_dir())
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino

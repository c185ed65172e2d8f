"""Places in a text that are filled in from the environment or from a file, so that secrets stay out of it.

``${NAME}`` and ``${env:NAME}`` are a variable of the environment, ``${NAME:-default}`` one that may be missing,
``${file:/run/secrets/x}`` the content of a file; ``$${`` is a plain ``${``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kohort.errors import ConfigError

_PLACE: Final = re.compile(r"(\$?)\$\{(?:file:([^}]+)|(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?)\}")


def fill_in(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` with its places filled in. Raises ConfigError for a variable that is not set, or a file that
    cannot be read, naming it; what was filled in is in no error."""

    def content(match: re.Match[str]) -> str:
        escaped, file, name, default = match.groups()
        if escaped:
            return match[0][1:]
        if file is not None:
            try:
                return Path(file).read_text(encoding="utf-8").rstrip("\n")
            except OSError as error:
                raise ConfigError(f"{match[0]}: cannot be read: {error.strerror}") from None
            except UnicodeDecodeError:
                raise ConfigError(f"{match[0]}: cannot be read: not UTF-8") from None
        value = environ.get(name, default)
        if value is None:
            raise ConfigError(f"${{{name}}}: not set in the environment, and no default")
        return value

    return _PLACE.sub(content, text)


def escaped(text: str) -> str:
    """Return what ``fill_in`` gives back as ``text``."""
    return _PLACE.sub(lambda match: f"${match[0]}", text)

"""``kohort-security.json``: ACLs, SCRAM users and quotas; replaced as a whole with every change.

Kafka keeps them in its metadata quorum; the format is ours. What a section holds is the business of whoever owns it:
here it is JSON. All nodes of a process share one store, so a change holds everywhere at once.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import Storage, read_json

SECURITY_FILE: Final = "kohort-security.json"
VERSION: Final = 1
SECTIONS: Final = ("acls", "users", "quotas")


class SecurityStore:
    """The sections of the file, each a list of JSON objects."""

    def __init__(self, storage: Storage) -> None:
        """Read the file, if it is there. Raises StorageError where it cannot be read: without it, strangers might do
        what was forbidden."""
        self._storage = storage
        advice = "Mend it, or remove it to begin without ACLs, users and quotas"
        self._sections: dict[str, list[Any]] = read_json(storage, SECURITY_FILE, _parse, advice) or {}

    def section(self, name: str) -> list[Any]:
        """Return what is kept of a section."""
        return self._sections.get(name, [])

    def replace(self, name: str, content: list[Any]) -> None:
        """Keep ``content`` as a section from now on; durable when this returns. Raises ApiError."""
        sections = {**self._sections, name: content}
        try:
            self._storage.replace(SECURITY_FILE, msgspec.json.encode({"version": VERSION, **sections}), private=True)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{SECURITY_FILE} cannot be written: {error}") from error
        self._sections = sections


def _parse(content: Any) -> dict[str, list[Any]]:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    sections = {name: content.get(name, []) for name in SECTIONS}
    if not all(isinstance(held, list) for held in sections.values()):
        raise ValueError("a section is no list")
    return sections

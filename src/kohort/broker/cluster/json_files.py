"""JSON files of a cluster: each contains a format version, and each change rewrites the whole file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import Storage, read_json

T = TypeVar("T")
VERSION: Final = 1


def load(storage: Storage, name: str, parse: Callable[[Any], T], advice: str) -> T | None:
    """Return the parsed content of a JSON file, None if it does not exist. Raises StorageError with ``advice``."""

    def parse_version_1(content: Any) -> T:
        if content["version"] != VERSION:
            raise ValueError(f"file version {content['version']} is not supported, expected {VERSION}")
        return parse(content)

    return read_json(storage, name, parse_version_1, advice)


def encoded(sections: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"version": VERSION, **sections})


def save(storage: Storage, name: str, sections: Mapping[str, Any], *, private: bool = False) -> None:
    """Rewrite a JSON file durably. If it fails, raises KAFKA_STORAGE_ERROR and keeps the old file."""
    try:
        storage.replace(name, encoded(sections), private=private)
    except StorageError as error:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} cannot be written: {error}") from error

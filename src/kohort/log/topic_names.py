"""Kafka's rules for topic names, and the names of partition folders."""

from __future__ import annotations

import re
from typing import Final

from kohort.errors import ApiError, ErrorCode
from kohort.model import TopicPartition

LONGEST_NAME: Final = 249
LONGEST_FOLDER: Final = 255
_legal: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_partition_folder: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,8})", re.ASCII)
_deleted_folder: Final = re.compile(r".+-[0-9]*\.[0-9a-f]{32}-delete", re.ASCII | re.DOTALL)


class TakenNames:
    """Names of all topics. Two names must not differ only by ``.`` and ``_``: metric names equate them."""

    def __init__(self) -> None:
        self._by_flat: dict[str, tuple[str, ...]] = {}

    def add(self, name: str) -> None:
        self.discard(name)
        self._by_flat[_flat(name)] = (*self._by_flat.get(_flat(name), ()), name)

    def discard(self, name: str) -> None:
        names = tuple(one for one in self._by_flat.pop(_flat(name), ()) if one != name)
        if names:
            self._by_flat[_flat(name)] = names

    def check_new(self, name: str) -> None:
        """Check a new topic's name. Raises ApiError: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS."""
        check_topic_name(name)
        taken = self._by_flat.get(_flat(name), ())
        if name in taken:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        if taken:
            raise _invalid(f"topic {name!r} collides with {min(taken)!r}: '.' and '_' count as the same")


def _flat(name: str) -> str:
    return name.replace(".", "_")


def check_topic_name(name: str) -> None:
    """Check a topic name. Raises ApiError INVALID_TOPIC_EXCEPTION."""
    if not name:
        raise _invalid("topic name is empty")
    if name in (".", ".."):
        raise _invalid(f"invalid topic name {name!r}")
    if len(name) > LONGEST_NAME:
        raise _invalid(f"topic name has {len(name)} characters; at most {LONGEST_NAME} are allowed")
    if not _legal.fullmatch(name):
        raise _invalid(f"topic {name!r}: only letters, digits, '.', '_' and '-' are allowed")


def parse_folder(folder: str) -> TopicPartition | None:
    """Parse the topic and partition of a folder name; None for other names."""
    match = _partition_folder.fullmatch(folder)
    return TopicPartition(match[1], int(match[2])) if match else None


def renamed_folder(folder: str, unique: int, ending: str) -> str:
    """Return the new name of a partition folder: ``orders-0.<32 hex digits>-<ending>``.

    The ending is ``delete`` for a deleted topic, ``stray`` for a folder that belongs to another topic id.
    """
    suffix = f".{unique:032x}-{ending}"
    topic, _, partition = folder.rpartition("-")
    return f"{topic[: LONGEST_FOLDER - len(suffix) - len(partition) - 1]}-{partition}{suffix}"


def is_deleted_folder(folder: str) -> bool:
    return _deleted_folder.fullmatch(folder) is not None


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

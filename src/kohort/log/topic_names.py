"""Kafka's rules for names of topics, and the names of their partitions' folders."""

from __future__ import annotations

import re
from typing import Final

from kohort.errors import ApiError, ErrorCode
from kohort.model import TopicPartition

LONGEST_NAME: Final = 249
LONGEST_FOLDER: Final = 255
_legal: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_partition_folder: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,8})", re.ASCII)
_doomed_folder: Final = re.compile(r".+-[0-9]*\.[0-9a-f]{32}-delete", re.ASCII | re.DOTALL)


class TakenNames:
    """The names of all topics. ``.`` and ``_`` look the same in the names of metrics, so no two may differ by them
    alone."""

    def __init__(self) -> None:
        self._by_flat: dict[str, set[str]] = {}

    def add(self, name: str) -> None:
        self._by_flat.setdefault(_flat(name), set()).add(name)

    def discard(self, name: str) -> None:
        names = self._by_flat.get(_flat(name), set())
        names.discard(name)
        if not names:
            self._by_flat.pop(_flat(name), None)

    def check_new(self, name: str) -> None:
        """Raise ApiError for a name that Kafka refuses: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS."""
        check_topic_name(name)
        taken = self._by_flat.get(_flat(name), ())
        if name in taken:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        if taken:
            raise _invalid(f"topic {name!r} collides with {min(taken)!r}: '.' and '_' count as the same")


def _flat(name: str) -> str:
    return name.replace(".", "_")


def check_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION for what can be no topic's name."""
    if not name:
        raise _invalid("a topic's name is empty")
    if name in (".", ".."):
        raise _invalid(f"a topic cannot be called {name!r}")
    if len(name) > LONGEST_NAME:
        raise _invalid(f"a topic's name has {len(name)} characters; {LONGEST_NAME} are allowed")
    if not _legal.fullmatch(name):
        raise _invalid(f"topic {name!r}: only letters, digits, '.', '_' and '-' are allowed")


def parse_folder(folder: str) -> TopicPartition | None:
    """Parse the partition in a folder's name; None for other names."""
    match = _partition_folder.fullmatch(folder)
    return TopicPartition(match[1], int(match[2])) if match else None


def doomed_folder(folder: str, unique: int) -> str:
    """Return what a folder is called between its topic's deletion and its own: ``orders-0.<32 hex digits>-delete``."""
    return _renamed(folder, unique, "delete")


def stray_folder(folder: str, unique: int) -> str:
    """Return what a folder is called that stands in the place of a partition but belongs to another topic id."""
    return _renamed(folder, unique, "stray")


def _renamed(folder: str, unique: int, ending: str) -> str:
    suffix = f".{unique:032x}-{ending}"
    topic, _, partition = folder.rpartition("-")
    return f"{topic[: LONGEST_FOLDER - len(suffix) - len(partition) - 1]}-{partition}{suffix}"


def is_doomed(folder: str) -> bool:
    return _doomed_folder.fullmatch(folder) is not None


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

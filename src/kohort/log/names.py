"""Which names a topic may have, and what its partitions' folders are called; Kafka's rules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kohort.errors import ApiError, ErrorCode
from kohort.model import TopicPartition

LONGEST_NAME: Final = 249
LONGEST_FOLDER: Final = 255
_legal: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)
_partition_folder: Final = re.compile(r"([a-zA-Z0-9._-]+)-(0|[1-9][0-9]{0,8})", re.ASCII)
_doomed_folder: Final = re.compile(r".+-[0-9]*\.[0-9a-f]{32}-delete", re.ASCII | re.DOTALL)


def check_topic_name(name: str, existing: Iterable[str]) -> None:
    """Raises ApiError INVALID_TOPIC_EXCEPTION for a name that Kafka refuses.

    ``.`` and ``_`` look the same in the names of metrics, so two topics may not differ by them alone.
    """
    if not name:
        raise _invalid("a topic's name is empty")
    if name in (".", ".."):
        raise _invalid(f"a topic cannot be called {name!r}")
    if len(name) > LONGEST_NAME:
        raise _invalid(f"a topic's name has {len(name)} characters; {LONGEST_NAME} are allowed")
    if not _legal.fullmatch(name):
        raise _invalid(f"topic {name!r}: only letters, digits, '.', '_' and '-' are allowed")
    flat = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == flat:
            raise _invalid(f"topic {name!r} collides with {other!r}: '.' and '_' count as the same")


def parse_folder(folder: str) -> TopicPartition | None:
    """The partition that a folder belongs to by its name, or None."""
    match = _partition_folder.fullmatch(folder)
    return TopicPartition(match[1], int(match[2])) if match else None


def doomed_folder(folder: str, unique: int) -> str:
    """What a folder is called between its topic's deletion and its own: ``orders-0.<32 hex digits>-delete``."""
    return _renamed(folder, unique, "delete")


def stray_folder(folder: str, unique: int) -> str:
    """What a folder is called that stands in the place of a partition but belongs to another topic id."""
    return _renamed(folder, unique, "stray")


def _renamed(folder: str, unique: int, ending: str) -> str:
    suffix = f".{unique:032x}-{ending}"
    topic, _, partition = folder.rpartition("-")
    return f"{topic[: LONGEST_FOLDER - len(suffix) - len(partition) - 1]}-{partition}{suffix}"


def is_doomed(folder: str) -> bool:
    return _doomed_folder.fullmatch(folder) is not None


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

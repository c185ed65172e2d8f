"""The options that groups have of their own, kept for all nodes of a cluster in ``kohort-group-options.json``.

Kafka keeps them in its metadata quorum; the format is ours. A group need not be there to have some, and they outlive
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kohort.config.group import NO_OPTIONS, OPTIONS, GroupOptions
from kohort.errors import ApiError, ErrorCode, StorageError
from kohort.log.storage import Storage, read_json

GROUP_OPTIONS_FILE: Final = "kohort-group-options.json"
VERSION: Final = 1
MOST_BYTES: Final = 2 << 20
"""Of all groups' options, by estimate: the file is written anew with every change."""
BYTES_PER_OPTION: Final = 50
BYTES_PER_GROUP: Final = 10


class KeptGroupOptions:
    """What holds for groups beside the broker's options. ``by_group`` names only groups that have options."""

    __slots__ = ("_held_bytes", "_storage", "by_group")

    def __init__(self, storage: Storage) -> None:
        """Take what is kept. Raises StorageError where it cannot be read."""
        self._storage = storage
        advice = "Mend it, or remove it to begin without options of groups"
        self.by_group: Mapping[str, GroupOptions] = read_json(storage, GROUP_OPTIONS_FILE, _parse, advice) or {}
        self._held_bytes = sum(_bytes_of(group_id, options) for group_id, options in self.by_group.items())

    def of(self, group_id: str) -> GroupOptions:
        """Return what a group has of its own, whether it is there or not."""
        return self.by_group.get(group_id, NO_OPTIONS)

    def replace(self, group_id: str, options: GroupOptions) -> None:
        """Let a group have these options and no others, from now on and for good.

        Raises ApiError POLICY_VIOLATION where there is no room for more, KAFKA_STORAGE_ERROR where they cannot be
        written; then all is as it was.
        """
        held = self._held_bytes + _bytes_of(group_id, options) - _bytes_of(group_id, self.of(group_id))
        if held > max(MOST_BYTES, self._held_bytes):
            told = f"there is no room for more options of groups than {MOST_BYTES} bytes hold"
            raise ApiError(ErrorCode.POLICY_VIOLATION, told)
        others = {name: own for name, own in self.by_group.items() if name != group_id}
        groups = {**others, group_id: dict(options)} if options else others
        try:
            self._storage.replace(GROUP_OPTIONS_FILE, msgspec.json.encode({"version": VERSION, "groups": groups}))
        except StorageError as error:
            told = f"{GROUP_OPTIONS_FILE} cannot be written: {error}"
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, told) from error
        self.by_group = groups
        self._held_bytes = held


def _bytes_of(group_id: str, options: GroupOptions) -> int:
    return len(msgspec.json.encode(group_id)) + BYTES_PER_GROUP + BYTES_PER_OPTION * len(options) if options else 0


def _parse(content: Any) -> dict[str, GroupOptions]:
    if content["version"] != VERSION:
        raise ValueError(f"version {content['version']}; this broker reads {VERSION}")
    groups: dict[str, GroupOptions] = {}
    for group_id, options in content["groups"].items():
        for name, value in options.items():
            if name not in OPTIONS or type(value) is not int:
                raise ValueError(f"{name!r} of group {group_id!r} is no option of a group, or {value!r} no value of it")
        groups[group_id] = options
    return groups

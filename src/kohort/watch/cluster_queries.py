"""Cluster queries for values that ``__consumer_offsets`` lacks: topic names, session timeouts of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.aio.admin import Admin
from kohort.client.admin.model import ConfigEntry, ConfigResource
from kohort.coordinator.records import parse_record
from kohort.errors import ApiError, CorruptLog, ErrorCode, KohortError
from kohort.insight.observed.watching import ObservedGroups
from kohort.model import Record

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
NO_SUCH_CONFIG: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_CONFIG)
"""Error codes that a broker returns to a query of group configs if it does not support them."""
CONFIG_AGAIN_MS: Final = 10_000
MAX_QUERIED_GROUPS: Final = 100_000
ADMIN_MS: Final = 15_000
NAMES_AGAIN_MS: Final = 10_000
_MEMBER_KEY: Final = b"\x00\x05"
"""Key prefix of member metadata records in ``__consumer_offsets`` (KIP-848)."""
_KEYS_WITH_IDS: Final = (b"\x00\x07", b"\x00\x08")
"""Key prefixes of KIP-848 records that contain topic ids: target assignments, and current assignments of members."""


class WatcherQueries:
    """Queries of topic names and session timeouts for ``groups``. ``notes`` has messages about failed queries."""

    def __init__(self, admin: Admin, groups: ObservedGroups) -> None:
        self._admin = admin
        self.node_id = 0
        """Id of the broker whose session timeout option is read if the cluster has no group configs."""
        self._queried: dict[str, int] = {}
        self._broker_queried = self._noted = False
        self._broker_ms: int | None = None
        self.groups = groups
        self.notes: list[str] = []
        self._tried: dict[bytes, int] = {}

    def learn_names(self, records: Iterable[Record], now_ms: int) -> None:
        """Query the names of unknown topic ids in ``records``. Ids that have no name are queried again later."""
        assignments = (r for r in records if r.key is not None and r.value is not None and r.key[:2] in _KEYS_WITH_IDS)
        unknown = {
            topic_id for r in assignments for topic_id in self.groups.unknown_topics(r.key or b"", r.value or b"")
        }
        if all(self._tried.get(topic_id, 0) > now_ms for topic_id in unknown):
            return
        try:
            topics = self._admin.list_topics(internal=True, timeout_ms=ADMIN_MS)
        except KohortError as error:
            self.notes.append(f"cannot list topics, so some topics are shown with their ids: {error}")
            topics = []
        self.groups.learn_topics({topic.topic_id: topic.name for topic in topics})
        self._tried = dict.fromkeys(unknown, now_ms + NAMES_AGAIN_MS)

    def learn_session_timeouts(self, records: Iterable[Record], now_ms: int) -> None:
        """Query the session timeout of each group with a member record in ``records``: a group config may change it."""
        keys = (r.key for r in records if r.key is not None and r.key[:2] == _MEMBER_KEY)
        due = {g for g in map(_group_of, keys) if g is not None and self._queried.get(g, 0) <= now_ms}
        if not due:
            return
        if len(self._queried) > MAX_QUERIED_GROUPS:
            self._queried.clear()
        self._queried.update(dict.fromkeys(due, now_ms + CONFIG_AGAIN_MS))
        where = [ConfigResource("group", group) for group in sorted(due)]
        try:
            found = self._admin.describe_configs(where, timeout_ms=ADMIN_MS)
        except KohortError as error:
            self._note(error)
            return
        for resource in where:
            refused = found.errors.get(resource)
            value = None if refused is not None else _integer(found[resource].get(SESSION_TIMEOUT))
            if isinstance(refused, ApiError) and refused.code in NO_SUCH_CONFIG:
                value = self._broker_timeout()
            elif refused is not None:
                self._note(refused)
            self.groups.learn_session_timeout(resource.name, value)

    def _broker_timeout(self) -> int | None:
        if not self._broker_queried:
            self._broker_queried = True
            where = ConfigResource("broker", str(self.node_id))
            try:
                options = self._admin.describe_configs([where], timeout_ms=ADMIN_MS)[where]
            except KohortError as error:
                self._note(error)
                return None
            self._broker_ms = _integer(options.get(f"group.{SESSION_TIMEOUT}"))
        return self._broker_ms

    def _note(self, error: Exception) -> None:
        if not self._noted:
            self._noted = True
            self.notes.append(f"cannot read {SESSION_TIMEOUT}, so causes of departures are less certain: {error}")


def _integer(entry: ConfigEntry | None) -> int | None:
    return None if entry is None or entry.value is None or not entry.value.isdigit() else int(entry.value)


def _group_of(key: bytes) -> str | None:
    try:
        record = parse_record(key, None)
    except CorruptLog:
        return None
    return None if record is None else record.group_id

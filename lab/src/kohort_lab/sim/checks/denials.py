"""Authorization check: a request sent after a denial gets the right error and writes nothing.

The check evaluates the stored ACLs by its own rules, since it tests the authorizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from kohort.broker.cluster.security_store import SecurityStore
from kohort.coordinator.records import OffsetCommitted, parse_record, partition_of
from kohort.errors import ErrorCode
from kohort.log.topics import Topics
from kohort.wire.messages.fetch import FetchResponse
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from kohort.wire.messages.offsets import OffsetCommitRequest, OffsetCommitResponse
from kohort.wire.messages.produce import ProduceResponse
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.durability import OFFSETS_TOPIC, batches_on, records_of
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.world import World

Right = tuple[str, str, str]
"""Operation, resource type and name, such as READ, TOPIC, t0."""
OF_MEMBERS: Final = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
EXPECTED_ERRORS: Final = {"GROUP": ErrorCode.GROUP_AUTHORIZATION_FAILED, "TOPIC": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


class DenialsHold(Watcher):
    """Check for one group's members and its producer; ``users`` maps each client to its user."""

    hears_all = True

    def __init__(
        self, world: World, group_id: str, users: Mapping[str, str], rights: Mapping[str, list[Right]]
    ) -> None:
        self._world = world
        self._group_id = group_id
        self._users = users
        self._rights = rights
        """Rights that an ACL may deny to each user."""
        self._section: list[Any] = []
        self._since_ms: dict[tuple[str, Right], int] = {}
        self._ends: dict[str, list[int]] = {}
        self.security: Callable[[], SecurityStore | None] = lambda: None
        """Security store of the brokers; None while they are down."""
        self.topics: Callable[[], Topics | None] = lambda: None
        self.refused = 0
        """Number of correctly rejected requests."""

    def look(self) -> None:
        """Update the current denials and their start times."""
        security = self.security()
        if security is None or (section := security.section("acls")) is self._section:
            return
        self._section = section
        denials = [acl for acl in section if acl["permissionType"] == "DENY"]
        now = {
            (user, right)
            for user, rights in self._rights.items()
            for right in rights
            if any(_denies(acl, user, right) for acl in denials)
        }
        self._since_ms = {one: self._since_ms.get(one, self._world.now_ms) for one in sorted(now)}

    def is_denied(self, user: str, right: Right, sent_ms: int) -> bool:
        """Return True if ``right`` has been denied since before ``sent_ms``."""
        since_ms = self._since_ms.get((user, right))
        return since_ms is not None and since_ms < sent_ms

    def answered(self, exchange: Exchange) -> None:
        self.look()
        user = self._users.get(exchange.client)
        if user is None or not self._since_ms:
            return
        for right, code, what in self._right_errors(exchange):
            if self.is_denied(user, right, exchange.sent_ms):
                self.check_refused(f"{exchange.api.name} of {exchange.client}", right, code, what)

    def check_refused(self, whose: str, right: Right, code: int, was_served: bool) -> None:
        """Check that a request without the right gets its error and no data."""
        if code != EXPECTED_ERRORS[right[1]] or was_served:
            raise CheckFailed(
                f"{whose} is answered {ErrorCode(code).name}, but {' '.join(right)} was denied before the request"
            )
        self.refused += 1

    def _right_errors(self, exchange: Exchange) -> Iterator[tuple[Right, int, bool]]:
        request, answer = exchange.request, exchange.answer
        of_group = ("READ", "GROUP", self._group_id)
        if isinstance(request, OF_MEMBERS):
            yield of_group, exchange.error, False
        elif isinstance(request, OffsetCommitRequest) and isinstance(answer, OffsetCommitResponse):
            # Brokers check the group first, even if its denial came after the request was sent.
            group_denied = (self._users[exchange.client], of_group) in self._since_ms
            for topic in answer.topics:
                name = topic.name or self._name(topic.topic_id)
                for p in topic.partitions:
                    yield of_group if group_denied else ("READ", "TOPIC", name), p.error_code, False
        elif isinstance(answer, FetchResponse):
            for found in answer.responses:
                name = found.topic or self._name(found.topic_id)
                for part in found.partitions:
                    yield ("READ", "TOPIC", name), part.error_code, bool(part.records)
        elif isinstance(answer, ProduceResponse):
            for written in answer.responses:
                name = written.name or self._name(written.topic_id)
                for one in written.partition_responses:
                    yield ("WRITE", "TOPIC", name), one.error_code, False

    def _name(self, topic_id: bytes) -> str:
        topics = self.topics()
        topic = topics.by_id(topic_id) if topics is not None else None
        return topic.name if topic is not None else ""

    def check_persisted(self) -> None:
        """Check after an event that denied writes did not change any log."""
        watched = self._ends
        self.look()
        topics = self.topics()
        if topics is None:
            self._ends = {}
            return
        self._ends = {}
        for name in self._frozen_topics():
            topic = topics.get(name)
            if topic is None:
                continue
            self._ends[name] = [log.log_end_offset for log in topic.partitions]
            for number, (before, after) in enumerate(zip(watched.get(name, []), self._ends[name], strict=False)):
                if after > before and (name != OFFSETS_TOPIC or self._holds_commit(topics, number, before)):
                    raise CheckFailed(f"{name}-{number} grows from {before} to {after}, but all writers are denied")

    def _frozen_topics(self) -> Iterator[str]:
        """Yield topics whose writers are all denied."""
        if not self._since_ms:
            return
        writers: dict[str, list[tuple[str, Right]]] = {}
        for user, rights in self._rights.items():
            for right in rights:
                operation, kind, name = right
                if operation == "WRITE" or kind == "GROUP":
                    writers.setdefault(OFFSETS_TOPIC if kind == "GROUP" else name, []).append((user, right))
        for name, all_ in writers.items():
            if all(one in self._since_ms for one in all_):
                yield name

    def _holds_commit(self, topics: Topics, number: int, start: int) -> bool:
        """Return True if the log has a commit of the group from ``start`` on; expired offsets do not count."""
        topic = topics.get(OFFSETS_TOPIC)
        if topic is None or number != partition_of(self._group_id, len(topic.partitions)):
            return False
        for batch, _ in batches_on(topic.partitions[number], start):
            for record in records_of(batch):
                found = parse_record(record.key or b"", record.value)
                if isinstance(found, OffsetCommitted) and found.group_id == self._group_id and found.value is not None:
                    return True
        return False


def _denies(acl: Mapping[str, str], user: str, right: Right) -> bool:
    operation, kind, name = right
    named = acl["resourceName"]
    fits = name.startswith(named) if acl["patternType"] == "PREFIXED" else named in (name, "*")
    return (
        fits
        and acl["resourceType"] == kind
        and acl["operation"] in (operation, "ALL")
        and acl["principal"] in (f"User:{user}", "User:*")
    )

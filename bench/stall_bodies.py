"""Bodies of requests, made from the declared cost of each API and the fields of its request at each version.

Every array has the maximal number of elements of one request. Names of declared kinds exist. ``unknown``: distinct
names of missing objects; ``one``: the largest object, repeated, with null for all its parts; ``all``: all objects in
turn, each with up to 10,000 elements. An API with a nullable array (all topics) also gets a body with ``null``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stall_broker import (
    CROWD,
    MODERN,
    OFFSETS,
    SMALL_GROUPS,
    TRANSACTION,
    USERS,
    WIDE,
    WIDE_PARTITIONS,
    LoadedBroker,
    assignment_of,
    names,
)

from kohort.broker.api import NameKind
from kohort.broker.dispatch import HANDLED, SERVED
from kohort.wire.apis import Api
from kohort.wire.consumer_protocol import Subscription, build_subscription
from kohort.wire.record_batch import NewRecord, build_batch
from kohort.wire.schema import FieldSpec, Message

UNKNOWN, ONE, ALL, NULL = "unknown", "one", "all", "null"
LONGEST_EXPRESSION = 3_000
ASSIGNED = 250
"""Partitions in the assignment of each member of a SyncGroup."""

ENDS_THINGS = {"DeleteTopics", "DeleteGroups", "EndTxn", "InitProducerId", "OffsetDelete", "LeaveGroup"}
"""APIs with unknown names only, because they would delete the objects of the next body; more in ``bench_stalls.py``."""
MOST = {
    "Produce": 100_000,
    "OffsetCommit": 200_000,
    "TxnOffsetCommit": 200_000,
    "OffsetDelete": 200_000,
    "AlterPartitionReassignments": 200_000,
    "ElectLeaders": 200_000,
    "DescribeConfigs": 20_000,
    "AlterConfigs": 2_000,
    "IncrementalAlterConfigs": 2_000,
    "CreatePartitions": 20_000,
    "CreateTopics": 100_000,
    "JoinGroup": 10_000,
    "SyncGroup": 4_000,
}
"""Number of elements of APIs for which more take minutes, or are rejected at once."""

FIXED: dict[str, Any] = {
    "timeout_ms": 1_000,
    "acks": -1,
    "replica_id": -1,
    "max_bytes": 50 << 20,
    "partition_max_bytes": 1 << 20,
    "session_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "log_start_offset": -1,
    "timestamp": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "retention_time_ms": -1,
    "session_timeout_ms": 60_000,
    "rebalance_timeout_ms": 60_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "transaction_timeout_ms": 60_000,
    "resource_type": 2,
    "resource_type_filter": 1,
    "pattern_type_filter": 1,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "include_synonyms": True,
    "include_documentation": True,
    "include_authorized_operations": True,
    "include_topic_authorized_operations": True,
    "include_cluster_authorized_operations": True,
    "allow_auto_topic_creation": False,
    "count": WIDE_PARTITIONS,
    "duration_filter": -1,
    "response_partition_limit": 2_000,
    "mechanism": 1,
    "iterations": 4096,
    "coordinator_epoch": -1,
    "committed": True,
}
FIXED_OF_API: dict[tuple[str, str], Any] = {
    ("DescribeAcls", "operation"): 1,
    ("DescribeAcls", "permission_type"): 1,
    ("DeleteAcls", "operation"): 1,
    ("DeleteAcls", "permission_type"): 1,
    ("OffsetFetch", "member_epoch"): -1,
}
TEXTS = {
    "protocol_type": "consumer",
    "protocol_name": "range",
    "topics.configs.name": "retention.ms",
    "topics.configs.value": "1000000",
    "resources.configs.name": "retention.ms",
    "resources.configs.value": "1000000",
    "creations.principal": "User:a",
    "creations.host": "*",
    "client_software_name": "a" * 30_000,
    "client_software_version": "1",
    "entries.entity.entity_type": "user",
    "entries.ops.key": "producer_byte_rate",
    "components.entity_type": "user",
}
NUMBERED = {
    "member_id", "name", "resource_name", "entity_name", "states_filter", "types_filter", "state_filters",
    "configuration_keys", "principal_filter",
}  # fmt: skip
"""Fields without a declared kind that are distinct in each element."""
RESOURCE_TYPES = 64
INDEXES = {"index", "partition", "partition_index"}


@dataclass(frozen=True)
class Body:
    """One request to measure."""

    api: Api
    version: int
    choice: str
    elements: int

    @property
    def name(self) -> str:
        return f"{self.api.name}, {self.choice}"


def bodies(elements: int) -> Iterator[Body]:
    """Yield every API at every version, the highest with ``elements``, the others with a tenth of it."""
    for api in SERVED.values():
        for version in range(api.low, api.high + 1):
            most = min(MOST.get(api.name, elements), elements if version == api.high else elements // 10)
            for choice in _choices(api, version):
                yield Body(api, version, choice, most)


def _choices(api: Api, version: int) -> list[str]:
    arrays = [field for field in api.request.FIELDS if version in field.versions and field.kind == "array"]
    null = [NULL] if any(version in field.nullable for field in arrays) else []
    if api.name in ENDS_THINGS:
        return [UNKNOWN]
    if not arrays and not HANDLED[api.request].names:
        return [ONE]
    return [UNKNOWN, ONE, ALL, *null] if arrays else [UNKNOWN, ONE]


class Filler:
    """Builder of one body."""

    def __init__(self, loaded: LoadedBroker, body: Body) -> None:
        self._house = loaded
        self._body = body
        self._nouns = HANDLED[body.api.request].names
        self._names = names(body.elements) if body.choice == UNKNOWN else []
        self._batch = build_batch([NewRecord(None, b"v")])
        self._assignment = assignment_of(range(ASSIGNED))
        self._subscription = build_subscription(Subscription([WIDE]))

    def message(self) -> Message:
        """Make the request."""
        made = self._struct(self._body.api.request, "", 0, self._body.elements - 500)
        self._prepare(made)
        return made

    def _struct(self, kind: type[Message], path: str, index: int, budget: int) -> Message:
        present = [field for field in kind.FIELDS if self._body.version in field.versions]
        arrays = sum(field.kind == "array" for field in present) or 1
        values = {field.name: self._value(field, f"{path}{field.name}", index, budget // arrays) for field in present}
        return kind(**values)

    def _value(self, field: FieldSpec, path: str, index: int, budget: int) -> Any:
        if field.kind == "array":
            return self._array(field, path, budget)
        if field.kind == "struct":
            return field.default if field.default is None else self._struct(field.of, f"{path}.", index, budget)
        noun = self._nouns.get(path)
        if noun is not None:
            return self._named(noun, index)
        if field.kind == "records":
            return self._batch
        if field.kind == "fixed":
            return self._number(field, index)
        if path in TEXTS:
            return TEXTS[path]
        if path == "dirs.path":
            return self._house.broker.state.topics.storage.place
        if field.name in NUMBERED and "." in path:
            return f"{field.name[0]}{index}"
        return field.default

    def _number(self, field: FieldSpec, index: int) -> Any:
        producer_id, epoch = self._house.producer
        if field.name.endswith("producer_id") and self._body.api.name != "InitProducerId":
            return producer_id
        if field.name.endswith("producer_epoch") and self._body.api.name != "InitProducerId":
            return epoch
        if field.name in INDEXES:
            return index % WIDE_PARTITIONS
        return FIXED_OF_API.get((self._body.api.name, field.name), FIXED.get(field.name, field.default))

    def _array(self, field: FieldSpec, path: str, budget: int) -> Any:
        if self._body.choice == NULL and "." not in path and self._body.version in field.nullable:
            return None
        if self._body.choice == ONE and "." in path and self._body.version in field.nullable:
            return None
        if path == "forgotten_topics_data" or field.name in ("replicas", "broker_ids"):
            return field.default if field.default is None else []
        of = field.of
        if isinstance(of, type):
            holds = any(f.kind == "array" and self._body.version in f.versions for f in of.FIELDS)
            count, each = self._shape(budget) if holds else (budget, 0)
            return [self._struct(of, f"{path}.", n, each) for n in range(count)]
        if of.kind != "string":
            numbers = WIDE_PARTITIONS if of.code != "b" else RESOURCE_TYPES
            return [n % numbers for n in range(budget)]
        noun = self._nouns.get(path)
        return [self._named(noun, n) if noun else f"{field.name[0]}{n}" for n in range(budget)]

    def _shape(self, budget: int) -> tuple[int, int]:
        """Return the number of items, and of elements in each: many small items, or a few wide ones."""
        if self._body.choice != ALL:
            return max(1, budget // 2), 1
        each = min(budget, WIDE_PARTITIONS)
        return max(1, budget // (each + 1)), each

    def _named(self, noun: NameKind, index: int) -> Any:
        if noun is NameKind.TOPIC_ID:
            if self._body.choice == UNKNOWN:
                return (index + 1).to_bytes(16)
            name = WIDE if self._body.choice == ONE else f"t{index % self._house.topic_count}"
            return self._house.broker.state.topics.get(name).topic_id
        if noun is NameKind.ASSIGNMENT:
            return self._assignment
        if noun is NameKind.SUBSCRIPTION:
            return self._subscription
        if noun is NameKind.PATTERN:
            return r"\pL" * LONGEST_EXPRESSION
        if self._body.choice == UNKNOWN:
            return self._names[index % len(self._names)]
        if self._body.choice == ONE:
            return self._largest(noun)
        return {
            NameKind.TOPIC: f"t{index % self._house.topic_count}",
            NameKind.RESOURCE: f"t{index % self._house.topic_count}",
            NameKind.GROUP: f"g{index % SMALL_GROUPS}",
            NameKind.USER: f"user{index % USERS}",
            NameKind.TRANSACTIONAL_ID: TRANSACTION,
        }[noun]

    def _largest(self, noun: NameKind) -> str:
        if noun is NameKind.GROUP:
            name = self._body.api.name
            return MODERN if name.startswith("ConsumerGroup") else OFFSETS if name.startswith("Offset") else CROWD
        return {
            NameKind.TOPIC: WIDE,
            NameKind.RESOURCE: WIDE,
            NameKind.USER: "user0",
            NameKind.TRANSACTIONAL_ID: TRANSACTION,
        }[noun]

    def _prepare(self, made: Message) -> None:
        """Set the member, generation or epoch that the request needs."""
        name, choice = self._body.api.name, self._body.choice
        fields: dict[str, Any] = {}
        if name == "SyncGroup" and choice != UNKNOWN:
            member, generation = self._house.join("led")
            fields = {"group_id": "led", "member_id": member, "generation_id": generation}
            if made.assignments:  # type: ignore[attr-defined]  # of this API
                made.assignments[0].member_id = member  # type: ignore[attr-defined]
        elif name == "JoinGroup":
            fields = {"group_id": f"joined-{self._body.version}-{choice}"}
        elif name == "ConsumerGroupHeartbeat":
            fields = {"member_id": "a" * 22, "member_epoch": 0}
            if choice == UNKNOWN:  # a pattern instead of names
                fields |= {"subscribed_topic_names": None, "topic_partitions": []}
            else:
                fields |= {"subscribed_topic_regex": None, "topic_partitions": []}
        for field, value in fields.items():
            if any(spec.name == field and self._body.version in spec.versions for spec in type(made).FIELDS):
                setattr(made, field, value)

"""A broker with an authorizer, populated topics, and the state that requests could change."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from kohort.security.acls import ANONYMOUS, CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support.machines.broker_stage import BrokerStage, Peer
from support.machines.populated import GROUP, TOPIC, TRANSACTIONAL_ID, populate
from support.raw.transactional import Transactional
from support.security.api_requests import Right, Things

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
NEW_TOPIC, EMPTY_GROUP = "new", "empty"
EVERYTHING = (
    (ResourceType.TOPIC, "*"),
    (ResourceType.GROUP, "*"),
    (ResourceType.TRANSACTIONAL_ID, "*"),
    (ResourceType.CLUSTER, CLUSTER_NAME),
)


def acl(
    operation: Operation,
    resource_type: ResourceType,
    name: str,
    *,
    pattern: PatternType = PatternType.LITERAL,
    principal: str = str(ANONYMOUS),
    host: str = "*",
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(resource_type, name, pattern, principal, host, operation, permission)


class GuardedStage(BrokerStage):
    """A broker with an authorizer. Connections are ``User:ANONYMOUS``, with the ACLs of ``let``."""

    def __init__(self, **options: object) -> None:
        super().__init__(authorizer_class_name=AUTHORIZER, **options)

    def let(self, *acls: Acl) -> None:
        """Replace all ACLs."""
        access = self.broker.state.access
        access.change(add=acls, remove=[one for one in access if one not in acls])

    def let_everything(self) -> None:
        self.let(*(acl(Operation.ALL, kind, name) for kind, name in EVERYTHING))

    def fill(self) -> Things:
        """Create the objects of the requests, then remove all ACLs."""
        self.let_everything()
        ann = populate(self)
        peer = self.connect()
        offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[offset])
        peer.ask(OffsetCommitRequest(group_id=EMPTY_GROUP, topics=[topic]), 8)
        producer = Transactional(peer, TRANSACTIONAL_ID)
        assert producer.init() == 0
        producer.send(TOPIC, b"open")
        things = Things(
            topic=TOPIC,
            topic_id=peer.topic_id(TOPIC),
            new_topic=NEW_TOPIC,
            group=GROUP,
            member_id=ann.member_id,
            generation=ann.generation,
            empty_group=EMPTY_GROUP,
            transactional_id=TRANSACTIONAL_ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            folder=self.storage.place,
        )
        self.let()
        return things

    def let_rights(self, things: Things, rights: Iterable[Right]) -> None:
        """Allow these operations on all objects of their types."""
        self.let(*(acl(operation, kind, name) for operation, kind in rights for name in things.named(kind)))


def state_of(stage: BrokerStage) -> dict[str, Any]:
    """Return all state that a request could change: files of the storage, groups and transactions in memory."""
    state = stage.broker.state
    stored = {name: hashlib.sha256(stage.storage.read(name) or b"").hexdigest() for name in _files(stage)}
    members = {
        group.group_id: (group.state.value, sorted(group.round.members), sorted(group.round.pending_join))
        for shard in state.coordinator._shards
        for group in shard.groups.by_id.values()
    }
    transactions = [repr(state.cluster.transactions.get(TRANSACTIONAL_ID))]
    return {
        "stored": stored,
        "topics": sorted(topic.name for topic in state.topics),
        "members": members,
        "transactions": transactions,
        "acls": sorted(map(str, state.access or ())),
        "group options": repr(state.cluster.group_options.by_group),
        "broker options": repr(state.cluster.broker_options.by_name),
    }


def _files(stage: BrokerStage) -> Iterator[str]:
    yield from stage.storage.files()
    for folder in stage.storage.folders():
        yield from (f"{folder}/{name}" for name in stage.storage.files(folder))


def ask(peer: Peer, message: Any, version: int) -> Any:
    """Send a request, and advance the clock until it is answered."""
    peer.send(message, version)
    answer = peer.take()
    if answer is None:
        peer.stage.advance(20_000)
        answer = peer.take()
    assert answer is not None, f"no answer; connection closed: {peer.closed}"
    return answer

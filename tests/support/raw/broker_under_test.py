"""Group members with raw requests of any version, against a broker of any kind.

A ``BrokerUnderTest`` creates unique names, so that one broker can be tested many times. Delayed effects of a response
(a new topic, the offsets topic) are awaited with a deadline.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kohort.wire.schema import Message
from support.consumer_protocol import subscription
from support.raw.raw_client import RawClient
from support.waiting import eventually

TOPIC, BROKER = 2, 4
Protocols = Sequence[tuple[str, bytes]]
Plan = Mapping[str, bytes]


class BrokerUnderTest:
    """A broker: connections to it, and the groups and topics of one test."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.mark = uuid.uuid4().hex[:8]
        self._wires: list[RawClient] = []
        self.wire = self.connect()

    def connect(self, client_id: str = "raw") -> RawClient:
        wire = RawClient(self.bootstrap, client_id)
        self._wires.append(wire)
        return wire

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def ask(self, message: Message, version: int) -> Any:
        return self.wire.ask(message, version)

    def config(self, name: str) -> int:
        """An option of the broker, a whole number."""
        node = self.ask(MetadataRequest(topics=[]), 9).brokers[0].node_id
        return int(self._option(BROKER, str(node), name))

    def eventually_serves(self, message: Message, version: int) -> None:
        eventually(lambda: self.ask(message, version).error_code == 0, f"{message!r} is not served")

    def _option(self, kind: int, of: str, name: str) -> str:
        resource = DescribeConfigsResource(resource_type=kind, resource_name=of, configuration_keys=[name])
        (result,) = self.ask(DescribeConfigsRequest(resources=[resource]), 4).results
        (config,) = result.configs
        value: str = config.value
        return value

    # Unique names.

    def group(self, name: str = "g") -> str:
        """Return an unused group id whose coordinator is available."""
        group = f"{name}-{self.mark}"
        eventually(lambda: self.find(group) == 0, f"no coordinator for {group}")
        eventually(lambda: self._fetch(group, []).error_code == 0, f"the coordinator of {group} does not serve it")
        return group

    def find(self, group: str) -> int:
        code: int = self.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators[0].error_code
        return code

    def topic(self, name: str = "t", partitions: int = 2) -> str:
        topic = f"{name}-{self.mark}"
        self.wire.create(topic, partitions)
        self.await_topic(topic, partitions)
        return topic

    def await_topic(self, topic: str, partitions: int) -> None:
        """Wait until each partition of the topic has a serving leader."""
        eventually(lambda: len(self._described(topic).partitions) == partitions, f"{topic} is not there")
        ends = [ListOffsetsPartition(partition_index=p, timestamp=-1) for p in range(partitions)]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=ends)])
        eventually(
            lambda: all(p.error_code == 0 for p in self.ask(request, 6).topics[0].partitions), f"{topic} is not served"
        )

    def await_option(self, topic: str, name: str, value: str) -> None:
        eventually(lambda: self._option(TOPIC, topic, name) == value, f"{name} of {topic} is not {value}")

    def topic_id(self, topic: str) -> bytes:
        found: bytes = self._described(topic).topic_id
        return found

    def _described(self, topic: str) -> Any:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        return self.ask(request, 12).topics[0]

    # Groups from outside.

    def describe(self, group: str, version: int = 5) -> Any:
        (described,) = self.ask(DescribeGroupsRequest(groups=[group]), version).groups
        return described

    def state(self, group: str) -> str:
        state: str = self.describe(group).group_state
        return state

    def await_state(self, group: str, state: str) -> None:
        """Wait for a group state: requests of other connections may be in flight."""
        eventually(lambda: self.state(group) == state, f"{group} did not become {state}")

    def listed(self, *, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5) -> dict[str, Any]:
        """List this test's groups, by id."""
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        answer = self.ask(request, version)
        assert answer.error_code == 0
        return {g.group_id: g for g in answer.groups if g.group_id.endswith(self.mark)}

    def delete_group(self, *groups: str, version: int = 2) -> list[int]:
        answer = self.ask(DeleteGroupsRequest(groups_names=list(groups)), version)
        codes = {result.group_id: result.error_code for result in answer.results}
        return [codes[group] for group in groups]

    def committed(self, group: str, topic: str, partitions: Sequence[int], *, stable: bool = False) -> list[int]:
        answer = self._fetch(group, [(topic, partitions)], stable=stable)
        assert answer.error_code == 0
        found = {p.partition_index: p.committed_offset for t in answer.topics for p in t.partitions}
        return [found[p] for p in partitions]

    def _fetch(self, group: str, topics: Sequence[tuple[str, Sequence[int]]], *, stable: bool = False) -> Any:
        request_topics = [OffsetFetchRequestTopics(name=name, partition_indexes=list(p)) for name, p in topics]
        entry = OffsetFetchRequestGroup(group_id=group, topics=request_topics)
        return self.ask(OffsetFetchRequest(groups=[entry], require_stable=stable), 8).groups[0]

    def commit(
        self, group: str, topic: str, offsets: Mapping[int, int], *, version: int = 8, **fields: Any
    ) -> list[int]:
        """Commit; without member ``fields``, from outside of the group."""
        return self.wire_commit(self.wire, group, topic, offsets, version=version, **fields)

    def wire_commit(
        self, wire: RawClient, group: str, topic: str, offsets: Mapping[int, int], *, version: int = 8, **fields: Any
    ) -> list[int]:
        metadata = fields.pop("metadata", None)
        partitions = [
            OffsetCommitRequestPartition(partition_index=p, committed_offset=offset, committed_metadata=metadata)
            for p, offset in offsets.items()
        ]
        topic_id = self.topic_id(topic) if version >= 10 else bytes(16)
        entry = OffsetCommitRequestTopic(name=topic, topic_id=topic_id, partitions=partitions)
        answer = wire.ask(OffsetCommitRequest(group_id=group, topics=[entry], **fields), version)
        codes = {p.partition_index: p.error_code for t in answer.topics for p in t.partitions}
        return [codes[p] for p in offsets]

    # Members.

    def member(self, group: str, *topics: str, **options: Any) -> VersionedMember:
        """Return a member of ``group`` on its own connection; default subscription ``t``."""
        options.setdefault("protocols", [("range", subscription(*(topics or ("t",))))])
        return VersionedMember(self, group, **options)

    def stable(self, *members: VersionedMember, plan: Plan | None = None) -> None:
        """Join all new members into one Stable generation; the first leads."""
        first, *others = members
        first.join()
        first.joined()
        for other in others:
            other.join()
            self.await_state(first.group, "PreparingRebalance")
            present = members[: members.index(other)]
            for member in present:
                member.start_join()
            for member in (*present, other):
                member.joined()
        settle(*members, plan=plan)

    def start_rebalance(self, leader: VersionedMember, *others: VersionedMember) -> None:
        """Send JoinGroup from all members; the leader's request, which starts the round, arrives first."""
        leader.start_join()
        self.await_state(leader.group, "PreparingRebalance")
        for other in others:
            other.start_join()

    def await_earlier_requests(self, group: str) -> None:
        """Wait until the coordinator received earlier requests of other connections.

        The network guarantees no order; in practice a few later requests to the same coordinator suffice.
        """
        for _ in range(5):
            self._fetch(group, [], stable=True)


class VersionedMember:
    """One member with the values of its last responses. Default: highest versions."""

    def __init__(
        self,
        broker: BrokerUnderTest,
        group: str,
        *,
        protocols: Protocols,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 30_000,
        rebalance_timeout_ms: int = 30_000,
        client_id: str = "raw",
        join_version: int = 9,
    ) -> None:
        self.broker = broker
        self.wire = broker.connect(client_id)
        self.group = group
        self.protocols = list(protocols)
        self.instance_id = instance_id
        self.protocol_type = protocol_type
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.join_version = join_version
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.protocol_name: str | None = self.protocols[0][0] if self.protocols else ""

    # JoinGroup.

    def join_request(self, **fields: Any) -> JoinGroupRequest:
        all_fields = {
            "group_id": self.group,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
        }
        return JoinGroupRequest(**(all_fields | fields))

    def start_join(self, **fields: Any) -> None:
        """Send one JoinGroup."""
        self.wire.send(self.join_request(**fields), self.join_version)

    def join(self) -> None:
        """Send JoinGroup; a new dynamic member sends it again with its member id."""
        if self.instance_id is None and not self.member_id and self.join_version >= 4:
            self.ask_for_id()
        self.start_join()

    def ask_for_id(self) -> str:
        answer = self.wire.ask(self.join_request(member_id=""), self.join_version)
        assert answer.error_code == 79, answer
        self.member_id = answer.member_id
        return self.member_id

    def refused_join(self, **fields: Any) -> int:
        """Return the error code of a JoinGroup that fails."""
        code: int = self.wire.ask(self.join_request(**fields), self.join_version).error_code
        return code

    def joined(self) -> Any:
        """Wait for a successful JoinGroup response."""
        answer = self.wire.take()
        assert answer.error_code == 0, answer
        self.member_id, self.generation, self.leader = answer.member_id, answer.generation_id, answer.leader
        self.protocol_name = answer.protocol_name
        return answer

    def rejoin(self) -> Any:
        self.start_join()
        return self.joined()

    @property
    def leads(self) -> bool:
        return self.leader == self.member_id

    # SyncGroup.

    def sync_request(self, plan: Plan | None = None, **fields: Any) -> SyncGroupRequest:
        all_fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocol_name,
            "assignments": [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (plan or {}).items()],
        }
        return SyncGroupRequest(**(all_fields | fields))

    def start_sync(self, plan: Plan | None = None, **fields: Any) -> None:
        self.wire.send(self.sync_request(plan, **fields), 5)

    def sync(self, plan: Plan | None = None, *, version: int = 5, **fields: Any) -> Any:
        return self.wire.ask(self.sync_request(plan, **fields), version)

    # Other requests.

    def heartbeat(self, *, version: int = 4, **fields: Any) -> int:
        all_fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        code: int = self.wire.ask(HeartbeatRequest(**(all_fields | fields)), version).error_code
        return code

    def commit(self, topic: str, offsets: Mapping[int, int], *, version: int = 9, **fields: Any) -> list[int]:
        all_fields = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return self.broker.wire_commit(self.wire, self.group, topic, offsets, version=version, **(all_fields | fields))

    def leave(self, *, version: int = 5, reason: str | None = None) -> Any:
        if version < 3:
            return self.wire.ask(LeaveGroupRequest(group_id=self.group, member_id=self.member_id), version)
        entry = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason=reason)
        return self.wire.ask(LeaveGroupRequest(group_id=self.group, members=[entry]), version)


def settle(*members: VersionedMember, plan: Plan | None = None) -> None:
    """Sync members to a new generation; the leader assigns each the share of ``plan``, or its name."""
    assignments = plan or {m.member_id: m.member_id.encode() for m in members}
    for member in members:
        member.start_sync(assignments if member.leads else None)
    for member in members:
        answer = member.wire.take()
        assert answer.error_code == 0, answer
        assert answer.assignment == assignments[member.member_id]

"""Scripts of group requests for the differential harness: every group API in every state, errors included."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from kohort.wire.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from support.consumer_protocol import subscription
from support.differential.harness import ScriptRun

RANGE = [("range", subscription("t"))]
BOTH = [("range", subscription("t")), ("sticky", subscription("t"))]
STICKY = [("sticky", subscription("t"))]
STRANGER = b"\x01" * 16


class Actor:
    """A group member. It keeps the values of its last responses and asserts nothing; the harness compares."""

    def __init__(
        self, run: ScriptRun, name: str, group: str, *, instance_id: str | None = None, **options: Any
    ) -> None:
        self.run = run
        self.name = name
        self.group = group
        self.instance_id = instance_id
        self.protocols: Sequence[tuple[str, bytes]] = options.pop("protocols", RANGE)
        self.protocol_type = options.pop("protocol_type", "consumer")
        self.options = options
        self.member_id = ""
        self.generation = -1
        self.leader = ""

    def twin(self, name: str | None = None) -> Actor:
        """Return the same member on another connection, for requests while another of its requests is parked."""
        other = copy.copy(self)
        other.name = name or f"{self.name}'s twin"
        return other

    def start_join(self, **fields: Any) -> None:
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
            "reason": "because",
        }
        self.run.send(self.name, JoinGroupRequest(**(all_fields | self.options | fields)))

    def take(self) -> Any:
        """Return the next response; a JoinGroup response updates the member."""
        answer = self.run.take(self.name)
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code in (0, 79):
                self.member_id = answer.member_id
            if answer.error_code == 0:
                self.generation, self.leader = answer.generation_id, answer.leader
        return answer

    def join(self, **fields: Any) -> Any:
        """Join where the response comes at once."""
        self.start_join(**fields)
        return self.take()

    def start_enter(self) -> None:
        """Send JoinGroup until it is parked: a dynamic member first gets its id where the version requires one."""
        two_steps = self.instance_id is None or self.run.version(JoinGroupRequest) < 5
        if not self.member_id and two_steps and self.run.version(JoinGroupRequest) >= 4:
            self.join()
        self.start_join()

    def enter(self) -> Any:
        self.start_enter()
        return self.take()

    def start_sync(self, plan: Mapping[str, bytes] | None = None, **fields: Any) -> None:
        all_fields: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0] if self.protocols else "",
            "assignments": [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (plan or {}).items()],
        }
        self.run.send(self.name, SyncGroupRequest(**(all_fields | fields)))

    def sync(self, plan: Mapping[str, bytes] | None = None, **fields: Any) -> Any:
        self.start_sync(plan, **fields)
        return self.take()

    def heartbeat(self, **fields: Any) -> Any:
        self.start_heartbeat(**fields)
        return self.take()

    def start_heartbeat(self, **fields: Any) -> None:
        all_fields = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        self.run.send(self.name, HeartbeatRequest(**(all_fields | fields)))

    def leave(self, *entries: MemberIdentity) -> Any:
        self.start_leave(*entries)
        return self.take()

    def start_leave(self, *entries: MemberIdentity) -> None:
        own = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason="done")
        if self.run.version(LeaveGroupRequest) < 3:
            self.run.send(self.name, LeaveGroupRequest(group_id=self.group, member_id=self.member_id))
        else:
            self.run.send(self.name, LeaveGroupRequest(group_id=self.group, members=list(entries or [own])))

    def start_commit(self, topic: str, offsets: Mapping[int, int], **fields: Any) -> None:
        all_fields = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        partitions = [OffsetCommitRequestPartition(partition_index=p, committed_offset=o) for p, o in offsets.items()]
        request_topics = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.run.send(self.name, OffsetCommitRequest(topics=request_topics, **(all_fields | fields)))

    def commit(self, topics: Mapping[str, Mapping[int, int]], **fields: Any) -> Any:
        all_fields = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return commit(self.run, self.group, topics, actor=self.name, **(all_fields | fields))


# Requests of any client.


def ids_of(run: ScriptRun, topics: Sequence[str], request: type[Any], by_id_from: int) -> dict[str, bytes]:
    """Return topic ids where the version uses ids; a random id for a topic that does not exist."""
    if run.version(request) < by_id_from:
        return dict.fromkeys(topics, bytes(16))
    found = {topic: run.broker.topic_id(topic) for topic in topics}
    return {topic: STRANGER if topic_id == bytes(16) else topic_id for topic, topic_id in found.items()}


def commit(
    run: ScriptRun, group: str, topics: Mapping[str, Mapping[int, int]], *, actor: str = "outsider", **fields: Any
) -> Any:
    metadata, epoch = fields.pop("metadata", "m"), fields.pop("epoch", -1)
    ids = ids_of(run, list(topics), OffsetCommitRequest, 10)
    request_topics = [
        OffsetCommitRequestTopic(
            name=topic,
            topic_id=ids[topic],
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=p,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    committed_leader_epoch=epoch,
                )
                for p, offset in offsets.items()
            ],
        )
        for topic, offsets in topics.items()
    ]
    return run.ask(actor, OffsetCommitRequest(group_id=group, topics=request_topics, **fields))


def fetch(
    run: ScriptRun, group: str, topics: Mapping[str, Sequence[int]] | None, *, stable: bool = False, **fields: Any
) -> Any:
    version = run.version(OffsetFetchRequest)
    if version >= 8:
        ids = ids_of(run, list(topics or ()), OffsetFetchRequest, 10)
        request_topics = None
        if topics is not None:
            request_topics = [
                OffsetFetchRequestTopics(name=t, topic_id=ids[t], partition_indexes=list(p)) for t, p in topics.items()
            ]
        entry = OffsetFetchRequestGroup(group_id=group, topics=request_topics, **fields)
        return run.ask("outsider", OffsetFetchRequest(groups=[entry], require_stable=stable))
    named = None
    if topics is not None or version < 2:
        named = [OffsetFetchRequestTopic(name=t, partition_indexes=list(p)) for t, p in (topics or {}).items()]
    return run.ask("outsider", OffsetFetchRequest(group_id=group, topics=named, require_stable=stable))


def describe(run: ScriptRun, *groups: str, operations: bool = False) -> Any:
    return run.ask("outsider", DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations))


def list_groups(run: ScriptRun, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
    return run.ask("outsider", ListGroupsRequest(states_filter=list(states), types_filter=list(types)))


def delete_groups(run: ScriptRun, *groups: str) -> Any:
    return run.ask("outsider", DeleteGroupsRequest(groups_names=list(groups)))


def delete_offsets(run: ScriptRun, group: str, topics: Mapping[str, Sequence[int]]) -> Any:
    request_topics = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    return run.ask("outsider", OffsetDeleteRequest(group_id=group, topics=request_topics))


def find(run: ScriptRun, *keys: str, key_type: int = 0) -> Any:
    if run.version(FindCoordinatorRequest) >= 4:
        return run.ask("outsider", FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type))
    return run.ask("outsider", FindCoordinatorRequest(key=keys[0], key_type=key_type))


# Group states.


def share(run: ScriptRun, *actors: Actor) -> None:
    """Sync all members to the current generation; each is assigned its name."""
    plan = {a.member_id: a.name.encode() for a in actors}
    for actor in actors:
        actor.start_sync(plan if actor.leader == actor.member_id else None)
    for actor in actors:
        actor.take()


def stable(run: ScriptRun, *actors: Actor) -> None:
    """Join all new members into one stable generation; the first leads."""
    for i, actor in enumerate(actors):
        if i == 0:
            actor.enter()
            continue
        actor.start_enter()
        run.broker.await_state(actor.group, "PreparingRebalance")
        for present in actors[:i]:
            present.start_join()
        for present in actors[: i + 1]:
            present.take()
    share(run, *actors)


def start_rebalance(run: ScriptRun, leader: Actor, *others: Actor) -> None:
    leader.start_join()
    run.broker.await_state(leader.group, "PreparingRebalance")
    for other in others:
        other.start_join()


def everything(run: ScriptRun, topic: str, *members: Actor) -> None:
    """Send every request without effect that is answered at once, with every invalid argument."""
    group = members[0].group
    for actor in (member.twin() for member in members):
        actor.heartbeat()
        actor.heartbeat(generation_id=actor.generation + 1)
        actor.heartbeat(member_id="stranger")
        actor.sync(generation_id=actor.generation + 1)
        actor.sync(member_id="stranger")
        actor.join(member_id="stranger")
        actor.join(protocol_type="connect")
        actor.join(protocols=[JoinGroupRequestProtocol(name="nobody-speaks-it", metadata=b"")])
        actor.join(session_timeout_ms=1)
        actor.commit({topic: {0: 5}})
        actor.commit({topic: {0: 5}}, generation_id_or_member_epoch=actor.generation + 1)
        actor.commit({topic: {0: 5}}, member_id="stranger")
        wrong_instance(run, actor, topic)
        if run.can_say(SyncGroupRequest, "protocol_name"):
            actor.sync(protocol_name="nonsense")
            actor.sync(protocol_type=None)
        if run.can_say(LeaveGroupRequest, "members"):
            actor.leave(
                MemberIdentity(member_id="stranger"), MemberIdentity(member_id="", group_instance_id="stranger")
            )
        else:
            run.ask(actor.name, LeaveGroupRequest(group_id=group, member_id="stranger"))
    commit(run, group, {topic: {0: 6}})
    commit(run, group, {topic: {0: 6}}, generation_id_or_member_epoch=members[0].generation)
    look(run, group, topic)
    if members[0].generation >= 0:
        delete_groups(run, group)
    delete_offsets(run, group, {topic: [1], f"other-{run.broker.mark}": [0]})


def wrong_instance(run: ScriptRun, actor: Actor, topic: str) -> None:
    """Send a wrong instance id in the requests that can carry one."""
    stranger = {"group_instance_id": "stranger"}
    actor.heartbeat(**stranger)
    actor.commit({topic: {0: 5}}, **stranger)
    if run.can_say(SyncGroupRequest, "group_instance_id"):
        actor.sync(**stranger)
    if run.can_say(JoinGroupRequest, "group_instance_id"):
        actor.join(**stranger)


def look(run: ScriptRun, group: str, topic: str) -> None:
    """Describe a group and fetch its offsets from outside."""
    fetch(run, group, {topic: [0, 1]})
    fetch(run, group, {topic: [0, 1]}, stable=True)
    fetch(run, group, None)
    describe(run, group)
    list_groups(run)
    list_groups(run, states=["stable", "PREPARINGREBALANCE "])
    list_groups(run, types=["Classic"])
    list_groups(run, types=["consumer"])
    find(run, group)


# Scripts.


def members_of(run: ScriptRun, *instances: str | None, **options: Any) -> tuple[str, list[Actor]]:
    """Return a topic and the members of one group: one for each instance id, None for a dynamic member."""
    group, topic = run.broker.group(), run.topic()
    names = ("ann", "ben", "cal", "dan", "eve", "fay")
    return topic, [Actor(run, names[i], group, instance_id=x, **options) for i, x in enumerate(instances)]


def a_group_that_is_not_there(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, None)
    everything(run, topic, ann)


def a_group_of_one(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, None)
    ann.enter()
    everything(run, topic, ann)
    ann.sync({ann.member_id: b"all", "unknown": b"ignored"})
    everything(run, topic, ann)
    ann.leave()
    everything(run, topic, ann)
    delete_groups(run, ann.group, ann.group, "nobody")
    everything(run, topic, ann)


def a_pending_member(run: ScriptRun) -> None:
    topic, (ann, ben) = members_of(run, None, None)
    if run.version(JoinGroupRequest) < 4:
        return
    ann.join()
    everything(run, topic, ann)
    ben.enter()
    everything(run, topic, ann, ben)


def two_members_in_every_state(run: ScriptRun) -> None:
    topic, (ann, ben) = members_of(run, None, None)
    stable(run, ann, ben)
    everything(run, topic, ann, ben)
    ben.commit({topic: {1: 11}})
    start_rebalance(run, ann)
    everything(run, topic, ann, ben)
    ben.start_join()
    ann.take()
    ben.take()
    everything(run, topic, ann, ben)
    ben.join()  # unchanged metadata: the response names the same generation
    share(run, ann, ben)
    everything(run, topic, ann, ben)
    ben.sync()
    ann.sync()
    ben.join()
    ben.leave()
    ann.heartbeat()
    look(run, ann.group, topic)
    ann.join()
    ann.sync({})
    everything(run, topic, ann, ben)


def static_members_in_every_state(run: ScriptRun) -> None:
    topic, (ann, ben) = members_of(run, "a", "b")
    stable(run, ann, ben)
    everything(run, topic, ann, ben)
    old = ben.twin()
    ben.member_id = ""
    if not run.can_say(JoinGroupRequest, "group_instance_id"):
        return
    ben.join()  # restarted: no rebalance
    everything(run, topic, ann, old)
    ben.sync()
    leader = ann.twin()
    ann.member_id = ""
    ann.join()  # the leader is not excepted
    everything(run, topic, leader, ben)
    ann.sync()
    start_rebalance(run, ann)
    everything(run, topic, leader, ben)
    ben.start_join()
    ann.take()
    ben.take()
    everything(run, topic, ann, old)
    share(run, ann, ben)


def a_static_member_restarts_during_a_rebalance(run: ScriptRun) -> None:
    topic, (ann, ben) = members_of(run, "a", "b")
    if not run.can_say(JoinGroupRequest, "group_instance_id"):
        return
    stable(run, ann, ben)
    start_rebalance(run, ann, ben)
    ann.take()
    ben.take()
    old = ben.twin()
    old.start_sync()  # waits for the leader
    run.broker.await_earlier_requests(ann.group)
    ben.member_id = ""
    ben.start_join()
    old.take()  # fenced
    run.broker.await_state(ann.group, "PreparingRebalance")
    look(run, ann.group, topic)
    again = ben.twin("ben-again")
    again.member_id = ""
    again.start_join()
    ben.take()  # is fenced too
    ann.start_join()
    ann.take()
    again.take()
    share(run, ann, again)
    look(run, ann.group, topic)


def a_static_member_restarts_with_other_protocols(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, "a", protocols=BOTH)
    if not run.can_say(JoinGroupRequest, "group_instance_id"):
        return
    stable(run, ann)
    for protocols in (BOTH, [("range", subscription("t", "u")), BOTH[1]], BOTH[::-1]):
        ann.member_id, ann.protocols = "", protocols
        ann.join()
        look(run, ann.group, topic)


def leaving_in_batches(run: ScriptRun) -> None:
    topic, (ann, ben, cal, dan) = members_of(run, None, "b", "c", None)
    if run.version(JoinGroupRequest) < 4:
        return
    stable(run, ann, ben, cal)
    dan.join()
    entry = MemberIdentity
    outsider = ann.twin()
    outsider.leave(entry(member_id=""))
    outsider.leave(entry(member_id=ben.member_id, group_instance_id="c"))
    outsider.leave(entry(member_id="stranger", group_instance_id="b"), entry(member_id=ann.member_id + "x"))
    outsider.leave(entry(member_id=dan.member_id, group_instance_id="whatever"))
    look(run, ann.group, topic)
    outsider.leave(
        entry(member_id="", group_instance_id="b"),
        entry(member_id="", group_instance_id="b"),
        entry(member_id=cal.member_id),
        entry(member_id="", group_instance_id="nobody"),
    )
    everything(run, topic, ann, ben, cal)
    ann.leave()
    everything(run, topic, ann, ben)


def leaving_while_parked(run: ScriptRun) -> None:
    topic, (ann, ben) = members_of(run, None, None)
    stable(run, ann, ben)
    start_rebalance(run, ann)
    ann.twin().leave()
    ann.take()
    look(run, ann.group, topic)
    ben.join()
    ben.twin().leave()
    look(run, ann.group, topic)


def protocols_that_do_not_fit(run: ScriptRun) -> None:
    topic, (ann, ben, cal) = members_of(run, None, None, None)
    ann.protocols, ben.protocols, cal.protocols = RANGE, STICKY, BOTH
    ann.join(protocols=[])
    ann.join(protocol_type="")
    look(run, ann.group, topic)
    stable(run, ann)
    ben.join()
    ben.join(protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")])
    cal.start_enter()
    run.broker.await_state(ann.group, "PreparingRebalance")
    ann.start_join()
    ann.take()
    cal.take()
    share(run, ann, cal)
    look(run, ann.group, topic)


def a_group_that_is_no_consumers(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, None, protocol_type="connect", protocols=[("default", b"\x00")])
    stable(run, ann)
    everything(run, topic, ann)
    ann.leave()
    everything(run, topic, ann)
    ann.member_id, ann.protocol_type, ann.protocols = "", "consumer", RANGE
    stable(run, ann)
    look(run, ann.group, topic)


def metadata_that_cannot_be_read(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, None, protocols=[("range", b"\x00")])
    stable(run, ann)
    ann.commit({topic: {0: 1}})
    delete_offsets(run, ann.group, {topic: [0]})
    look(run, ann.group, topic)


def a_full_group(run: ScriptRun) -> None:
    topic, members = members_of(run, None, None, None, None, None, None)
    *members, late = members
    stable(run, *members)
    late.join()
    late.join(member_id="stranger")
    start_rebalance(run, *members)
    for member in members:
        member.take()
    late.join()
    share(run, *members)
    look(run, late.group, topic)
    members[-1].leave()
    late.start_enter()
    run.broker.await_earlier_requests(late.group)
    for member in members[:-1]:
        member.start_join()
    for member in (*members[:-1], late):
        member.take()


def groups_without_a_name(run: ScriptRun) -> None:
    topic = run.topic()
    unnamed = Actor(run, "nobody", "")
    unnamed.join()
    unnamed.sync()
    unnamed.heartbeat()
    unnamed.leave()
    commit(run, "", {topic: {0: 4}})
    fetch(run, "", {topic: [0]})
    delete_offsets(run, "", {topic: [0]})
    delete_groups(run, "")
    describe(run, "")


def offsets_from_outside(run: ScriptRun) -> None:
    group, topic, other = run.broker.group(), run.topic(), run.topic("other", 1)
    missing_group = f"gone-{run.broker.mark}"
    commit(run, group, {topic: {0: 1, 1: 2}, other: {0: 3, 1: 4, -1: 5}, missing_group: {0: 6}})
    look(run, group, topic)
    fetch(run, group, {topic: [1, 0, 7], other: [0], missing_group: [0]})
    commit(run, group, {topic: {0: -1, 1: 2**62}}, metadata=None, epoch=3)
    commit(run, group, {other: {0: 9}}, metadata="x" * 4096)
    commit(run, group, {topic: {0: 9}, other: {0: 9}}, metadata="x" * 4097)
    commit(run, group, {topic: {0: 9}, other: {0: 9}}, metadata="\N{GRINNING FACE}" * 2049)
    commit(run, group, {missing_group: {0: 9}})
    commit(run, group, {topic: {}})
    commit(run, group, {})
    commit(run, group, {topic: {0: 10}}, retention_time_ms=100_000)
    commit(run, group, {topic: {0: 10}}, member_id="someone")
    commit(run, group, {topic: {0: 11}}, generation_id_or_member_epoch=0)
    look(run, group, topic)
    delete_offsets(run, group, {topic: [0, 5], other: [0, 1], missing_group: [0], f"more-{run.broker.mark}": []})
    delete_offsets(run, group, {})
    look(run, group, topic)
    delete_groups(run, group, "", group)
    delete_offsets(run, group, {topic: [0]})
    look(run, group, topic)


def administration_of_many(run: ScriptRun) -> None:
    topic, (ann,) = members_of(run, None)
    simple = run.broker.group("simple")
    commit(run, simple, {topic: {0: 1}})
    stable(run, ann)
    describe(run, ann.group, simple, "nobody", "")  # a repeated name is described once: docs/deviations.md
    describe(run, ann.group, simple, "nobody", operations=True)
    describe(run)
    list_groups(run)
    for states in (["Empty"], ["stable", "nonsense"], ["nonsense"], ["", "Dead"], [" Stable"]):
        list_groups(run, states=states)
    for types in (["classic"], ["CLASSIC", "nonsense"], ["nonsense"], ["consumer", "share"], [" classic"]):
        list_groups(run, types=types)
    list_groups(run, states=["Empty"], types=["classic"])
    delete_groups(run, simple, "", "nobody", ann.group, simple)
    delete_groups(run)


def finding_coordinators(run: ScriptRun) -> None:
    group = run.broker.group()
    find(run, group, "another", group, "")
    find(run, "")
    find(run, group, key_type=2)
    find(run, group, key_type=7)


SCRIPTS = (
    a_group_that_is_not_there,
    a_group_of_one,
    a_pending_member,
    two_members_in_every_state,
    static_members_in_every_state,
    a_static_member_restarts_during_a_rebalance,
    a_static_member_restarts_with_other_protocols,
    leaving_in_batches,
    leaving_while_parked,
    protocols_that_do_not_fit,
    a_group_that_is_no_consumers,
    metadata_that_cannot_be_read,
    a_full_group,
    groups_without_a_name,
    offsets_from_outside,
    administration_of_many,
    finding_coordinators,
)

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
from support.differential.harness import Play
from support.raw.broker_under_test import subscription

RANGE = [("range", subscription("t"))]
BOTH = [("range", subscription("t")), ("sticky", subscription("t"))]
STICKY = [("sticky", subscription("t"))]
STRANGER = b"\x01" * 16


class Actor:
    """A member: what it sends, with what it was last told. It asserts nothing, the comparison does."""

    def __init__(self, play: Play, name: str, group: str, *, instance_id: str | None = None, **options: Any) -> None:
        self.play = play
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
        """The same member on another connection: for what it asks while a request of its own is parked."""
        other = copy.copy(self)
        other.name = name or f"{self.name}'s twin"
        return other

    def start_join(self, **fields: Any) -> None:
        given: dict[str, Any] = {
            "group_id": self.group,
            "session_timeout_ms": 60_000,
            "rebalance_timeout_ms": 60_000,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in self.protocols],
            "reason": "because",
        }
        self.play.send(self.name, JoinGroupRequest(**(given | self.options | fields)))

    def take(self) -> Any:
        """The next answer, learnt from if it is JoinGroup's."""
        answer = self.play.take(self.name)
        if isinstance(answer, JoinGroupResponse):
            if answer.error_code in (0, 79):
                self.member_id = answer.member_id
            if answer.error_code == 0:
                self.generation, self.leader = answer.generation_id, answer.leader
        return answer

    def join(self, **fields: Any) -> Any:
        """A join that is answered at once."""
        self.start_join(**fields)
        return self.take()

    def start_enter(self) -> None:
        """Join as far as it is parked: a dynamic member asks for its id first, where its version has one asked for."""
        two_steps = self.instance_id is None or self.play.version(JoinGroupRequest) < 5
        if not self.member_id and two_steps and self.play.version(JoinGroupRequest) >= 4:
            self.join()
        self.start_join()

    def enter(self) -> Any:
        self.start_enter()
        return self.take()

    def start_sync(self, plan: Mapping[str, bytes] | None = None, **fields: Any) -> None:
        given: dict[str, Any] = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocol_name": self.protocols[0][0] if self.protocols else "",
            "assignments": [SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (plan or {}).items()],
        }
        self.play.send(self.name, SyncGroupRequest(**(given | fields)))

    def sync(self, plan: Mapping[str, bytes] | None = None, **fields: Any) -> Any:
        self.start_sync(plan, **fields)
        return self.take()

    def heartbeat(self, **fields: Any) -> Any:
        self.start_heartbeat(**fields)
        return self.take()

    def start_heartbeat(self, **fields: Any) -> None:
        given = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        self.play.send(self.name, HeartbeatRequest(**(given | fields)))

    def leave(self, *entries: MemberIdentity) -> Any:
        self.start_leave(*entries)
        return self.take()

    def start_leave(self, *entries: MemberIdentity) -> None:
        own = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason="done")
        if self.play.version(LeaveGroupRequest) < 3:
            self.play.send(self.name, LeaveGroupRequest(group_id=self.group, member_id=self.member_id))
        else:
            self.play.send(self.name, LeaveGroupRequest(group_id=self.group, members=list(entries or [own])))

    def start_commit(self, topic: str, offsets: Mapping[int, int], **fields: Any) -> None:
        given = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        partitions = [OffsetCommitRequestPartition(partition_index=p, committed_offset=o) for p, o in offsets.items()]
        asked = [OffsetCommitRequestTopic(name=topic, partitions=partitions)]
        self.play.send(self.name, OffsetCommitRequest(topics=asked, **(given | fields)))

    def commit(self, topics: Mapping[str, Mapping[int, int]], **fields: Any) -> Any:
        given = {
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }
        return commit(self.play, self.group, topics, actor=self.name, **(given | fields))


# What anyone may ask.


def ids_of(play: Play, topics: Sequence[str], request: type[Any], by_id_from: int) -> dict[str, bytes]:
    """Topic ids, where the version asks by id; of a topic that does not exist a stranger's."""
    if play.version(request) < by_id_from:
        return dict.fromkeys(topics, bytes(16))
    found = {topic: play.crew.topic_id(topic) for topic in topics}
    return {topic: STRANGER if topic_id == bytes(16) else topic_id for topic, topic_id in found.items()}


def commit(
    play: Play, group: str, topics: Mapping[str, Mapping[int, int]], *, actor: str = "outsider", **fields: Any
) -> Any:
    metadata, epoch = fields.pop("metadata", "m"), fields.pop("epoch", -1)
    ids = ids_of(play, list(topics), OffsetCommitRequest, 10)
    asked = [
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
    return play.ask(actor, OffsetCommitRequest(group_id=group, topics=asked, **fields))


def fetch(
    play: Play, group: str, topics: Mapping[str, Sequence[int]] | None, *, stable: bool = False, **fields: Any
) -> Any:
    version = play.version(OffsetFetchRequest)
    if version >= 8:
        ids = ids_of(play, list(topics or ()), OffsetFetchRequest, 10)
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopics(name=t, topic_id=ids[t], partition_indexes=list(p)) for t, p in topics.items()
            ]
        entry = OffsetFetchRequestGroup(group_id=group, topics=asked, **fields)
        return play.ask("outsider", OffsetFetchRequest(groups=[entry], require_stable=stable))
    named = None
    if topics is not None or version < 2:
        named = [OffsetFetchRequestTopic(name=t, partition_indexes=list(p)) for t, p in (topics or {}).items()]
    return play.ask("outsider", OffsetFetchRequest(group_id=group, topics=named, require_stable=stable))


def describe(play: Play, *groups: str, operations: bool = False) -> Any:
    return play.ask("outsider", DescribeGroupsRequest(groups=list(groups), include_authorized_operations=operations))


def list_groups(play: Play, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
    return play.ask("outsider", ListGroupsRequest(states_filter=list(states), types_filter=list(types)))


def delete_groups(play: Play, *groups: str) -> Any:
    return play.ask("outsider", DeleteGroupsRequest(groups_names=list(groups)))


def delete_offsets(play: Play, group: str, topics: Mapping[str, Sequence[int]]) -> Any:
    asked = [
        OffsetDeleteRequestTopic(name=t, partitions=[OffsetDeleteRequestPartition(partition_index=p) for p in ps])
        for t, ps in topics.items()
    ]
    return play.ask("outsider", OffsetDeleteRequest(group_id=group, topics=asked))


def find(play: Play, *keys: str, key_type: int = 0) -> Any:
    if play.version(FindCoordinatorRequest) >= 4:
        return play.ask("outsider", FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type))
    return play.ask("outsider", FindCoordinatorRequest(key=keys[0], key_type=key_type))


# Situations.


def share(play: Play, *actors: Actor) -> None:
    """Everyone syncs to the generation that it was told of; each is given its name."""
    plan = {a.member_id: a.name.encode() for a in actors}
    for actor in actors:
        actor.start_sync(plan if actor.leader == actor.member_id else None)
    for actor in actors:
        actor.take()


def stable(play: Play, *actors: Actor) -> None:
    """All of them, new, in one stable generation; the first leads."""
    for i, actor in enumerate(actors):
        if i == 0:
            actor.enter()
            continue
        actor.start_enter()
        play.crew.await_state(actor.group, "PreparingRebalance")
        for present in actors[:i]:
            present.start_join()
        for present in actors[: i + 1]:
            present.take()
    share(play, *actors)


def start_rebalance(play: Play, leader: Actor, *others: Actor) -> None:
    leader.start_join()
    play.crew.await_state(leader.group, "PreparingRebalance")
    for other in others:
        other.start_join()


def everything(play: Play, topic: str, *members: Actor) -> None:
    """Every request that is answered at once and moves nothing, with every way to be wrong."""
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
        wrong_instance(play, actor, topic)
        if play.can_say(SyncGroupRequest, "protocol_name"):
            actor.sync(protocol_name="nonsense")
            actor.sync(protocol_type=None)
        if play.can_say(LeaveGroupRequest, "members"):
            actor.leave(
                MemberIdentity(member_id="stranger"), MemberIdentity(member_id="", group_instance_id="stranger")
            )
        else:
            play.ask(actor.name, LeaveGroupRequest(group_id=group, member_id="stranger"))
    commit(play, group, {topic: {0: 6}})
    commit(play, group, {topic: {0: 6}}, generation_id_or_member_epoch=members[0].generation)
    look(play, group, topic)
    if members[0].generation >= 0:
        delete_groups(play, group)
    delete_offsets(play, group, {topic: [1], f"other-{play.crew.mark}": [0]})


def wrong_instance(play: Play, actor: Actor, topic: str) -> None:
    """Where a request cannot name an instance it would be right, not wrong."""
    stranger = {"group_instance_id": "stranger"}
    actor.heartbeat(**stranger)
    actor.commit({topic: {0: 5}}, **stranger)
    if play.can_say(SyncGroupRequest, "group_instance_id"):
        actor.sync(**stranger)
    if play.can_say(JoinGroupRequest, "group_instance_id"):
        actor.join(**stranger)


def look(play: Play, group: str, topic: str) -> None:
    """What can be seen of a group from outside."""
    fetch(play, group, {topic: [0, 1]})
    fetch(play, group, {topic: [0, 1]}, stable=True)
    fetch(play, group, None)
    describe(play, group)
    list_groups(play)
    list_groups(play, states=["stable", "PREPARINGREBALANCE "])
    list_groups(play, types=["Classic"])
    list_groups(play, types=["consumer"])
    find(play, group)


# The scripts.


def crew_of(play: Play, *instances: str | None, **options: Any) -> tuple[str, list[Actor]]:
    """A topic, and actors of one group: one for each instance id, None for a dynamic one."""
    group, topic = play.crew.group(), play.topic()
    names = ("ann", "ben", "cal", "dan", "eve", "fay")
    return topic, [Actor(play, names[i], group, instance_id=x, **options) for i, x in enumerate(instances)]


def a_group_that_is_not_there(play: Play) -> None:
    topic, (ann,) = crew_of(play, None)
    everything(play, topic, ann)


def a_group_of_one(play: Play) -> None:
    topic, (ann,) = crew_of(play, None)
    ann.enter()
    everything(play, topic, ann)
    ann.sync({ann.member_id: b"all", "unknown": b"ignored"})
    everything(play, topic, ann)
    ann.leave()
    everything(play, topic, ann)
    delete_groups(play, ann.group, ann.group, "nobody")
    everything(play, topic, ann)


def a_pending_member(play: Play) -> None:
    topic, (ann, ben) = crew_of(play, None, None)
    if play.version(JoinGroupRequest) < 4:
        return
    ann.join()
    everything(play, topic, ann)
    ben.enter()
    everything(play, topic, ann, ben)


def two_members_in_every_state(play: Play) -> None:
    topic, (ann, ben) = crew_of(play, None, None)
    stable(play, ann, ben)
    everything(play, topic, ann, ben)
    ben.commit({topic: {1: 11}})
    start_rebalance(play, ann)
    everything(play, topic, ann, ben)
    ben.start_join()
    ann.take()
    ben.take()
    everything(play, topic, ann, ben)
    ben.join()  # it says the same again: told of the same generation
    share(play, ann, ben)
    everything(play, topic, ann, ben)
    ben.sync()
    ann.sync()
    ben.join()
    ben.leave()
    ann.heartbeat()
    look(play, ann.group, topic)
    ann.join()
    ann.sync({})
    everything(play, topic, ann, ben)


def static_members_in_every_state(play: Play) -> None:
    topic, (ann, ben) = crew_of(play, "a", "b")
    stable(play, ann, ben)
    everything(play, topic, ann, ben)
    old = ben.twin()
    ben.member_id = ""
    if not play.can_say(JoinGroupRequest, "group_instance_id"):
        return
    ben.join()  # restarted: no rebalance
    everything(play, topic, ann, old)
    ben.sync()
    leader = ann.twin()
    ann.member_id = ""
    ann.join()  # the leader too
    everything(play, topic, leader, ben)
    ann.sync()
    start_rebalance(play, ann)
    everything(play, topic, leader, ben)
    ben.start_join()
    ann.take()
    ben.take()
    everything(play, topic, ann, old)
    share(play, ann, ben)


def a_static_member_restarts_during_a_rebalance(play: Play) -> None:
    topic, (ann, ben) = crew_of(play, "a", "b")
    if not play.can_say(JoinGroupRequest, "group_instance_id"):
        return
    stable(play, ann, ben)
    start_rebalance(play, ann, ben)
    ann.take()
    ben.take()
    old = ben.twin()
    old.start_sync()  # waits for the leader
    play.crew.let_others_be_heard(ann.group)
    ben.member_id = ""
    ben.start_join()
    old.take()  # fenced
    play.crew.await_state(ann.group, "PreparingRebalance")
    look(play, ann.group, topic)
    again = ben.twin("ben-again")
    again.member_id = ""
    again.start_join()
    ben.take()  # fenced in its turn
    ann.start_join()
    ann.take()
    again.take()
    share(play, ann, again)
    look(play, ann.group, topic)


def a_static_member_restarts_with_other_protocols(play: Play) -> None:
    topic, (ann,) = crew_of(play, "a", protocols=BOTH)
    if not play.can_say(JoinGroupRequest, "group_instance_id"):
        return
    stable(play, ann)
    for protocols in (BOTH, [("range", subscription("t", "u")), BOTH[1]], BOTH[::-1]):
        ann.member_id, ann.protocols = "", protocols
        ann.join()
        look(play, ann.group, topic)


def leaving_in_batches(play: Play) -> None:
    topic, (ann, ben, cal, dan) = crew_of(play, None, "b", "c", None)
    if play.version(JoinGroupRequest) < 4:
        return
    stable(play, ann, ben, cal)
    dan.join()
    entry = MemberIdentity
    outsider = ann.twin()
    outsider.leave(entry(member_id=""))
    outsider.leave(entry(member_id=ben.member_id, group_instance_id="c"))
    outsider.leave(entry(member_id="stranger", group_instance_id="b"), entry(member_id=ann.member_id + "x"))
    outsider.leave(entry(member_id=dan.member_id, group_instance_id="whatever"))
    look(play, ann.group, topic)
    outsider.leave(
        entry(member_id="", group_instance_id="b"),
        entry(member_id="", group_instance_id="b"),
        entry(member_id=cal.member_id),
        entry(member_id="", group_instance_id="nobody"),
    )
    everything(play, topic, ann, ben, cal)
    ann.leave()
    everything(play, topic, ann, ben)


def leaving_while_parked(play: Play) -> None:
    topic, (ann, ben) = crew_of(play, None, None)
    stable(play, ann, ben)
    start_rebalance(play, ann)
    ann.twin().leave()
    ann.take()
    look(play, ann.group, topic)
    ben.join()
    ben.twin().leave()
    look(play, ann.group, topic)


def protocols_that_do_not_fit(play: Play) -> None:
    topic, (ann, ben, cal) = crew_of(play, None, None, None)
    ann.protocols, ben.protocols, cal.protocols = RANGE, STICKY, BOTH
    ann.join(protocols=[])
    ann.join(protocol_type="")
    look(play, ann.group, topic)
    stable(play, ann)
    ben.join()
    ben.join(protocol_type="connect", protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")])
    cal.start_enter()
    play.crew.await_state(ann.group, "PreparingRebalance")
    ann.start_join()
    ann.take()
    cal.take()
    share(play, ann, cal)
    look(play, ann.group, topic)


def a_group_that_is_no_consumers(play: Play) -> None:
    topic, (ann,) = crew_of(play, None, protocol_type="connect", protocols=[("default", b"\x00")])
    stable(play, ann)
    everything(play, topic, ann)
    ann.leave()
    everything(play, topic, ann)
    ann.member_id, ann.protocol_type, ann.protocols = "", "consumer", RANGE
    stable(play, ann)
    look(play, ann.group, topic)


def metadata_that_cannot_be_read(play: Play) -> None:
    topic, (ann,) = crew_of(play, None, protocols=[("range", b"\x00")])
    stable(play, ann)
    ann.commit({topic: {0: 1}})
    delete_offsets(play, ann.group, {topic: [0]})
    look(play, ann.group, topic)


def a_full_group(play: Play) -> None:
    topic, members = crew_of(play, None, None, None, None, None, None)
    *members, late = members
    stable(play, *members)
    late.join()
    late.join(member_id="stranger")
    start_rebalance(play, *members)
    for member in members:
        member.take()
    late.join()
    share(play, *members)
    look(play, late.group, topic)
    members[-1].leave()
    late.start_enter()
    play.crew.let_others_be_heard(late.group)
    for member in members[:-1]:
        member.start_join()
    for member in (*members[:-1], late):
        member.take()


def groups_without_a_name(play: Play) -> None:
    topic = play.topic()
    nobody = Actor(play, "nobody", "")
    nobody.join()
    nobody.sync()
    nobody.heartbeat()
    nobody.leave()
    commit(play, "", {topic: {0: 4}})
    fetch(play, "", {topic: [0]})
    delete_offsets(play, "", {topic: [0]})
    delete_groups(play, "")
    describe(play, "")


def offsets_from_outside(play: Play) -> None:
    group, topic, other = play.crew.group(), play.topic(), play.topic("other", 1)
    gone = f"gone-{play.crew.mark}"
    commit(play, group, {topic: {0: 1, 1: 2}, other: {0: 3, 1: 4, -1: 5}, gone: {0: 6}})
    look(play, group, topic)
    fetch(play, group, {topic: [1, 0, 7], other: [0], gone: [0]})
    commit(play, group, {topic: {0: -1, 1: 2**62}}, metadata=None, epoch=3)
    commit(play, group, {other: {0: 9}}, metadata="x" * 4096)
    commit(play, group, {topic: {0: 9}, other: {0: 9}}, metadata="x" * 4097)
    commit(play, group, {topic: {0: 9}, other: {0: 9}}, metadata="\N{GRINNING FACE}" * 2049)
    commit(play, group, {gone: {0: 9}})
    commit(play, group, {topic: {}})
    commit(play, group, {})
    commit(play, group, {topic: {0: 10}}, retention_time_ms=100_000)
    commit(play, group, {topic: {0: 10}}, member_id="someone")
    commit(play, group, {topic: {0: 11}}, generation_id_or_member_epoch=0)
    look(play, group, topic)
    delete_offsets(play, group, {topic: [0, 5], other: [0, 1], gone: [0], f"more-{play.crew.mark}": []})
    delete_offsets(play, group, {})
    look(play, group, topic)
    delete_groups(play, group, "", group)
    delete_offsets(play, group, {topic: [0]})
    look(play, group, topic)


def administration_of_many(play: Play) -> None:
    topic, (ann,) = crew_of(play, None)
    simple = play.crew.group("simple")
    commit(play, simple, {topic: {0: 1}})
    stable(play, ann)
    describe(play, ann.group, simple, "nobody", "", simple)
    describe(play, ann.group, simple, "nobody", operations=True)
    describe(play)
    list_groups(play)
    for states in (["Empty"], ["stable", "nonsense"], ["nonsense"], ["", "Dead"], [" Stable"]):
        list_groups(play, states=states)
    for types in (["classic"], ["CLASSIC", "nonsense"], ["nonsense"], ["consumer", "share"], [" classic"]):
        list_groups(play, types=types)
    list_groups(play, states=["Empty"], types=["classic"])
    delete_groups(play, simple, "", "nobody", ann.group, simple)
    delete_groups(play)


def finding_coordinators(play: Play) -> None:
    group = play.crew.group()
    find(play, group, "another", group, "")
    find(play, "")
    find(play, group, key_type=2)
    find(play, group, key_type=7)


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

"""Checks against hand-made exchanges that no known seed produces."""

import random

import pytest

from kohort.config.broker import BrokerConfig
from kohort.coordinator.records import GroupWritten, OffsetCommitted, build_record
from kohort.errors import ErrorCode
from kohort.log.storage import MemoryStorage
from kohort.log.topics import Topics
from kohort.model import TopicPartition
from kohort.wire.apis import api_of
from kohort.wire.messages.group_classic import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata
from kohort.wire.record_batch import NewRecord, build_batch
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.fencing import Fencing
from kohort_lab.sim.checks.joiners import Joiners
from kohort_lab.sim.checks.life import GroupLife
from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.run_context import AllChecks


def exchange(request, answer):
    return Exchange("consumer", 1, api_of(request), 5, 1, 0, request=request, answer=answer)


def joined(generation_id, member_id="m"):
    answer = JoinGroupResponse(member_id=member_id, generation_id=generation_id)
    return exchange(JoinGroupRequest(member_id=member_id), answer)


def not_written(generation_id):
    refused = SyncGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return exchange(SyncGroupRequest(member_id="m", generation_id=generation_id), refused)


def heartbeat(generation_id, member_id):
    return exchange(HeartbeatRequest(member_id=member_id, generation_id=generation_id), HeartbeatResponse())


class GroupLog:
    def __init__(self):
        self.topics = Topics(MemoryStorage(), BrokerConfig(), random.Random(0), 0)
        self.log = self.topics.create("__consumer_offsets", 1, {}, 0, internal=True).partitions[0]
        self.life = GroupLife("g", lambda: self.topics)

    def generation(self, number, group="g", members=()):
        named = [MemberMetadata(member_id=member) for member in members]
        self.write(GroupWritten(group, GroupMetadataValue(protocol_type="consumer", generation=number, members=named)))

    def tombstone(self, group="g"):
        self.write(GroupWritten(group, None))

    def offset_expires(self, topic):
        self.write(OffsetCommitted("g", topic, 0, None))

    def write(self, record):
        self.log.append(build_batch([NewRecord(*build_record(record), (), 0)]), 0, from_client=False)

    def deliver(self, check, *exchanges):
        for one in exchanges:
            self.life.answered(one)
            check.answered(one)


def test_group_tombstone_ends_the_life_of_its_group_only():
    written = GroupLog()
    written.generation(3)
    written.tombstone("another")
    assert (written.life.number, written.life.is_written) == (0, True)

    written.tombstone()
    assert (written.life.number, written.life.is_written) == (1, False)

    written.offset_expires("t")
    assert written.life.expired(TopicPartition("t", 0)) == 1
    assert written.life.number == 1


def test_generation_that_could_not_be_persisted_is_not_used_again():
    written = GroupLog()
    written.generation(3)
    joiners = Joiners(written.life)
    written.deliver(joiners, joined(4), not_written(4))
    with pytest.raises(CheckFailed, match="generation 4 could not be persisted"):
        joiners.answered(joined(4))


def test_deleted_group_may_repeat_an_unpersisted_generation():
    written = GroupLog()
    written.generation(3)
    joiners = Joiners(written.life)
    written.deliver(joiners, joined(4), not_written(4))
    written.tombstone()
    written.generation(3)
    written.deliver(joiners, joined(4))


def test_group_restarts_generations_only_after_its_tombstone():
    written = GroupLog()
    written.generation(5)
    fencing = Fencing(lambda: 0, written.life)
    written.deliver(fencing, joined(5))
    with pytest.raises(CheckFailed, match="generation 1 after 5, but the log has no tombstone"):
        fencing.answered(joined(1))

    written.tombstone()
    written.deliver(fencing, joined(1))


def test_member_of_a_previous_life_is_rejected_in_the_next():
    written = GroupLog()
    written.generation(2)
    fencing = Fencing(lambda: 0, written.life)
    written.deliver(fencing, joined(2, "old"))
    written.tombstone()
    written.deliver(fencing, joined(2, "new"), heartbeat(2, "new"))
    with pytest.raises(CheckFailed, match="of old succeeds; its group was deleted since it joined"):
        fencing.answered(heartbeat(2, "old"))


def test_members_of_a_generation_are_those_persisted_with_it():
    written = GroupLog()
    written.generation(1, members=("a", "b"))
    assert not written.life.has_written(2, "b"), "b may have been told of it, but nobody was given anything in it"

    written.generation(2, members=("a",))

    assert [written.life.has_written(2, member) for member in "ab"] == [True, False]
    written.tombstone()
    assert not written.life.has_written(2, "a")


class RecordingWatcher(Watcher):
    def __init__(self, *, hears_all):
        self.hears_all = hears_all
        self.events = []

    def requested(self, exchange):
        self.events.append(("asked", exchange))

    def answered(self, exchange):
        self.events.append(("answered", exchange))


def test_watcher_without_hears_all_gets_decoded_exchanges_only():
    heartbeat_of_m, undecoded = heartbeat(1, "m"), exchange(HeartbeatRequest(), HeartbeatResponse())
    undecoded.request = undecoded.answer = None
    only_an_error = exchange(HeartbeatRequest(), HeartbeatResponse())
    only_an_error.request = None
    checks, some, every = AllChecks(), RecordingWatcher(hears_all=False), RecordingWatcher(hears_all=True)
    for watcher in (some, every):
        checks.add(watcher)

    for one in (heartbeat_of_m, undecoded, only_an_error):
        checks.requested(one)
        checks.answered(one)

    decoded = [("asked", heartbeat_of_m), ("answered", heartbeat_of_m), ("answered", only_an_error)]
    assert some.events == decoded
    assert every.events == [
        (how, one) for one in (heartbeat_of_m, undecoded, only_an_error) for how in ("asked", "answered")
    ]
    checks.leave()
    checks.answered(heartbeat_of_m)
    assert some.events == decoded

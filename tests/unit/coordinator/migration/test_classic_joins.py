"""JoinGroup requests to a consumer group: persisted member metadata and responses."""

import pytest

from kohort.coordinator.journal import EpochRaised, RequestFenced, StaticReplaced
from kohort.coordinator.records import MemberWritten
from kohort.errors import ErrorCode
from kohort.wire.consumer_protocol import parse_assignment
from kohort.wire.messages.consumer_group_records import ClassicMemberMetadata, ClassicProtocol
from kohort.wire.messages.group_classic import JoinGroupResponse
from support.consumer_protocol import subscription
from support.machines.coordinator_stage import CoordinatorStage
from support.machines.written_groups import T, epochs, member, write


@pytest.fixture
def stage() -> CoordinatorStage:
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    stage.come("new")
    return stage


def latest_metadata(stage: CoordinatorStage, member_id: str):
    written = [r.value for r in stage.records() if isinstance(r, MemberWritten) and r.member_id == member_id]
    return written[-1]


def ranged(*topics: str, **options):
    return (("range", subscription(*topics, **options)),)


def test_join_group_request_to_a_consumer_group_is_answered_at_once_without_leader(stage):
    ticket = stage.join("old", version=3, protocols=(*ranged("t"), ("roundrobin", subscription("t"))))

    assert stage.answer(ticket) == JoinGroupResponse(
        generation_id=3, protocol_type="consumer", protocol_name="range", member_id="old", leader="", members=[]
    )
    synced = stage.answer(stage.sync("old", 3))
    assert (synced.error_code, synced.protocol_type, synced.protocol_name) == (ErrorCode.NONE, "consumer", "range")
    assert parse_assignment(synced.assignment).partitions == [], "the other member must first revoke partitions"


def test_join_group_request_to_a_consumer_group_persists_each_protocol_once(stage):
    protocols = (*ranged("u", "t", "u", rack="r"), ("roundrobin", subscription("t")), ("range", b"again"))
    stage.join(
        "old",
        version=3,
        protocols=protocols,
        session_ms=20_000,
        rebalance_ms=50_000,
        client_id="app 2",
        client_host="/10.0.0.2",
    )

    value = latest_metadata(stage, "old")
    assert (value.client_id, value.client_host, value.instance_id) == ("app 2", "/10.0.0.2", None)
    assert (value.subscribed_topic_names, value.subscribed_topic_regex) == (["t", "u"], "")
    assert (value.rack_id, value.rebalance_timeout_ms, value.server_assignor) == ("r", 50_000, None)
    kept = value.classic_member_metadata
    assert kept.session_timeout_ms == 20_000
    assert [one.name for one in kept.supported_protocols] == ["range", "roundrobin"]


def test_repeated_join_group_request_to_a_consumer_group_persists_nothing(stage):
    stage.join("old", version=3)
    stage.join("old", version=3)

    assert len([r for r in stage.records() if isinstance(r, MemberWritten) and r.member_id == "old"]) == 1


def test_consumer_member_that_becomes_classic_keeps_its_rack_and_assignor_but_not_its_pattern(stage):
    stage.come("other", "u", rack_id="r", server_assignor="range", subscribed_topic_regex="t.*", instance_id="i")

    assert stage.answer(stage.join("other", instance_id="i", protocols=ranged("u"))).error_code == ErrorCode.NONE

    value = latest_metadata(stage, "other")
    assert (value.rack_id, value.server_assignor, value.instance_id) == ("r", "range", "i")
    assert (value.subscribed_topic_names, value.subscribed_topic_regex) == (["u"], "")
    assert value.classic_member_metadata == ClassicMemberMetadata(
        session_timeout_ms=10_000, supported_protocols=[ClassicProtocol(name="range", metadata=subscription("u"))]
    )
    stage.join("other", instance_id="i", protocols=ranged("u", rack="r2"))
    assert latest_metadata(stage, "other").rack_id == "r2"


def test_join_group_request_with_a_shorter_session_timeout_shortens_the_session(stage):
    stage.join("old", version=3, session_ms=40_000)
    generation = stage.answer(stage.join("old", version=3, session_ms=8_000)).generation_id
    assert stage.answer(stage.sync("old", generation)).error_code == ErrorCode.NONE

    stage.advance(7_999)
    assert stage.heartbeat("stranger", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert [e.cause.event for e in stage.entries(EpochRaised)] == ["member_joined", "member_joined"]
    stage.advance(1)

    cause = stage.entries(EpochRaised)[-1].cause
    assert (cause.event, cause.member.member_id, cause.vitals.session_timeout_ms) == ("session_expired", "old", 8_000)


@pytest.mark.parametrize("again", [False, True])
def test_journal_entry_of_a_removed_classic_member_has_the_closing_time_of_its_connection(stage, again):
    stage.join("old", version=3, connection=5)
    if again:
        stage.advance(1_000)
        stage.join("old", version=3, connection=6)
    stage.coordinator.connection_closed(5, stage.now)
    stage.advance(10_000)

    vitals = stage.entries(EpochRaised)[-1].cause.vitals
    assert (vitals.connection_closed_at_ms is None) is again
    assert vitals.longest_gap_ms == (1_000 if again else 0)


def test_join_group_request_that_no_longer_reports_a_revoked_partition_as_owned_completes_the_revocation():
    stage = CoordinatorStage(group_consumer_assignment_interval_ms=0)
    target = {T: frozenset({0})}
    write(stage, epochs(6), member("old", 5, {T: {0: 5, 1: 5}}, target=target, classic=True), member("new", 6))

    def generation(*owned: int) -> int:
        joined = stage.answer(stage.join("old", protocols=ranged("t", owned=[("t", number) for number in owned])))
        assert joined.error_code == ErrorCode.NONE
        found: int = joined.generation_id
        return found

    assert generation(0, 1) == 5, "the member must revoke a partition"
    assert generation(0) > 5


PROTOCOL_CASES = {
    "protocol of all classic members": (("range", "sticky"), ErrorCode.NONE),
    "unknown protocol and one of all classic members": (("new", "range"), ErrorCode.NONE),
    "protocol of one classic member": (("roundrobin",), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "protocol of no classic member": (("new",), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
}


@pytest.mark.parametrize(("speaks", "code"), PROTOCOL_CASES.values(), ids=PROTOCOL_CASES.keys())
def test_join_group_request_to_a_consumer_group_needs_a_protocol_that_all_classic_members_support(stage, speaks, code):
    write(
        stage,
        epochs(5),
        member("m1", 5, classic=True, speaks=["range", "roundrobin"]),
        member("m2", 5, classic=True, speaks=["sticky", "range"]),
        member("new", 5),
    )

    answer = stage.answer(stage.join("m3", version=3, protocols=[(name, subscription("t")) for name in speaks]))

    assert answer.error_code == code
    assert stage.entries(RequestFenced) == []


def test_first_classic_member_of_a_consumer_group_may_use_any_protocol(stage):
    joined = stage.answer(stage.join("old", version=3, protocols=(("of its own", subscription("t")),)))

    assert (joined.error_code, joined.protocol_name) == (ErrorCode.NONE, "of its own")


def test_static_member_that_rejoins_without_member_id_keeps_the_assignment(stage):
    first = stage.answer(stage.join(instance_id="i"))
    stage.beat("new", 2)
    stage.beat("new", 2, [("t", 0), ("t", 1)])
    joined = stage.answer(stage.join(first.member_id, instance_id="i"))
    has = stage.answer(stage.sync(first.member_id, joined.generation_id, instance_id="i")).assignment

    again = stage.answer(stage.join(instance_id="i", software="franz 1"))

    assert again.member_id not in ("", first.member_id)
    assert again.generation_id == joined.generation_id
    assert stage.answer(stage.sync(again.member_id, again.generation_id, instance_id="i")).assignment == has
    (entry,) = stage.entries(StaticReplaced)
    assert (entry.member.member_id, entry.old_member_id, entry.software) == (
        again.member_id,
        first.member_id,
        "franz 1",
    )
    assert stage.heartbeat(first.member_id, again.generation_id, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat(first.member_id, again.generation_id) == ErrorCode.UNKNOWN_MEMBER_ID

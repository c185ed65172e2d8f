"""Journal entries that earlier kohort versions stored. This version parses and encodes them identically."""

from typing import get_args, get_type_hints

import msgspec
import pytest

from kohort.coordinator.journal import (
    KINDS,
    AssignmentWritten,
    AwaitedPartition,
    Change,
    ClientIdentity,
    EpochCause,
    EpochRaised,
    GenerationSeen,
    GivenPartition,
    GroupConverted,
    GroupDeleted,
    GroupLoaded,
    GroupUnloaded,
    JournalEntry,
    MemberArrived,
    MemberReconciled,
    MemberRemoved,
    Move,
    RequestFenced,
    RoundClosed,
    RoundDropped,
    RoundOpened,
    RoundSettled,
    SeenMember,
    SignsOfLife,
    StaticAway,
    StaticReplaced,
    TargetComputed,
    Trigger,
    Vitals,
    build_entry,
    parse_entry,
)
from kohort.coordinator.journal_events import (
    CommitUnfenced,
    JoinRejected,
    MemberDisconnected,
    OffsetMove,
    OptionsChanged,
    PartitionsResumed,
    ResumedPartition,
)

MEMBER = ClientIdentity("app-1", "app", "/127.0.0.1", "i-1")
MEMBER_STORED = b'{"member_id":"app-1","client_id":"app","client_host":"/127.0.0.1","instance_id":"i-1"}'

TRIGGER = Trigger(
    event="session_expired",
    member=MEMBER,
    reason="über\nlong\x01\udc80",
    vitals=Vitals(session_timeout_ms=1, rebalance_timeout_ms=2, last_seen_ms=0, connection_closed_at_ms=4),
    change=Change(was_leader=True, topics_added=("t",), partitions_changed={"t": (1, 2)}),
    others=(ClientIdentity("app-2"),),
)
TRIGGER_STORED = (
    b'{"event":"session_expired","member":%b,"reason":"\xc3\xbcber\\nlong\\u0001\xed\xb2\x80",'
    b'"vitals":{"session_timeout_ms":1,"rebalance_timeout_ms":2,"last_seen_ms":0,"connection_closed_at_ms":4},'
    b'"change":{"was_leader":true,"topics_added":["t"],"partitions_changed":{"t":[1,2]}},'
    b'"others":[{"member_id":"app-2"}]}' % MEMBER_STORED
)

STORED = [
    (
        RoundOpened(at_ms=5, group="g", trigger=TRIGGER, from_generation=0, members=(MEMBER,), timeout_ms=0),
        b'"round_opened","at_ms":5,"group":"g","trigger":%b,"from_generation":0,"members":[%b],"timeout_ms":0}'
        % (TRIGGER_STORED, MEMBER_STORED),
    ),
    (
        MemberArrived(at_ms=6, group="g", member=MEMBER, after_ms=1, new=True, api_version=9, software="franz 1"),
        b'"member_arrived","at_ms":6,"group":"g","member":%b,"after_ms":1,"new":true,"api_version":9,'
        b'"software":"franz 1"}' % MEMBER_STORED,
    ),
    (
        MemberRemoved(
            at_ms=7, group="g", member=MEMBER, why="left", reason="bye", by=ClientIdentity("", "admin", "/h")
        ),
        b'"member_removed","at_ms":7,"group":"g","member":%b,"why":"left","reason":"bye",'
        b'"by":{"member_id":"","client_id":"admin","client_host":"/h"}}' % MEMBER_STORED,
    ),
    (
        RoundClosed(
            at_ms=8, group="g", generation=2, members=(MEMBER,), leader=None, protocol_type="consumer",
            protocol="range", took_ms=3,
        ),
        b'"round_closed","at_ms":8,"group":"g","generation":2,"members":[%b],"leader":null,'
        b'"protocol_type":"consumer","protocol":"range","took_ms":3}' % MEMBER_STORED,
    ),
    (
        AssignmentWritten(
            at_ms=9, group="g", generation=2, took_ms=0, partitions={"app-1": {"t": (0, 1)}},
            moves=(Move("t", 0, None, "app-1"),),
        ),
        b'"assignment_written","at_ms":9,"group":"g","generation":2,"took_ms":0,"partitions":{"app-1":{"t":[0,1]}},'
        b'"moves":[{"topic":"t","partition":0,"before":null,"after":"app-1"}]}',
    ),
    (
        RoundSettled(at_ms=10, group="g", generation=2, last=MEMBER, took_ms=1),
        b'"round_settled","at_ms":10,"group":"g","generation":2,"last":%b,"took_ms":1}' % MEMBER_STORED,
    ),
    (
        RoundDropped(at_ms=11, group="g", error="X", generation=-1),
        b'"round_dropped","at_ms":11,"group":"g","error":"X","generation":-1}',
    ),
    (
        StaticReplaced(at_ms=12, group="g", member=MEMBER, old_member_id="app-0", software="franz 1"),
        b'"static_replaced","at_ms":12,"group":"g","member":%b,"old_member_id":"app-0","software":"franz 1"}'
        % MEMBER_STORED,
    ),
    (
        RequestFenced(
            at_ms=13, group="g", member=ClientIdentity("app-0"), api="Heartbeat", error="FENCED_INSTANCE_ID",
            generation=1, current=2,
        ),
        b'"request_fenced","at_ms":13,"group":"g","member":{"member_id":"app-0"},"api":"Heartbeat",'
        b'"error":"FENCED_INSTANCE_ID","generation":1,"current":2}',
    ),
    (
        EpochRaised(
            at_ms=14, group="g", epoch=3, members=2,
            cause=EpochCause(
                event="subscription_changed", member=MEMBER, topics_added=("t",), topics_removed=("u",),
                software="franz 1",
            ),
        ),
        b'"epoch_raised","at_ms":14,"group":"g","epoch":3,"cause":{"event":"subscription_changed","member":%b,'
        b'"topics_added":["t"],"topics_removed":["u"],"software":"franz 1"},"members":2}' % MEMBER_STORED,
    ),
    (
        TargetComputed(
            at_ms=14, group="g", epoch=3, assignor="uniform", moves=(Move("t", 0, None, "app-1"),), members=2,
            after_ms=5,
        ),
        b'"target_computed","at_ms":14,"group":"g","epoch":3,"assignor":"uniform",'
        b'"moves":[{"topic":"t","partition":0,"before":null,"after":"app-1"}],"members":2,"after_ms":5}',
    ),
    (
        MemberReconciled(
            at_ms=14, group="g", member=MEMBER, epoch=3, from_epoch=2, target_epoch=3, state="unreleased_partitions",
            revoked={"t": (1,)}, revoked_after_ms=7, given=(GivenPartition("t", 0, 9),),
            awaited=(AwaitedPartition("t", 2, "app-2"),),
        ),
        b'"member_reconciled","at_ms":14,"group":"g","member":%b,"epoch":3,"from_epoch":2,"target_epoch":3,'
        b'"state":"unreleased_partitions","revoked":{"t":[1]},"revoked_after_ms":7,'
        b'"given":[{"topic":"t","partition":0,"unowned_ms":9}],'
        b'"awaited":[{"topic":"t","partition":2,"owner":"app-2"}]}' % MEMBER_STORED,
    ),
    (
        StaticAway(at_ms=14, group="g", member=MEMBER),
        b'"static_away","at_ms":14,"group":"g","member":%b}' % MEMBER_STORED,
    ),
    (
        GenerationSeen(
            at_ms=14, group="g", observed=True, generation=2, protocol_type="consumer", protocol="range",
            leader="app-1",
            members=(SeenMember(member=MEMBER, session_timeout_ms=1, rebalance_timeout_ms=2, topics=("t",), owned={},
                                partitions={"t": (0,)}),),
            joined_ms=13, leader_epoch=0, signs=(SignsOfLife(member_id="app-1", since_ms=1, last_commit_ms=0),),
            present=(),
        ),
        b'"generation_seen","at_ms":14,"group":"g","observed":true,"generation":2,"protocol_type":"consumer",'
        b'"protocol":"range","leader":"app-1","members":[{"member":%b,"session_timeout_ms":1,"rebalance_timeout_ms":2,'
        b'"topics":["t"],"owned":{},"partitions":{"t":[0]}}],"joined_ms":13,"leader_epoch":0,'
        b'"signs":[{"member_id":"app-1","since_ms":1,"last_commit_ms":0}],"present":[]}' % MEMBER_STORED,
    ),
    (
        GroupLoaded(at_ms=14, group="g", generation=2, members=(MEMBER,), partitions={"app-1": {"t": (0,)}}),
        b'"group_loaded","at_ms":14,"group":"g","generation":2,"members":[%b],"partitions":{"app-1":{"t":[0]}}}'
        % MEMBER_STORED,
    ),
    (
        GroupUnloaded(at_ms=15, group="g", generation=2),
        b'"group_unloaded","at_ms":15,"group":"g","generation":2}',
    ),
    (
        GroupConverted(at_ms=15, group="g", to="consumer", epoch=3, members=(MEMBER,)),
        b'"group_converted","at_ms":15,"group":"g","to":"consumer","epoch":3,"members":[%b]}' % MEMBER_STORED,
    ),
    (
        GroupDeleted(at_ms=16, group="\ud800", why="expired"),
        b'"group_deleted","at_ms":16,"group":"\xed\xa0\x80","why":"expired"}',
    ),
    (
        JoinRejected(at_ms=17, group="g", member=MEMBER, members=3),
        b'"join_rejected","at_ms":17,"group":"g","member":%b,"members":3}' % MEMBER_STORED,
    ),
    (
        MemberDisconnected(at_ms=18, group="g", member=MEMBER, after_ms=4),
        b'"member_disconnected","at_ms":18,"group":"g","member":%b,"after_ms":4}' % MEMBER_STORED,
    ),
    (
        CommitUnfenced(
            at_ms=19, group="g", member=ClientIdentity("", "admin", "/h", principal="User:a"), backwards=1,
            offsets=(OffsetMove("t", 0, 5, 9), OffsetMove("t", 1, 0)),
        ),
        b'"commit_unfenced","at_ms":19,"group":"g",'
        b'"member":{"member_id":"","client_id":"admin","client_host":"/h","principal":"User:a"},'
        b'"offsets":[{"topic":"t","partition":0,"after":5,"before":9},{"topic":"t","partition":1,"after":0}],'
        b'"backwards":1}',
    ),
    (
        OptionsChanged(at_ms=20, group="g", options={"consumer.session.timeout.ms": (None, 9000)}),
        b'"options_changed","at_ms":20,"group":"g","options":{"consumer.session.timeout.ms":[null,9000]}}',
    ),
    (
        PartitionsResumed(
            at_ms=21, group="g", member=MEMBER, generation=2, partitions=(ResumedPartition("t", 0, 7, 3, 1),)
        ),
        b'"partitions_resumed","at_ms":21,"group":"g","member":%b,"generation":2,'
        b'"partitions":[{"topic":"t","partition":0,"offset":7,"lag":3,"lag_before":1}]}' % MEMBER_STORED,
    ),
]  # fmt: skip
HEAD = b'{"schema":"kohort/journal/1","kind":'


def test_each_journal_entry_kind_has_a_stored_sample():
    assert tuple(type(entry) for entry, _ in STORED) == KINDS


@pytest.mark.parametrize(("entry", "stored"), STORED, ids=[type(entry).__name__ for entry, _ in STORED])
def test_json_of_each_journal_entry_kind_is_stable(entry, stored):
    assert build_entry(entry) == HEAD + stored
    assert parse_entry(HEAD + stored) == entry


def test_journal_entry_in_which_default_values_are_explicit_is_parsed_equally():
    stored = HEAD + b'"group_deleted","at_ms":1,"group":"g","why":"deleted","by":null}'
    assert parse_entry(stored) == GroupDeleted(at_ms=1, group="g", why="deleted")


DEFAULTS = {
    "AssignmentWritten": {"moves": ()},
    "Change": {
        "was_leader": False, "protocols_before": (), "protocols_after": (), "topics_added": (), "topics_removed": (),
        "owned_changed": False, "partitions_changed": {}, "topics_created": (), "topics_deleted": (),
    },
    "CommitUnfenced": {"more": 0, "backwards": 0, "in_transaction": False},
    "EpochCause": {"others": (), "topics_added": (), "topics_removed": (), "partitions_changed": {}},
    "GenerationSeen": {"leader_epoch": -1, "signs": ()},
    "MemberReconciled": {"revoking": {}, "revoked": {}, "given": (), "awaited": ()},
    "JoinRejected": {"error": "GROUP_MAX_SIZE_REACHED", "offered": (), "accepted": ()},
    "RequestFenced": {"offsets": (), "more": 0},
    "RoundOpened": {"initial": False},
    "SeenMember": {"topics": ()},
    "Trigger": {"others": (), "leader_lost": False},
    "Vitals": {"longest_gap_ms": 0, "commits": 0, "stalled_ms": 0},
    "ClientIdentity": {"client_id": "", "client_host": "", "classic": False, "principal": ""},
}  # fmt: skip


def structs_of(kinds):
    found, remaining = set(), list(kinds)
    while remaining:
        kind = remaining.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                remaining += get_type_hints(kind).values()
        else:
            remaining += get_args(kind)
    return found


def test_default_values_of_omitted_journal_fields_are_stable():
    found = {}
    for struct in structs_of(KINDS):
        fields = [f for f in msgspec.structs.fields(struct) if not f.required]
        values = {f.name: f.default_factory() if f.default is msgspec.NODEFAULT else f.default for f in fields}
        if issubclass(struct, JournalEntry):
            assert values.pop("observed") is False
        found[struct.__name__] = {name: value for name, value in values.items() if value is not None}

    assert {name: values for name, values in found.items() if values} == DEFAULTS


def test_journal_entry_parser_ignores_unknown_fields_at_every_depth():
    stored = HEAD + b'"round_settled","new":[1],"at_ms":1,"group":"g","generation":2,"took_ms":0,"last":{%b}}'
    assert parse_entry(stored % b'"member_id":"a","new":{"a":1}') == RoundSettled(
        at_ms=1, group="g", generation=2, took_ms=0, last=ClientIdentity("a")
    )

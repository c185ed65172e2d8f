"""Events, rejected requests and timelines that are found in a journal."""

from __future__ import annotations

import msgspec
import pytest

from kohort.coordinator.journal import (
    KINDS,
    AssignmentWritten,
    ClientIdentity,
    EpochCause,
    EpochRaised,
    GenerationSeen,
    GivenPartition,
    GroupDeleted,
    MemberReconciled,
    MemberRemoved,
    RequestFenced,
    RoundClosed,
    RoundOpened,
    RoundSettled,
    SeenMember,
    SignsOfLife,
    StaticAway,
    StaticReplaced,
    Trigger,
    Vitals,
)
from kohort.coordinator.journal_events import (
    CommitUnfenced,
    OffsetMove,
    OptionsChanged,
    PartitionsResumed,
    ResumedPartition,
)
from kohort.insight.findings.events import SENTENCES, event_finding, find_events
from kohort.insight.findings.fenced import find_fenced
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.findings.timeline import find_timeline
from kohort.insight.rebalances import RECENT_MS, _History, _take

A, B = ClientIdentity("a-1", "reader-a", "/10.0.0.1"), ClientIdentity("b-1", "reader-b", "/10.0.0.2")
STATIC = ClientIdentity("s-1", "billing", "/10.0.0.3", "billing-3")


def generation(at_ms, number, members, partitions, *, event="member_joined", member=None):
    about = {"group": "g"}
    return [
        RoundOpened(
            at_ms=at_ms, **about, trigger=Trigger(event=event, member=member), from_generation=number - 1,
            members=tuple(members), timeout_ms=1000,
        ),
        RoundClosed(
            at_ms=at_ms + 10, **about, generation=number, members=tuple(members),
            leader=members[0].member_id if members else None, protocol_type="consumer", protocol="range", took_ms=10,
        ),
        *(
            [
                AssignmentWritten(at_ms=at_ms + 20, **about, generation=number, took_ms=10, partitions=partitions),
                RoundSettled(at_ms=at_ms + 30, **about, generation=number, last=members[-1], took_ms=10),
            ]
            if members
            else []
        ),
    ]  # fmt: skip


def fenced(at_ms, member, error, api="OffsetCommit", generation=3, current=4):
    return RequestFenced(
        at_ms=at_ms, group="g", member=member, api=api, error=error, generation=generation, current=current
    )


def removed(at_ms, member, why="session_expired"):
    return MemberRemoved(at_ms=at_ms, group="g", member=member, why=why)


def test_every_kind_of_journal_entry_has_a_sentence():
    assert set(KINDS) - set(SENTENCES) == set()


def test_sentence_of_event_states_the_values_of_its_journal_entry():
    found = find_events(generation(1000, 4, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=B))

    assert [event.sentence for event in found] == [
        "rebalance after generation 3: member joined reader-b/b-1; 2 members",
        "generation 4: 2 members, leader reader-a/a-1, range, all joined after 10 ms",
        "generation 4 is assigned after 10 ms; no partitions moved",
        "generation 4 is stable: last SyncGroup of reader-b/b-1, 10 ms",
    ]
    assert [event.generation for event in found] == [3, 4, 4, 4]
    assert found[0].member.client_id == "reader-b"
    assert found[1].entry["leader"] == "a-1"


def test_control_characters_in_leave_reason_are_escaped_in_the_sentence_but_not_in_the_entry():
    evil = "\x1b[2J" + "x" * 100_000
    found = event_finding(removed(1, ClientIdentity(evil, evil, evil))).sentence

    assert found.isprintable()
    assert len(found) < 500
    entry = MemberRemoved(at_ms=1, group="g", member=A, why="left", reason=evil)
    assert event_finding(entry).entry["reason"] == evil


def test_zombie_finding_has_removal_time_of_member_and_number_of_rejected_commits():
    entries = [
        removed(1_000, A),
        fenced(5_000, A, "UNKNOWN_MEMBER_ID", "Heartbeat"),
        fenced(11_000, A, "UNKNOWN_MEMBER_ID"),
        fenced(12_000, B, "ILLEGAL_GENERATION"),
    ]

    zombie, behind = find_fenced(entries)

    assert (zombie.verdict, zombie.noted, zombie.commits, zombie.by_api) == (
        ("zombie", 2, 1, {"Heartbeat": 1, "OffsetCommit": 1})
    )
    assert (zombie.removed_at_ms, zombie.removed_why) == (1_000, "session_expired")
    assert zombie.sentence == (
        "reader-a/a-1 is no longer a member (session expired, 10.0 s before) but continued to send Heartbeat and "
        "OffsetCommit for 6.0 s; records since its last accepted commit are read again by other members"
    )
    assert (behind.verdict, behind.generation, behind.current) == ("behind", 3, 4)
    assert "while the group was at 4" in behind.sentence


def test_two_processes_with_one_instance_id_are_reported_with_both_hosts():
    other = ClientIdentity("s-2", "billing", "/10.0.0.9", "billing-3")
    entries = [
        StaticReplaced(at_ms=1, group="g", member=other, old_member_id="s-1"),
        fenced(2, STATIC, "FENCED_INSTANCE_ID", "Heartbeat"),
    ]

    (found,) = find_fenced(entries)

    assert found.verdict == "duplicate"
    assert [member.host for member in found.others] == ["/10.0.0.9"]
    assert "instance id billing-3, seen at /10.0.0.3 and /10.0.0.9" in found.sentence


@pytest.mark.parametrize(
    ("error", "verdict"),
    [("REBALANCE_IN_PROGRESS", "benign"), ("SOMETHING_NEW", "unknown"), ("STALE_MEMBER_EPOCH", "benign")],
)
def test_rejected_request_has_the_verdict_of_its_error(error, verdict):
    (found,) = find_fenced([fenced(1, A, error)])

    assert found.verdict == verdict
    assert found.sentence.isprintable()


@pytest.mark.heavy
def test_rejected_requests_of_ten_thousand_members_are_grouped_quickly():
    entries = []
    for n in range(10_000):
        member = ClientIdentity(f"m-{n}", "reader", "/10.0.0.1", f"i-{n}")
        entries += [
            removed(n, member),
            fenced(n + 1, member, "UNKNOWN_MEMBER_ID"),
            fenced(n + 2, member, "FENCED_INSTANCE_ID"),
        ]

    assert len(find_fenced(entries)) == 20_000


def assignments(lane):
    return [(s.from_ms, s.until_ms, s.partitions) for s in lane.assignments]


def test_timeline_of_classic_group_has_assignments_of_each_member():
    entries = [
        *generation(1_000, 1, [A], {"a-1": {"t": (0, 1)}}, member=A),
        *generation(2_000, 2, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=B),
        removed(3_000, B),
        *generation(3_000, 3, [A], {"a-1": {"t": (0, 1)}}, event="session_expired", member=B),
        fenced(4_000, B, "UNKNOWN_MEMBER_ID"),
    ]

    found = find_timeline(entries, group="g", from_ms=0, until_ms=10_000)

    assert [(c.generation, c.from_ms, c.until_ms, c.trigger.member_id) for c in found.columns] == [
        (1, 1_000, 2_000, "a-1"), (2, 2_000, 3_000, "b-1"), (3, 3_000, None, "b-1"),
    ]  # fmt: skip
    a, b = found.lanes
    assert assignments(a)[-3:] == [
        (1_020, 2_020, ("t-0", "t-1")),
        (2_020, 3_020, ("t-0",)),
        (3_020, None, ("t-0", "t-1")),
    ]
    assert assignments(b) == [(2_010, 2_020, ()), (2_020, 3_000, ("t-1",))]
    assert [(m.at_ms, m.kind) for m in b.marks] == [(3_000, "removed"), (4_000, "fenced")]


def test_timeline_begins_with_assignments_of_earlier_rebalances():
    entries = [
        *generation(1_000, 1, [A], {"a-1": {"t": (0, 1)}}, member=A),
        *generation(50_000, 2, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=B),
    ]

    found = find_timeline(entries, group="g", from_ms=40_000, until_ms=60_000)

    assert [(c.generation, c.from_ms) for c in found.columns] == [(1, 40_000), (2, 50_000)]
    assert assignments(found.lanes[0]) == [(40_000, 50_020, ("t-0", "t-1")), (50_020, None, ("t-0",))]


def test_static_member_keeps_its_timeline_row_after_a_restart():
    again = msgspec.structs.replace(STATIC, member_id="s-2")
    entries = [
        *generation(1_000, 1, [STATIC], {"s-1": {"t": (0,)}}, member=STATIC),
        StaticReplaced(at_ms=2_000, group="g", member=again, old_member_id="s-1"),
    ]

    (lane,) = find_timeline(entries, group="g", from_ms=0, until_ms=5_000).lanes

    assert lane.member.member_id == "s-2"
    assert assignments(lane)[-1] == (1_020, None, ("t-0",))


def vitals(last_seen_ms, **more):
    return Vitals(session_timeout_ms=10_000, rebalance_timeout_ms=30_000, last_seen_ms=last_seen_ms, **more)


def two_of_whom_one_goes(removal):
    return [
        *generation(1_000, 1, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=A),
        removal,
        *generation(removal.at_ms, 2, [A], {"a-1": {"t": (0, 1)}}, event="session_expired", member=B),
    ]


def lane_of_b(removal, from_ms=0):
    entries = two_of_whom_one_goes(removal)
    return find_timeline(entries, group="g", from_ms=from_ms, until_ms=100_000).lanes[1]


def test_silence_of_expired_member_in_timeline_begins_at_its_last_request():
    removal = MemberRemoved(
        at_ms=12_500, group="g", member=B, why="session_expired", vitals=vitals(2_500, connection_closed_at_ms=3_000)
    )

    lane = lane_of_b(removal)

    assert assignments(lane)[-1] == (1_020, 12_500, ("t-1",))
    (silence,) = lane.silences
    assert (silence.from_ms, silence.until_ms) == (2_500, 12_500)
    assert (
        silence.text
        == lane.marks[-1].text
        == ("expired: it sent no heartbeat for 10.0 s (session timeout 10 s); its connection had closed 9.5 s before")
    )
    assert [s.from_ms for s in lane_of_b(removal, from_ms=8_000).silences] == [8_000]


@pytest.mark.parametrize(
    ("fields", "kind", "how", "text"),
    [
        (
            {"why": "left", "reason": "the consumer is being closed"}, "left", "left",
            'left ("the consumer is being closed")',
        ),
        (
            {"why": "left", "reason": "consumer poll timeout has expired."}, "removed", "max_poll_exceeded",
            "left: it did not poll within max.poll.interval.ms (the client's reason)",
        ),
        (
            {"why": "left", "vitals": vitals(34_000, last_progress_ms=3_000, commits=3, lag=7)}, "removed",
            "max_poll_exceeded",
            "left: it probably did not poll within max.poll.interval.ms: 32.0 s without commit progress"
            " (its limit is 30 s between polls)",
        ),
        (
            {"why": "left", "reason": "spring cleaning", "by": ClientIdentity("", "admin", "/10.0.0.9")},
            "removed", "removed",
            'removed by admin at /10.0.0.9 ("spring cleaning")',
        ),
        (
            {"why": "join_timeout", "vitals": vitals(34_000)}, "removed", "join_timeout",
            "removed: it did not rejoin within 30 s",
        ),
        ({"why": "sync_timeout"}, "removed", "sync_timeout", "removed: it did not request its assignment in time"),
    ],
)  # fmt: skip
def test_removal_of_member_is_marked_in_the_timeline_with_the_reason(fields, kind, how, text):
    lane = lane_of_b(MemberRemoved(at_ms=35_000, group="g", member=B, **fields))

    assert [(m.kind, m.how, m.text) for m in lane.marks] == [(kind, how, text)]
    assert lane.silences == ()


def test_rebalance_finding_lists_departed_members_other_than_the_triggering_member():
    round_ = generation(2_000, 2, [A], {"a-1": {"t": (0, 1)}}, event="member_rejoined", member=A)
    leave = MemberRemoved(
        at_ms=2_005, group="g", member=B, why="left", reason="consumer poll timeout has expired.", vitals=vitals(2_004)
    )
    entries = [
        *generation(1_000, 1, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=A), round_[0], leave, *round_[1:]
    ]  # fmt: skip

    assert find_rebalances(entries)[1].departures == {"b-1": "max_poll_exceeded"}


def test_partitions_of_absent_static_member_have_a_silence_in_the_timeline():
    def reconciled(at_ms, epoch):
        return MemberReconciled(
            at_ms=at_ms, group="g", member=STATIC, epoch=epoch, from_epoch=0, target_epoch=epoch, state="stable",
            given=(GivenPartition("t", 0),),
        )  # fmt: skip

    cause = EpochCause(event="member_joined", member=STATIC)
    entries = [
        EpochRaised(at_ms=1, group="g", epoch=1, cause=cause, members=1), reconciled(2, 1),
        StaticAway(at_ms=50, group="g", member=STATIC),
    ]  # fmt: skip
    away = find_timeline(entries, group="g", from_ms=0, until_ms=100).lanes[0]
    back = find_timeline([*entries, reconciled(80, 1)], group="g", from_ms=0, until_ms=100).lanes[0]

    assert [(s.from_ms, s.until_ms) for s in away.silences] == [(50, None)]
    assert [mark.kind for mark in away.marks] == ["away"]
    assert [(s.from_ms, s.until_ms) for s in back.silences] == [(50, 80)]


def test_timeline_from_a_watcher_has_inferred_departures():
    def observed_generation(at_ms, number, members, signs=()):
        return GenerationSeen(
            at_ms=at_ms, group="g", observed=True, generation=number, protocol_type="consumer", protocol="range",
            leader="a-1",
            members=tuple(
                SeenMember(member=member, session_timeout_ms=10_000, rebalance_timeout_ms=300_000,
                           partitions={"t": (n,)})
                for n, member in enumerate(members)
            ),
            signs=signs,
        )  # fmt: skip

    signs_of_life = SignsOfLife(
        member_id="b-1", since_ms=1_000, last_commit_ms=9_000, last_progress_ms=9_000, session_timeout_ms=10_000,
        rebalance_timeout_ms=300_000,
    )  # fmt: skip
    entries = [observed_generation(1_000, 1, [A, B]), observed_generation(20_000, 2, [A], signs=(signs_of_life,))]

    lane = find_timeline(entries, group="g", from_ms=0, until_ms=30_000).lanes[1]

    (mark,) = lane.marks
    assert (mark.kind, mark.how) == ("removed", "session_expired")
    assert "was silent and probably expired" in mark.text
    assert mark.text.endswith("(inferred, medium confidence)")
    assert [(s.from_ms, s.until_ms) for s in lane.silences] == [(9_000, 20_000)]


def test_timeline_of_consumer_group_ends_with_its_deletion():
    def reconciled(at_ms, member, epoch, partitions=(), revoked=None, revoking=None):
        return MemberReconciled(
            at_ms=at_ms, group="g", member=member, epoch=epoch, from_epoch=0, target_epoch=epoch, state="stable",
            given=tuple(GivenPartition("t", n) for n in partitions), revoked=revoked or {}, revoking=revoking or {},
        )  # fmt: skip

    entries = [
        EpochRaised(at_ms=1, group="g", epoch=1, cause=EpochCause(event="member_joined", member=A), members=1),
        reconciled(2, A, 1, partitions=(0, 1)),
        EpochRaised(at_ms=10, group="g", epoch=2, cause=EpochCause(event="member_joined", member=B), members=2),
        reconciled(11, A, 1, revoking={"t": (1,)}),
        reconciled(12, A, 2, revoked={"t": (1,)}),
        reconciled(13, B, 2, partitions=(1,)),
        EpochRaised(at_ms=20, group="g", epoch=3, cause=EpochCause(event="session_expired", member=B), members=1),
        GroupDeleted(at_ms=30, group="g", why="deleted"),
    ]

    found = find_timeline(entries, group="g", from_ms=0, until_ms=100)

    a, b = found.lanes
    assert assignments(a)[-2:] == [(2, 12, ("t-0", "t-1")), (12, 30, ("t-0",))]
    assert assignments(b)[-1] == (13, 20, ("t-1",))
    assert [mark.kind for mark in b.marks] == ["removed"]


def test_member_without_changed_assignment_has_a_timeline_row():
    entries = generation(1_000, 1, [A, B], {"a-1": {"t": (0,)}, "b-1": {"t": (1,)}}, member=A)

    a, b = find_timeline(entries, group="g", from_ms=5_000, until_ms=9_000).lanes

    assert (assignments(a), assignments(b)) == ([(5_000, None, ("t-0",))], [(5_000, None, ("t-1",))])
    assert find_timeline(entries[:3], group="g", from_ms=0, until_ms=9_000).lanes[1].member.member_id == "b-1"


def test_timeline_of_empty_journal_is_empty():
    found = find_timeline([], group="g", from_ms=0, until_ms=1)

    assert (found.columns, found.lanes) == ((), ())


def test_accepted_commits_of_non_members_have_the_verdict_unfenced():
    moves = (OffsetMove("t", 0, 1, 9), OffsetMove("t", 1, 5))
    entries = [CommitUnfenced(at_ms=at, group="g", member=A, offsets=moves, backwards=1) for at in (1, 2)]

    (found,) = find_fenced(entries)

    assert (found.verdict, found.noted, found.commits) == ("unfenced", 2, 2)
    assert [(at.partition, at.offset, at.committed) for at in found.tried] == [(0, 1, 9), (1, 5, None)]
    assert "is no member and committed offsets of the group" in found.sentence
    assert found.sentence.endswith("2 offsets moved back: records are read again")
    assert event_finding(entries[0]).sentence == (
        "reader-a/a-1, which is no member, committed 2 offsets, 1 of them backwards"
    )


def test_journal_events_without_rebalances_are_findings():
    resumed = PartitionsResumed(at_ms=1, group="g", member=A, generation=4, partitions=(ResumedPartition("t", 0, 7),))
    altered = OptionsChanged(at_ms=1, group="g", options={"consumer.session.timeout.ms": (None, 9000)}, by=B)

    assert [event.sentence for event in find_events([resumed, altered])] == [
        "reader-a/a-1 began to fetch 1 assigned partition (generation 4)",
        "options of the group were changed: consumer.session.timeout.ms from the broker's value to 9000, "
        "by reader-b/b-1",
    ]


def test_rebalance_history_of_group_keeps_only_recent_removals():
    member, history = ClientIdentity("m", "app", "/h"), _History()
    for minute in range(500):
        _take(history, removed(minute * 60_000, member))
        _take(history, fenced(minute * 60_000, member, "UNKNOWN_MEMBER_ID"))
    assert len(history.removed) == len(history.fenced) == RECENT_MS // 60_000 + 1

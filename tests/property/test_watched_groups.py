"""A watcher of group records with any fault (lost, repeated, reordered, damaged): no exception, no proof, no cause
without a fact. With intact records its findings equal the coordinator's.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.journal import EpochRaised, JournalEntry, MemberReconciled, build_entry, parse_entry
from kohort.coordinator.records import (
    CurrentWritten,
    EpochWritten,
    GroupWritten,
    KeyValue,
    MemberWritten,
    OffsetCommitted,
    RegexResolved,
    TargetEpochWritten,
    TargetWritten,
    build_record,
)
from kohort.insight.findings.rebalances import find_rebalances
from kohort.insight.observed.watching import ChangedState, ObservedGroups, PersistedCommit, WatchLimits
from kohort.wire.messages import consumer_group_records as modern
from kohort.wire.messages.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from support.consumer_protocol import assignment, subscription
from support.machines.coordinator_stage import Topics
from support.machines.watched_stage import WatchedStage

groups = st.sampled_from(["g", "h", "\x1b[2J<b>"])
ids = st.sampled_from(["m1", "m2", "m3", ""])
instances = st.sampled_from([None, None, "i1", "i2"])
numbers = st.lists(st.integers(-1, 5), max_size=4)
epochs = st.integers(-2, 9)
topic_ids = st.sampled_from([bytes([i]) * 16 for i in range(3)])
blobs = st.one_of(st.binary(max_size=12), st.just(subscription("t", "u")), st.just(subscription("t", owned=[("t", 1)])))
assignment_blobs = st.one_of(st.binary(max_size=12), numbers.map(lambda of: assignment(*(("t", p) for p in of))))
times = st.sampled_from([-1, 0, 7, 50_000, 10**18])

members = st.builds(
    MemberMetadata,
    member_id=ids,
    group_instance_id=instances,
    client_id=st.sampled_from(["", "app", "\x00evil"]),
    client_host=st.sampled_from(["", "/h1", "/h2"]),
    rebalance_timeout=times.map(lambda ms: min(ms, 1 << 30)),
    session_timeout=times.map(lambda ms: min(ms, 1 << 30)),
    subscription=blobs,
    assignment=assignment_blobs,
)
generations = st.builds(
    GroupMetadataValue,
    protocol_type=st.sampled_from(["consumer", "consumer", "connect", ""]),
    generation=epochs,
    protocol=st.sampled_from([None, "range", "sticky"]),
    leader=st.one_of(st.none(), ids),
    current_state_timestamp=times,
    members=st.lists(members, max_size=4),
)
member_metadata = st.builds(
    modern.ConsumerGroupMemberMetadataValue,
    instance_id=instances,
    client_id=st.sampled_from(["", "app"]),
    client_host=st.just("/h1"),
    subscribed_topic_names=st.lists(st.sampled_from(["t", "u"]), max_size=2),
    subscribed_topic_regex=st.sampled_from([None, "", "t.*"]),
    rebalance_timeout_ms=st.sampled_from([-1, 0, 5_000]),
    server_assignor=st.sampled_from([None, "range"]),
)
topic_partitions = st.lists(
    st.builds(modern.CurrentTopicPartitions, topic_id=topic_ids, partitions=numbers), max_size=2
)
currents = st.builds(
    modern.ConsumerGroupCurrentMemberAssignmentValue,
    member_epoch=epochs,
    previous_member_epoch=epochs,
    state=st.sampled_from([0, 1, 2, 127, -1]),
    assigned_partitions=topic_partitions,
    partitions_pending_revocation=topic_partitions,
)
targets = st.builds(
    modern.ConsumerGroupTargetAssignmentMemberValue,
    topic_partitions=st.lists(
        st.builds(modern.TargetTopicPartition, topic_id=topic_ids, partitions=numbers), max_size=2
    ),
)


def maybe(values):
    return st.one_of(st.none(), values, values)


records = st.one_of(
    st.builds(GroupWritten, groups, maybe(generations)),
    st.builds(
        OffsetCommitted,
        groups,
        st.sampled_from(["t", "u"]),
        st.integers(-1, 5),
        maybe(st.builds(OffsetCommitValue, offset=st.integers(-1, 9), metadata=st.just(""), commit_timestamp=times)),
    ),
    st.builds(
        EpochWritten,
        groups,
        maybe(st.builds(modern.ConsumerGroupMetadataValue, epoch=epochs, metadata_hash=st.integers(0, 3))),
    ),
    st.builds(MemberWritten, groups, ids, maybe(member_metadata)),
    st.builds(
        TargetEpochWritten,
        groups,
        maybe(st.builds(modern.ConsumerGroupTargetAssignmentMetadataValue, assignment_epoch=epochs)),
    ),
    st.builds(TargetWritten, groups, ids, maybe(targets)),
    st.builds(CurrentWritten, groups, ids, maybe(currents)),
    st.builds(
        RegexResolved,
        groups,
        st.just("t.*"),
        maybe(
            st.builds(
                modern.ConsumerGroupRegularExpressionValue,
                topics=st.lists(st.sampled_from(["t", "u"]), max_size=2),
                version=st.just(1),
                timestamp=times,
            )
        ),
    ),
).map(build_record)


def damaged(record: KeyValue, cut: int) -> tuple[bytes | None, bytes | None]:
    """A record with its end missing, or its value, or its key."""
    key, value = record
    if cut == 1:
        return None, value
    if cut == 2:
        return key[: len(key) // 2], value
    if cut == 3 and value:
        return key, value[: len(value) // 2]
    return record


class Kept:
    """A store that applies a watcher's reported changes."""

    def __init__(self) -> None:
        self.groups: dict[str, bytes] = {}
        self.commits: dict[tuple[str, str, int], PersistedCommit] = {}

    def take(self, changed: ChangedState) -> None:
        for name, state in changed.groups.items():
            self.groups.pop(name, None)
            if state is not None:
                self.groups[name] = state
        for one in changed.commits:
            self.commits.pop(one[:3], None)
            if one.seen is not None:
                self.commits[one[:3]] = one


@settings(max_examples=200)
@given(
    st.lists(st.tuples(records, st.integers(0, 12), times, st.integers(0, 5)), max_size=40),
    st.sampled_from([WatchLimits(), WatchLimits(groups=1, commits=2)]),
)
def test_any_records_in_any_order_make_no_exception_and_no_proof(events, limits):
    watcher = ObservedGroups(limits)
    watcher.learn_topics({bytes(16): "t"})
    entries: list[JournalEntry] = []
    kept = Kept()
    for record, cut, at_ms, look in events:
        key, value = damaged(record, cut)
        entries += watcher.take(key, value, at_ms, leader_epoch=look, late_ms=None if look == 4 else look)
        if look == 1:
            watcher.take_states({"g": "PreparingRebalance", "h": "Stable", "nobody": "Dead"}, at_ms, at_ms + 5)
            watcher.take_members("g", "PreparingRebalance", ["m1"], at_ms)
        elif look == 2:
            entries += watcher.caught_up(at_ms)
        elif look == 3:
            again = ObservedGroups(limits)
            kept.take(watcher.take_changed())
            again.restore(kept.groups.values(), kept.commits.values())
            assert again.sizes == watcher.sizes
    assert watcher.sizes[0] <= limits.groups
    assert watcher.sizes[1] <= limits.commits

    assert [parse_entry(build_entry(entry)) for entry in entries] == entries
    assert all(entry.observed for entry in entries)
    found = find_rebalances(entries)
    assert all(one.confidence != "proof" and one.evidence and one.origin == "inferred" for one in found)
    assert find_rebalances(entries[1::2]) is not None


def epochs_and_members(entries: list[JournalEntry]) -> list[object]:
    """Return the epochs and members of a consumer group that coordinator and watcher both know."""
    return [
        (entry.epoch, entry.members)
        if isinstance(entry, EpochRaised)
        else (
            entry.member.member_id,
            (entry.from_epoch, entry.epoch, entry.state),
            (entry.revoking, entry.revoked, entry.awaited),
            [(row.topic, row.partition) for row in entry.given],
        )
        for entry in entries
        if isinstance(entry, EpochRaised | MemberReconciled)
    ]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=40))
def test_watcher_and_coordinator_report_the_same_member_events_of_consumer_groups(events):
    stage = WatchedStage(topics=Topics(t=5, u=2), offsets_topic_num_partitions=1)
    epoch_of: dict[str, int] = {}
    owned: dict[str, list[tuple[str, int]]] = {}
    for what, who, tells in events:
        member_id = f"m{who}"
        if what == 0:
            epoch_of[member_id], owned[member_id] = (
                stage.come(member_id, *(["t", "u"] if tells else ["t"])).member_epoch,
                [],
            )
        elif what == 1 and member_id in epoch_of:
            stage.beat(member_id, -1)
            del epoch_of[member_id]
        elif what == 2:
            stage.advance(46_000 if tells and who == 2 else 1_100)
        elif member_id in epoch_of:
            answer = stage.beat(member_id, epoch_of[member_id], owned[member_id] if tells else None)
            if answer.error_code:
                del epoch_of[member_id]
                continue
            epoch_of[member_id] = answer.member_epoch
            owned[member_id] = stage.assignment_in(answer) or owned[member_id]
    assert epochs_and_members(stage.observed) == epochs_and_members(stage.journal)
    stage.findings()

"""Each anomaly in a small history, and the same history without the fault."""

import pytest

from kohort_lab.history.anomalies import CHECKS
from support.histories import WrittenHistory

STORIES = {}


def story(check):
    def register(write_history):
        STORIES[write_history.__name__] = (check, write_history)
        return write_history

    return register


def three_are_sent(h):
    producer = h.client("p")
    for number in range(3):
        producer.sends(f"p:{number}", number)


@story("lost-record")
def acknowledged_record_is_passed_over(h, wrong):
    three_are_sent(h)
    reader = h.client("r")
    reader.reads((0, "p:0"))
    reader.reads((2, "p:2")) if wrong else reader.reads((1, "p:1"), (2, "p:2"))


@story("lost-record")
def what_one_reader_saw_another_does_not(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.reads((0, "a"), (1, "b"), (2, "c"))
    other.reads((0, "a"), (2, "c")) if wrong else other.reads((0, "a"), (1, "b"), (2, "c"))


@story("lost-record")
def the_end_of_the_log_lies_below_what_was_acknowledged(h, wrong):
    producer, asker = h.client("p"), h.client("a")
    producer.sends("p:0", 0)
    if not wrong:
        asker.add("ends", topic="t", partition=0, offset=1)
    producer.sends("p:1", 1)
    asker.add("ends", topic="t", partition=0, offset=1 if wrong else 2)


@story("lost-record")
def a_gap_of_what_was_not_deleted(h, wrong):
    producer, reader = h.client("p"), h.client("r")
    producer.sends("p:0", 0)
    producer.sends("p:1", 1)
    reader.add("cut", topic="t", partition=0, offset=0 if wrong else 1)
    reader.add("seek", topic="t", partition=0, offset=0)
    reader.reads((1, "p:1"))


@story("lost-record")
def committed_transaction_is_passed_over(h, wrong):
    producer, reader = h.client("p"), h.client("r", isolation="read_committed")
    producer.add("begin", txn="T")
    producer.sends("p:0", 0, txn="T")
    producer.ends("T", "commit" if wrong else "abort")
    reader.add("seek", topic="t", partition=0, offset=0)
    reader.reads(position=2)


@story("duplicate-record")
def idempotent_record_is_there_twice(h, wrong):
    producer, reader = h.client("p", idempotent=wrong), h.client("r")
    producer.sends("p:0", 0)
    reader.reads((0, "p:0"), (1, "p:0"))


@story("value-at-two-offsets")
def acknowledged_here_and_read_there(h, wrong):
    producer, reader = h.client("p", idempotent=True), h.client("r")
    producer.sends("p:0", 5 if wrong else 0)
    reader.reads((0, "p:0"))


@story("two-values-at-one-offset")
def readers_see_different_records(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.reads((0, "a"))
    other.reads((0, "b" if wrong else "a"))


@story("two-values-at-one-offset")
def two_records_are_acknowledged_at_one_offset(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.sends("one:0", 0)
    other.sends("other:0", 0 if wrong else 1)


@story("reordered-records")
def idempotent_records_lie_the_other_way_round(h, wrong):
    producer = h.client("p", idempotent=True)
    producer.sends("p:0", 1 if wrong else 0)
    producer.sends("p:1", 0 if wrong else 1)


@story("failed-but-written")
def what_failed_for_certain_is_there(h, wrong):
    producer, reader = h.client("p"), h.client("r")
    producer.sends("p:0", None, "fail" if wrong else "unknown")
    reader.reads((0, "p:0"))


@story("phantom-read")
def record_without_send(h, wrong):
    producer, reader = h.client("p"), h.client("r")
    reader.add("topic", topic="t", whole=wrong)
    producer.sends("p:0", 0)
    reader.reads((0, "p:0"), (1, "p:1"))


@story("non-monotonic-read")
def reader_goes_back(h, wrong):
    reader = h.client("r")
    reader.reads((0, "a"), (1, "b"))
    if not wrong:
        reader.add("seek", topic="t", partition=0, offset=0)
    reader.reads((0, "a"))


@story("non-monotonic-read")
def member_goes_back_without_a_new_assignment(h, wrong):
    member = h.client("m")
    member.has(1, 0)
    member.reads((0, "a"), (1, "b"))
    member.gives_up(partition=1 if wrong else 0)
    if not wrong:
        member.has(2, 0)
    member.reads((0, "a"))


@story("leader-epoch-went-back")
def later_record_of_an_earlier_leader(h, wrong):
    h.client("r").reads((0, "a", 2), (1, "b", 1 if wrong else 3))


@story("aborted-read")
def aborted_record_is_read(h, wrong):
    producer, reader = h.client("p"), h.client("r", isolation="read_committed" if wrong else "read_uncommitted")
    producer.add("begin", txn="T")
    producer.sends("p:0", 0, txn="T")
    producer.ends("T", "abort")
    reader.reads((0, "p:0"))


@story("aborted-read")
def never_ended_transaction_is_read(h, wrong):
    producer, reader = h.client("p"), h.client("r", isolation="read_committed")
    producer.add("begin", txn="T")
    producer.sends("p:0", 0, txn="T")
    if not wrong:
        producer.ends("T", "commit", "begun")  # killed before the response
    reader.reads((0, "p:0"))


@story("uncommitted-read")
def record_is_read_before_its_transaction_ends(h, wrong):
    producer, reader = h.client("p"), h.client("r", isolation="read_committed")
    producer.add("begin", txn="T")
    producer.sends("p:0", 0, txn="T")
    if wrong:
        reader.reads((0, "p:0"))
    producer.ends("T")
    if not wrong:
        reader.reads((0, "p:0"))


@story("partial-transaction")
def half_of_a_transaction_is_read(h, wrong):
    producer, reader = h.client("p"), h.client("r", isolation="read_committed")
    producer.add("begin", txn="T")
    producer.sends("p:0", 0, txn="T")
    producer.sends("p:1", 0, txn="T", partition=1)
    producer.ends("T", "commit", "unknown")
    reader.add("seek", topic="t", partition=1, offset=0)
    reader.reads((0, "p:0"))
    if wrong:
        reader.reads(partition=1, position=2)
    else:
        reader.reads((0, "p:1"), partition=1)


def copies(h, name, moves, of=()):
    copier = h.client(name)
    copier.add("begin", txn=name)
    for number, at in enumerate(of):
        copier.sends(f"{name}:{number}", None, topic="out", txn=name, of=[["t", 0, at]])
    offsets = [["t", partition, to, since] for partition, since, to in moves]
    copier.add("commit", group="g", offsets=offsets, result="ok", txn=name)
    copier.ends(name)


@story("write-cycle")
def offsets_of_two_transactions_contradict_each_other(h, wrong):
    copies(h, "T1", [(0, 0, 10), (1, 0, 30 if wrong else 20)])
    copies(h, "T2", [(0, 0 if wrong else 10, 20), (1, 0 if wrong else 20, 25)])


@story("information-cycle")
def two_transactions_read_each_other(h, wrong):
    for name, partition, other in (("T1", 0, 1), ("T2", 1, 0)):
        copier = h.client(name)
        copier.add("begin", txn=name)
        of = [["t", other, 0]] if wrong or name == "T2" else []
        copier.sends(f"{name}:0", 0, partition=partition, txn=name, of=of)
        copier.ends(name)


@story("lost-update")
def overwritten_since_it_began_to_read(h, wrong):
    copies(h, "T1", [(0, 0, 10)])
    copies(h, "T2", [(0, 10, 15)])
    copies(h, "T3", [(0, 10 if wrong else 15, 20)])


@story("anti-dependency-cycle")
def both_began_from_one_offset_and_committed_one(h, wrong):
    copies(h, "T1", [(0, 0, 10)])
    copies(h, "T2", [(0, 10, 20)])
    copies(h, "T3", [(0, 10 if wrong else 20, 20 if wrong else 30)])


@story("effect-twice")
def one_input_in_two_transactions(h, wrong):
    copies(h, "T1", [], of=[0, 1])
    copies(h, "T2", [], of=[1 if wrong else 2])


@story("effect-missing")
def committed_input_without_an_effect(h, wrong):
    reader = h.client("r")
    reader.add("group", group="g", effects="out")
    reader.reads((0, "a"), (1, "b"), (2, "c"))
    copies(h, "T1", [(0, 0, 3)], of=[0, 2] if wrong else [0, 1, 2])


@story("commit-went-back")
def member_commits_less_than_before(h, wrong):
    member = h.client("m")
    member.has(1, 0)
    member.reads((0, "a"), (1, "b"))
    member.commits(2)
    if not wrong:
        member.add("seek", topic="t", partition=0, offset=0)
        member.reads((0, "a"))
    member.commits(1)


@story("commit-beyond-read")
def member_commits_what_it_has_not_read(h, wrong):
    three_are_sent(h)
    member = h.client("m")
    member.has(1)
    member.reads((0, "p:0"))
    member.commits(3 if wrong else 1)


@story("commit-beyond-read")
def member_commits_more_than_its_position(h, wrong):
    member = h.client("m")
    member.has(1, 0)
    member.reads((0, "p:0"), position=2)  # a transaction marker is at offset 1
    member.commits(3 if wrong else 2)


@story("commit-went-back")
def commit_in_flight_during_seek_back(h, wrong):
    member = h.client("m")
    member.has(1, 0)
    member.reads((0, "a"), (1, "b"))
    if not wrong:
        member.add("seek", topic="t", partition=0, offset=0)
    member.commits(2)
    if not wrong:
        member.reads((0, "a"))
    member.commits(1)


@story("commit-beyond-read")
def commit_beyond_reads_before_seek_back(h, wrong):
    three_are_sent(h)
    member = h.client("m")
    member.has(1, 0)
    member.reads((0, "p:0"), (1, "p:1"))
    member.add("seek", topic="t", partition=0, offset=0)
    member.add("seek", topic="t", partition=0, offset=1)
    member.commits(3 if wrong else 2)


@story("commit-beyond-read")
def member_goes_back_before_its_first_record(h, wrong):
    three_are_sent(h)
    before, member = h.client("before"), h.client("m")
    before.has(1, 0)
    before.reads((0, "p:0"), (1, "p:1"))
    before.commits(2)
    before.gives_up()
    member.has(2)
    member.add("seek", topic="t", partition=0, offset=0)
    member.commits(3 if wrong else 2, generation=2)
    member.commits(3 if wrong else 2, generation=2)


@story("started-behind-commit")
def next_owner_begins_below_the_commit(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(1, 0)
    one.reads((0, "a"), (1, "b"))
    one.commits(2)
    one.gives_up()
    other.has(2, 1 if wrong else 2)


@story("started-behind-commit")
def only_the_first_record_tells_where_it_began(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(1)
    one.reads((0, "a"), (1, "b"))
    one.commits(2, result="ok" if wrong else "unknown")
    one.gives_up()
    other.has(2)
    other.reads((1, "b"))


@story("started-behind-commit")
def proved_commit_without_response_is_lost(h, wrong):
    """A start position proves a commit without response; later starts must not go back before it."""
    one, killed, other = h.client("one"), h.client("killed"), h.client("other")
    one.commits(2)
    killed.commits(5, result="begun", id=1)
    if wrong:
        other.add("committed", group="g", offsets=[["t", 0, 5]])
    other.add("committed", group="g", offsets=[["t", 0, 2]])
    if not wrong:  # the commit may take effect as late as this
        other.add("committed", group="g", offsets=[["t", 0, 5]])


@story("started-behind-commit")
def proved_commit_without_response_is_overwritten(h, wrong):
    one, killed, other = h.client("one"), h.client("killed"), h.client("other")
    one.commits(2)
    killed.commits(5, result="begun", id=1)
    other.add("committed", group="g", offsets=[["t", 0, 5]])
    other.commits(3, result="fail" if wrong else "begun", id=2)
    other.add("committed", group="g", offsets=[["t", 0, 3]])


@story("started-behind-commit")
def begun_commit_is_proven_by_a_first_record_only_where_records_were_passed_over(h, wrong):
    producer, one, killed, other = h.client("p"), h.client("one"), h.client("killed"), h.client("other")
    for number in range(6):
        if wrong or number not in (2, 3, 4):  # in other cases markers may be at the skipped offsets
            producer.sends(f"p:{number}", number)
    one.commits(2)
    killed.commits(5, result="begun", id=1)
    other.has(2)
    other.reads((5, "p:5"))
    other.gives_up()
    one.add("committed", group="g", offsets=[["t", 0, 2]])


@story("started-behind-commit")
def two_that_were_begun_with_one_offset_prove_that_one_took_effect_last(h, wrong):
    one, killed, other = h.client("one"), h.client("killed"), h.client("other")
    killed.commits(5, result="begun", id=1)
    one.commits(2)
    other.commits(5, result="begun", id=1)
    one.add("committed", group="g", offsets=[["t", 0, 5]])
    one.add("committed", group="g", offsets=[["t", 0, 2 if wrong else 5]])


@story("commit-beyond-read")
def commit_that_was_begun_lies_past_what_was_read(h, wrong):
    """A commit beyond the position is an anomaly even without response."""
    producer, one = h.client("p"), h.client("one")
    for number in range(4):
        producer.sends(f"p:{number}", number)
    one.has(1)
    one.reads((0, "p:0"))
    one.commits(3 if wrong else 1, result="begun", id=1)


@story("commit-beyond-read")
def commit_without_response_beyond_position(h, wrong):
    one = h.client("one")
    one.has(1)
    one.reads((0, "a"), position=1)
    one.commits(3, result="begun" if wrong else "fail", id=1)


@story("started-ahead-of-commit")
def next_owner_skips_records(h, wrong):
    producer, one, other = h.client("p"), h.client("one"), h.client("other")
    for number in range(4):
        producer.sends(f"p:{number}", number)
    one.has(1)
    one.reads((0, "p:0"))
    one.commits(1)
    one.gives_up()
    other.has(2)
    other.reads((3, "p:3")) if wrong else other.reads((1, "p:1"))


@story("started-ahead-of-commit")
def committed_offsets_are_those_of_an_aborted_transaction(h, wrong):
    copier, asker = h.client("c"), h.client("a")
    copier.commits(1)
    copier.add("begin", txn="T")
    copier.commits(5, txn="T")
    copier.ends("T", "abort" if wrong else "commit")
    asker.add("committed", group="g", offsets=[["t", 0, 5]])


@story("fenced-commit-acknowledged")
def commit_of_an_earlier_generation_is_taken(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(1, 0, partition=1)
    one.reads((0, "a"), partition=1)
    other.has(2)
    one.commits(1, partition=1, result="ok" if wrong else "fail")


@story("fenced-commit-acknowledged")
def commit_to_what_is_another_members_by_now(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.add("group", group="g", protocol="consumer")
    one.has(1, 0)
    one.reads((0, "a"))
    if wrong:
        one.gives_up("lost")
    other.has(2, 0, partition=0 if wrong else 1)
    one.commits(1, generation=1)


@story("two-owners")
def assigned_before_revocation(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(1, 0)
    if wrong:
        other.has(2, 0)
        one.gives_up()
    else:
        one.gives_up()
        other.has(2, 0)


@story("two-owners")
def one_generation_gives_a_partition_twice(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(1, 0)
    other.has(1, 0, partition=0 if wrong else 1)
    one.add("gone")
    other.add("gone")


@story("two-owners")
def a_place_is_taken_within_its_generation(h, wrong):
    """A static member that is started twice: the new process replaces the other at once (KIP-345)."""
    one, other = h.client("one", instance="i0"), h.client("other", instance="i1" if wrong else "i0")
    one.has(1, 0)
    other.has(1, 0)
    one.add("gone")
    other.add("gone")


@story("two-owners")
def revoked_after_silence_of_unknown_session_timeout(h, wrong):
    """The member may have been removed after a session timeout of unknown length, and rejoin first."""
    one, other = h.client("one"), h.client("other")
    one.has(1, 0, at=0, done=100)
    if wrong:
        for at in range(400_000, 5_000_000, 400_000):
            one.add("ends", topic="t", partition=0, offset=0, at=at, done=at + 100)
    other.has(2, 0, at=4_000_000, done=4_000_100)
    one.gives_up(at=5_000_000, done=5_000_100)


@story("two-owners")
def assigned_during_session(h, wrong):
    one, other = h.client("one", session_us=10_000_000), h.client("other")
    one.has(1, 0, at=0, done=100)
    one.commits(0, at=200, done=300)
    other.has(2, 0, at=5_000_000 if wrong else 11_000_000, done=11_000_100)
    one.gives_up("lost", at=12_000_000, done=12_000_100)


@story("two-owners")
def a_commit_in_a_transaction_renews_no_session(h, wrong):
    one, other = h.client("one", session_us=10_000_000), h.client("other")
    one.has(1, 0, at=0, done=100)
    one.add("begin", txn="T", at=150)
    one.commits(0, at=200, done=300)
    one.commits(0, at=6_000_000, done=6_000_100, **({} if wrong else {"txn": "T"}))
    other.has(2, 0, at=11_000_000, done=11_000_100)
    one.gives_up("lost", at=12_000_000, done=12_000_100)


@story("two-owners")
def who_takes_long_over_giving_up_may_have_been_put_out(h, wrong):
    one, other = h.client("one", session_us=5_000_000), h.client("other")
    one.has(1, 0, at=0, done=100)
    one.commits(0, at=1_000_000, done=1_000_100)
    other.has(2, 0, at=4_000_000 if wrong else 7_000_000, done=7_000_100)
    one.gives_up(at=1_500_000, done=9_000_000)


@story("two-owners")
def late_callback_of_earlier_generation(h, wrong):
    one, other = h.client("one"), h.client("other")
    one.has(3 if wrong else 5, 0, at=0, done=100)
    for at in range(400_000, 7_000_000, 400_000):
        one.add("ends", topic="t", partition=0, offset=0, at=at, done=at + 100)
    other.has(4, 0, at=6_000_000, done=6_000_100)
    other.gives_up("lost", at=6_500_000, done=6_500_100)
    one.gives_up(at=7_000_000, done=7_000_100)


@pytest.mark.parametrize(("check", "write_history"), STORIES.values(), ids=STORIES)
def test_each_faulty_history_is_found_by_its_check_alone(check, write_history, tmp_path):
    history = WrittenHistory()
    write_history(history, True)
    found = history.checked(tmp_path)
    assert list(found.counts) == [check]
    assert found.anomalies[0].evidence
    assert all(proof.line.startswith('{"op"') for proof in found.anomalies[0].evidence)


@pytest.mark.parametrize(("check", "write_history"), STORIES.values(), ids=STORIES)
def test_history_without_the_fault_has_no_anomalies(check, write_history, tmp_path):
    history = WrittenHistory()
    write_history(history, False)
    assert history.checked(tmp_path).anomalies == ()


def test_each_check_has_a_history():
    assert {check for check, _ in STORIES.values()} == set(CHECKS)

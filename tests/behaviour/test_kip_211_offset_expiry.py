"""KIP-211: offsets expire, by a time of their own or the broker's; a group goes with its last one."""

import time

import pytest

import kohort
from support.raw.broker_under_test import Crew
from support.waiting import eventually

SWEEP_MS = 200


@pytest.fixture(scope="module")
def forgetful(request):
    """A broker that looks for expired offsets all the time."""
    address = request.config.getoption("--broker", default=None)
    if address:
        crew = Crew(address)
        sweep_ms = crew.config("offsets.retention.check.interval.ms")
        crew.close()
        if sweep_ms > 3000:
            pytest.skip(f"the broker looks for expired offsets every {sweep_ms} ms only")
        yield address
        return
    with kohort.Broker({"offsets.retention.check.interval.ms": SWEEP_MS}) as broker:
        yield broker.bootstrap


@pytest.fixture
def short_crew(forgetful):
    crew = Crew(forgetful)
    yield crew
    crew.close()


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_commit_of_an_old_version_brings_its_own_retention(short_crew, version):
    group, topic = short_crew.group(), short_crew.topic()
    started = time.monotonic()
    assert short_crew.commit(group, topic, {0: 7}, version=version, retention_time_ms=1000) == [0]
    assert short_crew.commit(group, topic, {1: 8}, version=version) == [0]

    eventually(lambda: short_crew.committed(group, topic, [0, 1]) == [-1, 8], "the offset did not expire")

    assert time.monotonic() - started >= 0.9
    assert short_crew.state(group) == "Empty"


def test_a_group_of_offsets_alone_goes_with_its_last_one(short_crew):
    group, topic = short_crew.group(), short_crew.topic()
    short_crew.commit(group, topic, {0: 7}, version=2, retention_time_ms=1)

    eventually(lambda: short_crew.state(group) == "Dead", "the group did not go")

    assert group not in short_crew.listed()


def test_an_empty_group_without_offsets_goes_and_one_with_members_stays(short_crew):
    ann, ben = (short_crew.member(short_crew.group(name)) for name in ("a", "b"))
    short_crew.stable(ann)
    short_crew.stable(ben)

    ben.leave()

    eventually(lambda: short_crew.state(ben.group) == "Dead", "the group did not go")
    assert ann.heartbeat() == 0


def test_a_members_offsets_expire_at_their_own_time_even_in_a_stable_group(short_crew):
    group, topic = short_crew.group(), short_crew.topic()
    ann = short_crew.member(group, topic)
    short_crew.stable(ann)
    ann.commit(topic, {0: 1}, version=4, retention_time_ms=1, group_instance_id=None)

    eventually(lambda: short_crew.committed(group, topic, [0]) == [-1], "the offset did not expire")

    assert ann.heartbeat() == 0

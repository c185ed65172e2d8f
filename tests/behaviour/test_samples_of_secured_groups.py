from __future__ import annotations

import pytest

import kohort
from kohort import AclBinding, TopicPartition
from kohort.insight.findings.groups import find_group
from kohort.watch.sampling import SamplingLimits, sample_groups
from support.security.alice import AS_ALICE, ASKS_FOR_RIGHTS

pytestmark = pytest.mark.ours
LIMITS = SamplingLimits(append_ms=30_000)
VISIBLE, HIDDEN = TopicPartition("seen", 0), TopicPartition("hidden", 0)


@pytest.fixture
def alice():
    with kohort.Broker(ASKS_FOR_RIGHTS) as broker, kohort.Admin(bootstrap_servers=broker.bootstrap) as root:
        root.create_topics({"seen": 1, "hidden": 1})
        with kohort.Producer(bootstrap_servers=broker.bootstrap) as producer:
            for topic in ("seen", "hidden"):
                producer.send(topic, b"v", timestamp_ms=1000).result(60_000)
        for group in ("g", "h"):
            root.alter_group_offsets(group, {VISIBLE: 0, HIDDEN: 0})
        with kohort.Admin({"bootstrap.servers": broker.bootstrap_of("SASL"), **AS_ALICE}) as alice:
            yield alice, root


def test_sample_reports_unauthorized_groups_separately(alice):
    admin, root = alice
    root.create_acls([AclBinding("group", "g", "User:alice", "describe")])

    sample = sample_groups(admin, ["g", "h"], LIMITS)

    assert [s.group for s in sample.groups] == ["g"]
    assert str(sample.errors["h"]).startswith("GROUP_AUTHORIZATION_FAILED: ")
    assert find_group(sample.groups).lag is None


def test_describe_right_shows_lag_without_time(alice):
    admin, root = alice
    root.create_acls(
        [AclBinding("group", "g", "User:alice", "describe"), AclBinding("topic", "seen", "User:alice", "describe")]
    )

    (found,) = sample_groups(admin, ["g"], LIMITS).groups

    (part,) = found.partitions  # Kafka leaves offsets out whose topic must not be described
    assert (part.partition, part.committed, part.log_end, part.committed_record_at_ms) == (VISIBLE, 0, 1, None)
    finding = find_group([found])
    assert (finding.lag, finding.lag_ms, finding.lag_ms_complete) == (1, None, False)


def test_read_right_shows_lag_with_time(alice):
    admin, root = alice
    root.create_acls(
        [AclBinding("group", "g", "User:alice", "describe"), AclBinding("topic", "seen", "User:alice", "read")]
    )

    (found,) = sample_groups(admin, ["g"], LIMITS).groups

    assert [p.committed_record_at_ms for p in found.partitions] == [1000]

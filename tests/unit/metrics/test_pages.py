"""Metrics pages built from snapshots: contents, size limits, hostile names."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from itertools import pairwise

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_fd_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from kohort.config.broker import METRICS_OF
from kohort.errors import MissingExtra
from kohort.insight.snapshot import GroupSnapshot, MemberSnapshot, PartitionSnapshot
from kohort.metrics.catalogue import CATALOGUE, OTHER_EXPORTERS
from kohort.metrics.cluster import BrokerPlace, ClusterSnapshot, PartitionState, TopicState
from kohort.metrics.exposition import OPENMETRICS, PLAIN, WORK_NS, Pauses, page_format, render_page
from kohort.metrics.families import PageOptions, build_page
from kohort.metrics.group_families import SNAPSHOT_INTERVAL_MS, SNAPSHOTS_MOST, GroupViews, add_group
from kohort.metrics.page import LABEL_MOST, Page, bounded
from kohort.model import TopicPartition

NOW = 1_700_000_100_000
ALL = PageOptions(sets=OTHER_EXPORTERS)


def part(topic: str, number: int, committed: int | None, end: int | None = 100, **more: int) -> PartitionSnapshot:
    return PartitionSnapshot(
        partition=TopicPartition(topic, number), committed=committed, log_start=0, log_end=end, **more
    )


def a_group(name: str = "billing", **other: object) -> GroupSnapshot:
    """Build a group with two members. t-0 has a lag of 10 records and 5 s, t-1 has no commit, t-2 has no owner."""
    fields = {
        "members": (
            MemberSnapshot(
                member_id="c1-x",
                client_id="c1",
                host="/10.0.0.1",
                topics=("t",),
                assignment=(TopicPartition("t", 0), TopicPartition("t", 1)),
            ),
            MemberSnapshot(member_id="c2-y", client_id="c2", host="/10.0.0.2", topics=("t",)),
        ),
        "partitions": (part("t", 0, 90, committed_record_at_ms=NOW - 5_000), part("t", 1, None)),
        "partition_counts": {"t": 3},
        "assignor": "range",
        "coordinator_id": 1,
        "epoch": 7,
    }
    return GroupSnapshot(at_ms=NOW, group=name, state="Stable", protocol="classic", **fields | other)


def a_cluster(*groups: GroupSnapshot) -> ClusterSnapshot:
    parts = tuple(
        PartitionState(partition=p, leader=1, replicas=2, in_sync=2 - p % 2, first_replica=1, log_start=3, log_end=100)
        for p in range(3)
    )
    return ClusterSnapshot(
        at_ms=NOW,
        cluster_id="abc",
        brokers=(BrokerPlace(1, "h:9092"), BrokerPlace(2, "h:9093")),
        topics=(TopicState("t", parts),),
        groups=groups or (a_group(),),
    )


def page_of(cluster: ClusterSnapshot, options: PageOptions = ALL) -> Page:
    for made in build_page(cluster, list(GroupViews().update(cluster.groups)), options):
        page = made
    return page


def test_group_samples_have_names_and_values_of_kafka_exporter():
    page = page_of(a_cluster())

    assert page.value("kafka_consumergroup_lag", "billing", "t", 0) == 10
    assert page.value("kafka_consumergroup_lag", "billing", "t", 1) == -1, "partition without a commit"
    assert page.value("kafka_consumergroup_lag", "billing", "t", 2) == -1, (
        "partition without a commit and without an owner"
    )
    assert page.value("kafka_consumergroup_current_offset", "billing", "t", 0) == 90
    assert page.value("kafka_consumergroup_current_offset", "billing", "t", 2) == -1
    assert page.value("kafka_consumergroup_lag_sum", "billing", "t") == 10, "sum without partitions that have no commit"
    assert page.value("kafka_consumergroup_current_offset_sum", "billing", "t") == 88, (
        "sum with -1 for each partition without a commit"
    )
    assert page.value("kafka_consumergroup_members", "billing") == 2


def test_topic_without_commits_has_no_kafka_exporter_samples():
    page = page_of(a_cluster(a_group(partitions=(part("t", 0, None),))))

    assert page.value("kafka_consumergroup_lag", "billing", "t", 0) is None
    assert page.value("kafka_consumergroup_lag_sum", "billing", "t") is None


def test_topic_and_broker_samples_have_names_and_values_of_kafka_exporter():
    page = page_of(a_cluster())

    assert page.value("kafka_brokers") == 2
    assert page.value("kafka_broker_info", 2, "h:9093") == 1
    assert page.value("kafka_topic_partitions", "t") == 3
    assert page.value("kafka_topic_partition_current_offset", "t", 0) == 100
    assert page.value("kafka_topic_partition_oldest_offset", "t", 0) == 3
    assert page.value("kafka_topic_partition_leader", "t", 0) == 1
    assert page.value("kafka_topic_partition_replicas", "t", 0) == 2
    assert page.value("kafka_topic_partition_leader_is_preferred", "t", 0) == 1
    under = [page.value("kafka_topic_partition_under_replicated_partition", "t", p) for p in range(3)]
    assert under == [0, 1, 0]


def test_partition_without_leader_has_no_leader_sample():
    lost = TopicState("t", (PartitionState(partition=0, replicas=1, in_sync=1, first_replica=1),))
    page = page_of(ClusterSnapshot(at_ms=NOW, topics=(lost,)))

    assert page.value("kafka_topic_partition_leader", "t", 0) is None
    assert page.value("kafka_topic_partition_leader_is_preferred", "t", 0) == 0


def test_page_has_group_samples_of_the_kohort_metric_set():
    page = page_of(a_cluster())

    assert page.value("kohort_group_state", "billing", "Stable") == 1
    assert page.value("kohort_group_state", "billing", "Empty") == 0
    assert page.value("kohort_group_generation", "billing") == 7
    assert page.value("kohort_group_idle_members", "billing") == 1
    assert page.value("kohort_group_uncommitted_partitions", "billing") == 1
    assert page.value("kohort_group_unowned_partitions", "billing") == 1
    assert page.value("kohort_group_lag_seconds", "billing", "t", 0) == 5
    assert page.value("kohort_group_lag_seconds", "billing", "t", 1) is None, "an unknown lag has no sample"
    assert page.value("kohort_group_lead_records", "billing", "t", 0) == 90


def test_group_health_and_drain_time_have_samples_after_several_snapshots():
    views = GroupViews()
    for second in range(0, 60, 10):
        at_ms = NOW + second * 1000
        read_up = part("t", 0, 10 + 9 * second, 10 + 9 * second)
        stuck = part("t", 1, 50, 100 + second, committed_record_at_ms=NOW - 60_000)
        group = replace(a_group(partitions=(read_up, stuck)), at_ms=at_ms)
        (view,) = views.update([group])
    page = Page()
    add_group(page, view)

    assert page.value("kohort_group_health", "billing") == 5, "STALL: t-1 has no progress"
    assert page.value("kohort_group_stuck_members", "billing") == 0, "the member has progress in t-0"
    assert page.value("kohort_group_lag_drain_eta_seconds", "billing") is None, (
        "without progress in t-1 there is no estimate"
    )


def test_kept_snapshots_of_a_group_are_limited_and_deleted_with_the_group():
    views = GroupViews()
    for second in range(100):
        list(views.update([replace(a_group(name), at_ms=NOW + second * 1000) for name in ("a", "b")]))
    assert {name: len(looks) for name, looks in views._snapshots.items()} == {"a": SNAPSHOTS_MOST, "b": SNAPSHOTS_MOST}
    looks = views._snapshots["a"]
    assert all(later.at_ms - earlier.at_ms >= SNAPSHOT_INTERVAL_MS for earlier, later in pairwise(looks))

    list(views.update([a_group("a")]))
    assert views._snapshots.keys() == {"a"}


def test_deleted_topic_has_no_kafka_exporter_samples():
    page = page_of(a_cluster(a_group(partitions=(part("gone", 0, 7, None),))))

    assert page.value("kafka_consumergroup_current_offset", "billing", "gone", 0) is None
    assert page.value("kohort_group_lag_records", "billing", "gone", 0) is None


def test_committed_offset_beyond_log_end_has_no_lag_sample():
    page = page_of(a_cluster(a_group(partitions=(part("t", 0, 120),))))

    assert page.value("kohort_group_lag_records", "billing", "t", 0) is None
    assert page.value("kafka_consumergroup_lag", "billing", "t", 0) == -20, "kafka_exporter shows a negative lag, too"


def test_page_has_only_the_selected_metric_sets():
    page = page_of(a_cluster(), PageOptions(sets=("kafka_exporter",)))

    assert {spec.set for spec, _ in page.families()} == {"groups", "kafka_exporter"}


def test_partition_samples_are_limited_but_group_sums_include_all_partitions():
    many = tuple(part("t", number, 90) for number in range(50))
    topic = TopicState("t", tuple(PartitionState(partition=number) for number in range(50)))
    cluster = ClusterSnapshot(at_ms=NOW, topics=(topic,), groups=(a_group(partitions=many),))
    page = page_of(cluster, PageOptions(sets=OTHER_EXPORTERS, most_partitions=10))

    shown = {family.name: len(rows) for family, rows in page.families()}
    assert shown["kohort_group_lag_records"] == shown["kafka_consumergroup_lag"] == 10
    assert page.value("kohort_group_total_lag_records", "billing") == 500
    assert page.value("kafka_consumergroup_lag_sum", "billing", "t") == 500


def test_full_page_shows_the_number_of_dropped_samples():
    groups = [a_group(f"g{number:04}") for number in range(2_000)]

    page = page_of(a_cluster(*groups), PageOptions(sets=OTHER_EXPORTERS, most_series=5_000))

    assert len(page) == 5_000
    assert page.value("kohort_metrics_dropped_series") > 10_000
    assert page.value("kohort_metrics_snapshot_timestamp_seconds") == NOW / 1000


@pytest.mark.parametrize(
    "name",
    [
        'quo"te\\back\nline',
        "<script>alert(1)</script>",
        "\x00\x07\x1b[2J\r\x85\u2028\u202e",
        "\udcff half a pair",
        "x" * 60_000,
        "",
        'a"} 1\nkafka_brokers 99\n',
        "grüße 群",
    ],
)
@pytest.mark.parametrize("form", [PLAIN, OPENMETRICS])
def test_control_characters_and_quotes_in_names_stay_inside_their_label(name, form):
    text, _ = render_page(page_of(a_cluster(a_group(name))), form)

    parse = parse_text if form is PLAIN else lambda t: parse_openmetrics(StringIO(t, newline="\n"))
    found = {family.name: family.samples for family in parse(text.decode())}
    (members,) = found["kafka_consumergroup_members"]
    assert members.value == 2
    assert len(members.labels["consumergroup"]) <= LABEL_MOST
    assert [sample.value for sample in found["kafka_brokers"]] == [2]


def test_group_names_that_are_equal_after_escaping_share_one_series():
    long = ["x" * 1_000 + tail for tail in "ab"]
    page = page_of(a_cluster(*map(a_group, long), a_group("\udcff"), a_group("\\udcff")))

    (members,) = [rows for family, rows in page.families() if family.name == "kohort_group_members"]
    assert len(members) == 3, "two of the four names are equal after escaping"


def test_metrics_page_samples_are_in_the_catalogue():
    text, _ = render_page(page_of(a_cluster()), OPENMETRICS)

    for family in parse_openmetrics(StringIO(text.decode(), newline="\n")):
        catalogued = CATALOGUE.get(family.name) or CATALOGUE[f"{family.name}_total"]
        assert family.documentation == catalogued.help
        assert all(set(sample.labels) - {"le"} == set(catalogued.labels) for sample in family.samples)


def test_histogram_is_readable_by_prometheus_and_openmetrics_parsers():
    page = Page()
    page.add_histogram("kohort_broker_loop_lag_seconds", bounded([1, 2, 3], [0.5, 1.0]), 4.5)

    for form, parse in ((PLAIN, parse_text), (OPENMETRICS, lambda t: parse_openmetrics(StringIO(t)))):
        (family,) = parse(render_page(page, form)[0].decode())
        counted = {(s.name[len(family.name) :], s.labels.get("le", "")): s.value for s in family.samples}
        assert counted == {
            ("_bucket", "0.5"): 1,
            ("_bucket", "1.0"): 3,
            ("_bucket", "+Inf"): 6,
            ("_sum", ""): 4.5,
            ("_count", ""): 6,
        }


def test_page_format_follows_the_accept_header():
    accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"

    assert page_format(accept) == OPENMETRICS
    assert page_format("text/html") == page_format("") == PLAIN
    assert render_page(Page(), OPENMETRICS)[1].startswith("application/openmetrics-text; version=1.0.0")
    assert render_page(Page(), PLAIN)[1].startswith("text/plain")


def test_metrics_compat_option_accepts_the_metric_sets_of_the_catalogue():
    assert METRICS_OF == OTHER_EXPORTERS


def test_sample_of_metric_outside_the_catalogue_raises_assertion_error():
    with pytest.raises(AssertionError, match="kafka_brokrs is not in the catalogue"):
        Page().add("kafka_brokrs", 1)


def test_page_without_prometheus_client_raises_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "prometheus_client.exposition", None)

    with pytest.raises(MissingExtra, match=r"needs the package prometheus_client: pip install 'kohort\[metrics\]'"):
        render_page(Page())


def test_pauses_while_building_a_page_depend_on_work_time_not_on_number_of_pieces():
    now_ns, pauses = 0, []

    def work(pieces: int, each_ns: int) -> Iterator[None]:
        nonlocal now_ns
        for _ in range(pieces):
            now_ns += each_ns
            yield

    beside = Pauses(clock_ns=lambda: now_ns, sleep=pauses.append)
    list(beside.between(work(1_000, WORK_NS // 100)))
    assert len(pauses) == 10

    list(beside.between(work(10, 2 * WORK_NS)))
    assert len(pauses) == 20

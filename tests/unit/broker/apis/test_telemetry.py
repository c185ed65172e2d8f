"""GetTelemetrySubscriptions and PushTelemetry (KIP-714)."""

import pytest

from kohort.broker.io import Connected
from kohort.errors import ErrorCode, StorageError
from kohort.log.storage import MemoryStorage
from kohort.telemetry.report import TOPIC, MetricValue, parse_report
from kohort.wire.compression import Codec, compress
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kohort.wire.record_batch import read_batch, split_batches
from support.machines.broker_stage import BrokerStage, Peer
from support.telemetry.otlp_bytes import gauge, metrics_data

CLIENT_METRICS = 16
NO_ID, ANOTHER = bytes(16), bytes(range(16))
PUSH = metrics_data(gauge("poll.idle.ratio.avg", 0.25), group_id="g", group_member_id="m-1")
MINUTES_5 = 300_000
EARLY, UNKNOWN = ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.UNKNOWN_SUBSCRIPTION_ID


@pytest.fixture
def stage():
    """A broker without a default subscription, as in Kafka."""
    return BrokerStage(**{"kohort.client.metrics.default": ""})


def ask(peer, client_instance_id=NO_ID, client_id="tester"):
    return peer.ask(GetTelemetrySubscriptionsRequest(client_instance_id=client_instance_id), 0, client_id=client_id)


def push(peer, subscription, metrics=b"", **changed):
    request = PushTelemetryRequest(
        client_instance_id=subscription.client_instance_id,
        subscription_id=subscription.subscription_id,
        metrics=metrics,
    )
    for name, value in changed.items():
        setattr(request, name, value)
    return peer.ask(request, 0).error_code


def subscribe(peer, name="s", **options):
    configs = [
        AlterableConfig(name=option.replace("_", "."), config_operation=int(value is None), value=value)
        for option, value in options.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    (answer,) = peer.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer.error_code


class FullDisk(MemoryStorage):
    """A disk that cannot replace files while it is full."""

    is_full = False

    def replace(self, name, content, *, durable=True, private=False):
        if self.is_full:
            raise StorageError(f"cannot replace {name}: no space left")
        super().replace(name, content, durable=durable, private=private)


def reports(peer):
    data = bytes(peer.fetch(TOPIC).responses[0].partitions[0].records)
    return [parse_report(record.value) for at, _ in split_batches(data) for record in read_batch(data, at)]


class TestSubscriptions:
    def test_client_without_subscription_requests_one_again_after_five_minutes(self, peer):
        subscription = ask(peer)

        assert (subscription.error_code, subscription.requested_metrics, subscription.push_interval_ms) == (
            0,
            [],
            MINUTES_5,
        )
        assert subscription.accepted_compression_types == [Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY]
        assert subscription.telemetry_max_bytes == 1 << 20
        assert subscription.client_instance_id not in (NO_ID, bytes(15) + b"\1")

    def test_client_keeps_its_client_instance_id(self, peer):
        assert ask(peer, ANOTHER).client_instance_id == ANOTHER

    def test_default_subscription_applies_to_unmatched_clients(self):
        stage = BrokerStage(
            **{"kohort.client.metrics.default": "a.,b.", "kohort.client.metrics.default.interval.ms": 500}
        )
        peer = stage.connect()
        subscribe(peer, metrics="c.", match="client_id=other")

        mine, others = ask(peer), ask(peer, client_id="other")

        assert (mine.requested_metrics, mine.push_interval_ms) == (["a.", "b."], 500)
        assert (others.requested_metrics, others.push_interval_ms) == (["c."], MINUTES_5)

    def test_matching_subscriptions_are_merged_with_the_shortest_interval(self, peer):
        subscribe(peer, "one", metrics="a.,b.", interval_ms="60000")
        subscribe(peer, "two", metrics="b.,c.", interval_ms="1000")
        subscribe(peer, "three", metrics="d.", interval_ms="100", match="client_id=no.*")

        subscription = ask(peer)

        assert (subscription.requested_metrics, subscription.push_interval_ms) == (["a.", "b.", "c."], 1000)

    def test_subscription_of_all_metrics_replaces_the_metrics_of_other_subscriptions(self, peer):
        subscribe(peer, "one", metrics="*", interval_ms="3600000")
        subscribe(peer, "two", metrics="b.")

        subscription = ask(peer)

        assert (subscription.requested_metrics, subscription.push_interval_ms) == (["*"], MINUTES_5), (
            "as in Kafka, the interval is at most five minutes"
        )

    @pytest.mark.parametrize(
        ("match", "is_matched"),
        [
            ("client_id=test.*", True),
            ("client_id=test", False),
            ("client_software_name=franz,client_software_version=1\\.2\\..*", True),
            ("client_software_name=franz,client_software_version=2\\..*", False),
            ("client_source_address=127\\.0\\.0\\.1", True),
            ("client_source_address=10\\..*", False),
            ("client_source_port=.*", False),  # the test's connection has no known port
            ("client_instance_id=AAECAwQFBgcICQoLDA0ODw", True),
            ("client_id=(a|aa)*b", False),
        ],
    )
    def test_match_pattern_of_a_subscription_must_match_the_whole_value(self, peer, match, is_matched):
        software = ApiVersionsRequest(client_software_name="franz", client_software_version="1.2.3")
        peer.ask(software, 3)
        subscribe(peer, metrics="a.", match=match)

        assert bool(ask(peer, ANOTHER).requested_metrics) is is_matched

    def test_match_pattern_of_a_subscription_can_match_the_source_port(self, stage, peer):
        stage.give(Connected(99, "127.0.0.1", port=5001))
        stage.peers[99] = other = Peer(stage, 99)
        subscribe(peer, metrics="a.", match="client_source_port=500[0-9]")

        assert ask(other).requested_metrics == ["a."]
        assert ask(peer).requested_metrics == []

    def test_early_subscription_request_is_throttled(self, stage, peer):
        subscription = ask(peer)

        assert ask(peer, subscription.client_instance_id).error_code == EARLY
        stage.advance(MINUTES_5)
        assert ask(peer, subscription.client_instance_id).subscription_id == subscription.subscription_id

    def test_subscription_request_after_a_changed_subscription_is_not_throttled(self, peer):
        subscription = ask(peer)
        subscribe(peer, metrics="a.")

        changed = ask(peer, subscription.client_instance_id)

        assert changed.requested_metrics == ["a."]
        assert changed.subscription_id != subscription.subscription_id


class TestAcceptedPushes:
    def test_pushes_are_accepted_once_per_interval(self, stage, peer):
        subscribe(peer, metrics="*", interval_ms="1000")
        subscription = ask(peer)

        assert push(peer, subscription, PUSH) == 0
        assert push(peer, subscription, PUSH) == EARLY
        stage.advance(999)
        assert push(peer, subscription, PUSH) == EARLY
        stage.advance(1)
        assert push(peer, subscription, PUSH) == 0

    def test_terminating_push_is_accepted_early_and_only_once(self, peer):
        subscription = ask(peer)
        push(peer, subscription)

        assert push(peer, subscription, PUSH, terminating=True) == 0
        assert push(peer, subscription, PUSH) == ErrorCode.INVALID_REQUEST

    def test_push_with_an_unknown_instance_id_and_current_subscription_is_accepted(self, stage, peer):
        subscription = ask(peer)
        peer.leave()
        back = stage.connect()

        assert push(back, subscription, PUSH) == 0

    @pytest.mark.parametrize("codec", Codec)
    def test_push_is_accepted_in_each_codec(self, peer, codec):
        assert push(peer, ask(peer), compress(codec, PUSH), compression_type=codec) == 0
        assert len(reports(peer)) == 1

    def test_several_clients_push_on_one_connection(self, peer):
        subscriptions = [ask(peer) for _ in range(3)]

        assert [push(peer, one, PUSH) for one in subscriptions] == [0, 0, 0]


class TestRejectedPushes:
    @pytest.mark.parametrize("reserved", [NO_ID, bytes(15) + b"\1"])
    def test_push_with_a_reserved_instance_id_is_rejected(self, peer, reserved):
        assert push(peer, ask(peer), PUSH, client_instance_id=reserved) == ErrorCode.INVALID_REQUEST

    def test_push_with_another_subscription_id_is_rejected(self, peer):
        subscription = ask(peer)

        assert push(peer, subscription, PUSH, subscription_id=subscription.subscription_id ^ 1) == UNKNOWN
        assert ask(peer, subscription.client_instance_id).error_code == 0

    def test_push_by_an_outdated_metrics_subscription_is_rejected(self, peer):
        subscription = ask(peer)
        subscribe(peer, metrics="a.")

        assert push(peer, subscription, PUSH) == UNKNOWN

    def test_push_with_an_unknown_codec_is_rejected(self, peer):
        subscription = ask(peer)

        assert push(peer, subscription, PUSH, compression_type=9) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert ask(peer, subscription.client_instance_id).error_code == 0

    def test_push_above_telemetry_max_bytes_is_rejected(self):
        stage = BrokerStage(**{"telemetry.max.bytes": 1000})
        peer = stage.connect()
        subscription = ask(peer)

        assert subscription.telemetry_max_bytes == 1000
        assert push(peer, subscription, bytes(1001)) == ErrorCode.TELEMETRY_TOO_LARGE

    @pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
    def test_push_that_decompresses_above_the_limit_is_rejected(self, peer, codec):
        data = compress(codec, bytes(1 << 24))
        assert len(data) < 1 << 20

        assert push(peer, ask(peer), data, compression_type=codec) == ErrorCode.INVALID_RECORD

    @pytest.mark.parametrize("codec", Codec)
    def test_malformed_push_is_rejected(self, peer, codec):
        assert push(peer, ask(peer), b"\xffrubbish", compression_type=codec) == ErrorCode.INVALID_RECORD
        assert (
            push(peer, ask(peer), compress(codec, b"\xffrubbish"), compression_type=codec) == ErrorCode.INVALID_RECORD
        )


class TestStoredReports:
    def test_client_metrics_topic_has_the_last_report_of_a_client(self, stage, peer):
        peer.ask(ApiVersionsRequest(client_software_name="franz", client_software_version="1.2.3"), 3)
        subscription = ask(peer)
        push(peer, subscription, PUSH)

        (report,) = reports(peer)

        assert (report.client_id, report.host, report.software_name, report.software_version) == (
            *("tester", "/127.0.0.1"),
            *("franz", "1.2.3"),
        )
        assert (report.group, report.member_id, report.at_ms) == ("g", "m-1", stage.now_ms)
        assert report.values == (MetricValue("poll.idle.ratio.avg", 0.25),)
        assert report.value("poll.idle.ratio.avg") == 0.25
        assert report.value("another") is None

    def test_client_reports_in_memory_are_removed_with_their_connection(self, stage, peer):
        instances = stage.broker.state.client_metrics.instances
        push(peer, ask(peer), PUSH)

        assert [report.group for report in instances.reports(stage.now_ms)] == ["g"]
        peer.leave()
        assert list(instances.reports(stage.now_ms)) == []
        assert len(instances) == 0

    def test_client_instance_expires_after_three_intervals_without_push(self, stage, peer):
        subscribe(peer, metrics="*", interval_ms="60000")
        instances = stage.broker.state.client_metrics.instances
        push(peer, ask(peer), PUSH)
        stage.advance(3 * 60_000 - 1)
        assert len(list(instances.reports(stage.now_ms))) == 1
        stage.advance(1)
        assert list(instances.reports(stage.now_ms)) == []

        ask(peer)

        assert len(instances) == 1, "only the new client instance remains"

    def test_number_of_client_instances_is_limited(self):
        stage = BrokerStage(**{"kohort.client.metrics.max.instances": 3})
        peer = stage.connect()

        for _ in range(10):
            push(peer, ask(peer), PUSH)

        instances = stage.broker.state.client_metrics.instances
        assert len(instances) == 3
        assert len(list(instances.reports(stage.now_ms))) == 3

    def test_number_of_stored_metric_values_is_limited(self):
        stage = BrokerStage(**{"kohort.client.metrics.max.values": 5})
        peer = stage.connect()
        two = metrics_data(gauge("a", 1), gauge("b", 2))

        subscriptions = [ask(peer) for _ in range(4)]
        for one in subscriptions:
            push(peer, one, two)

        client_reports = list(stage.broker.state.client_metrics.instances.reports(stage.now_ms))
        assert sum(len(one.values) for one in client_reports) == 4, "the reports of the last two clients remain"

    def test_push_without_metrics_is_not_stored(self, stage, peer):
        assert push(peer, ask(peer)) == 0
        assert stage.broker.state.topics.get(TOPIC) is None

    def test_metrics_subscriptions_survive_a_restart(self, stage, peer):
        subscribe(peer, metrics="a.", match="client_id=test.*")
        stage.restart()

        assert ask(stage.connect()).requested_metrics == ["a."]

    def test_changed_subscriptions_are_rejected_and_pushes_accepted_if_the_disk_is_full(self):
        disk = FullDisk()
        stage = BrokerStage(disk, **{"kohort.client.metrics.default": ""})
        peer = stage.connect()
        disk.is_full = True

        assert push(peer, ask(peer), PUSH) == 0
        assert "the metrics that a client pushed are not stored" in "".join(stage.log_lines())
        assert subscribe(peer, metrics="a.") == ErrorCode.KAFKA_STORAGE_ERROR
        assert ask(peer).requested_metrics == []

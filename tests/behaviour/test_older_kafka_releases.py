from __future__ import annotations

import pytest

from kohort import Admin, Broker, ConfigError, Consumer, Producer, TopicPartition, UnsupportedVersion
from kohort.config.kafka_releases import RELEASES, highest_version
from kohort.testing import StagedBroker
from kohort.wire.apis import APIS
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.fetch import FetchRequest
from support.raw.raw_client import RawClient

KEYS = {api.name: key for key, api in APIS.items()}
SOFTWARE = {"client_software_name": "a", "client_software_version": "1"}


def read(consumer, count):
    found = []
    for _ in range(600):
        found += consumer.poll(timeout_ms=100)
        if len(found) >= count:
            break
    return sorted(record.value for record in found)


@pytest.mark.parametrize("release", ["2.1", "2.8", "3.9", "4.0"])
def test_clients_work_with_an_older_release_and_send_only_its_apis(release):
    with StagedBroker(as_version=release, group_initial_rebalance_delay_ms=0) as broker:
        address = {"bootstrap_servers": broker.bootstrap}
        with Admin(**address) as admin, Producer(**address) as producer:
            admin.create_topics({"t": 2})
            producer.send("t", b"one", partition=0).result(30_000)
            with Producer(**address, transactional_id="x", compression_type="gzip") as writer:
                writer.init_transactions()
                writer.begin_transaction()
                writer.send("t", b"two", partition=1)
                writer.commit_transaction()
            reads = {"group_id": "g", "auto_offset_reset": "earliest", "isolation_level": "read_committed"}
            with Consumer(**address, **reads) as consumer:
                consumer.subscribe(["t"])
                assert read(consumer, 2) == [b"one", b"two"]
                consumer.commit()
            assert admin.list_group_offsets("g")[TopicPartition("t", 0)].offset == 1
            assert [group.group_id for group in admin.list_groups()] == ["g"]
        requested = {(request.api, request.version) for request in broker.requests()}
    assert {api for api, _ in requested} >= {
        "Produce",
        "Fetch",
        "JoinGroup",
        "OffsetCommit",
        "InitProducerId",
        "EndTxn",
    }
    for api, version in requested:
        highest = highest_version(KEYS[api], release)
        assert highest is not None, api
        assert version <= highest, api
    ours = max(version for api, version in requested if api == "Produce")
    assert ours == min(highest_version(KEYS["Produce"], release), 11 if release < "4.0" else 13)


def versions_of(bootstrap, version):
    with RawClient(bootstrap) as raw:
        answer = raw.ask(ApiVersionsRequest(**(SOFTWARE if version >= 3 else {})), version)
    return answer, {r.api_key: (r.min_version, r.max_version) for r in answer.api_keys}


@pytest.mark.parametrize("release", RELEASES)
def test_older_release_offers_its_apis_only(release):
    with Broker(as_version=release) as broker:
        _, shown = versions_of(broker.bootstrap, min(3, highest_version(18, release)))
    with Broker() as broker:
        _, newest = versions_of(broker.bootstrap, 5)
    lows = {key: api.low for key, api in APIS.items()}
    had = {key: highest_version(key, release) for key in newest}
    assert shown == {
        key: (low, min(high, had[key]))
        for key, (low, high) in newest.items()
        if had[key] is not None and had[key] >= lows[key]
    }
    if release == "4.4":
        assert shown == newest


def test_features_match_the_release():
    features = {}
    for release in ("2.8", "3.9", "4.0", "4.4"):
        with Broker(as_version=release) as broker:
            answer, _ = versions_of(broker.bootstrap, min(4, highest_version(18, release)))
        names = ("metadata.version", "transaction.version")
        levels = {f.name: f.max_version_level for f in answer.finalized_features if f.name in names}
        features[release] = (levels, answer.finalized_features_epoch)
    assert features == {
        "2.8": ({}, -1),
        "3.9": ({"metadata.version": 21}, 0),
        "4.0": ({"metadata.version": 25, "transaction.version": 2}, 0),
        "4.4": ({"metadata.version": 33, "transaction.version": 2}, 0),
    }


def test_newer_request_version_closes_the_connection():
    with Broker(as_version="2.8") as broker:
        with RawClient(broker.bootstrap) as raw:
            raw.send(FetchRequest(), 13)
            with pytest.raises((EOFError, ConnectionError)):
                raw.take()
        with RawClient(broker.bootstrap) as raw:
            assert raw.ask(FetchRequest(max_bytes=1, session_epoch=-1), 12).error_code == 0


@pytest.mark.parametrize(("release", "named"), [("2.3", []), ("2.4", [(18, 0, 3)]), ("3.9", [(18, 0, 4)])])
def test_newer_api_versions_request_is_answered_as_in_the_release(release, named):
    with Broker(as_version=release) as broker, RawClient(broker.bootstrap) as raw:
        raw.send(ApiVersionsRequest(**SOFTWARE), 5)
        raw._requests[0] = (*raw._requests[0][:-1], 0)  # the response has the format of version 0
        answer = raw.take()
    assert answer.error_code == 35
    assert [(r.api_key, r.min_version, r.max_version) for r in answer.api_keys] == named


def test_admin_call_missing_in_the_release_raises_unsupported_version():
    with (
        Broker(as_version="2.5") as broker,
        Admin(bootstrap_servers=broker.bootstrap) as admin,
        pytest.raises(UnsupportedVersion, match="does not serve DescribeClientQuotas"),
    ):
        admin.describe_client_quotas()


def test_unknown_release_error_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"kohort\.as\.version='5\.0': expected one of 2\.1, 2\.2, .*, 4\.4$"):
        Broker(as_version="5.0")


@pytest.mark.kafka_broker(as_version="3.9")
def test_marker_selects_the_release(kafka_broker):
    _, shown = versions_of(kafka_broker.bootstrap, 4)
    assert shown[0] == (0, 11)

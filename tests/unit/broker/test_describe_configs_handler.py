"""DescribeConfigs: values, origins, synonyms, types, documentation."""

from broker_house import House

from kohort.errors import ErrorCode
from kohort.wire.messages.configs import DescribeConfigsRequest, DescribeConfigsResource

TOPIC, BROKER = 2, 4


def describe(peer, kind: int, name: str, keys=None, version: int = 4, **options):
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return peer.ask(DescribeConfigsRequest(resources=[resource], **options), version).results[0]


def test_a_topics_own_value_comes_before_the_brokers_and_before_the_default():
    peer = House(**{"log.retention.ms": 5000}).connect()
    peer.create("a", retention_ms="1000")

    (told,) = describe(peer, TOPIC, "a", ["retention.ms"], include_synonyms=True).configs

    assert (told.value, told.config_source, told.config_type, told.read_only) == ("1000", 1, 5, False)
    assert [(s.name, s.value, s.source) for s in told.synonyms] == [
        ("retention.ms", "1000", 1),
        ("log.retention.ms", "5000", 4),
        ("log.retention.ms", "604800000", 5),
    ]


def test_documentation_is_given_when_asked_for(peer):
    peer.create("a")

    (with_doc,) = describe(peer, TOPIC, "a", ["cleanup.policy"], include_documentation=True).configs
    (without,) = describe(peer, TOPIC, "a", ["cleanup.policy"]).configs

    assert with_doc.documentation == "What happens to old segments."
    assert (without.documentation, without.synonyms, without.config_type) == (None, [], 7)


def test_the_broker_tells_every_option_of_its_table(peer):
    told = {c.name: c for c in describe(peer, BROKER, "1").configs}

    assert told["group.initial.rebalance.delay.ms"].value == "0"
    assert told["group.initial.rebalance.delay.ms"].config_source == 4
    assert (told["auto.create.topics.enable"].value, told["auto.create.topics.enable"].config_type) == ("true", 1)
    assert told["cluster.id"].value is None
    assert all(c.read_only for c in told.values())


def test_every_version_is_answered(peer):
    peer.create("a")

    assert {len(describe(peer, TOPIC, "a", version=v).configs) for v in range(1, 5)} == {19}


def test_to_ask_for_no_option_is_to_ask_for_all(peer):
    peer.create("a")

    assert describe(peer, TOPIC, "a", []) == describe(peer, TOPIC, "a")


def test_what_does_not_exist_is_refused(peer):
    assert describe(peer, TOPIC, "no/name").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(peer, TOPIC, "zzz").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(peer, BROKER, "9").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, 99, "a").error_code == ErrorCode.INVALID_REQUEST
    assert describe(peer, BROKER, "").configs == []

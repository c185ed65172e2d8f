"""Features of a broker, described and updated by kafka-python."""

import pytest
from kafka import KafkaAdminClient
from kafka.errors import FeatureUpdateFailedError, InvalidUpdateVersionError

import kohort

pytestmark = pytest.mark.interop


@pytest.fixture
def admin():
    with kohort.Broker() as broker:
        client = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        yield client
        client.close()


def test_kafka_python_updates_features_to_their_finalized_levels(admin):
    levels = {"metadata.version": 33, "group.version": 1, "transaction.version": 2}

    assert admin.update_features(levels) == dict.fromkeys(levels, "OK")
    assert admin.update_features(levels, validate_only=True) == dict.fromkeys(levels, "OK")


def test_kafka_python_raises_the_errors_of_refused_updates(admin):
    with pytest.raises(InvalidUpdateVersionError):
        admin.update_features({"metadata.version": 99})
    with pytest.raises(FeatureUpdateFailedError):
        admin.update_features({"group.version": ("SAFE_DOWNGRADE", 0)})

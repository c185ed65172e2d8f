"""UpdateFeatures: the features keep their highest level."""

import pytest

from kohort.errors import ErrorCode
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.features import FeatureUpdateKey, UpdateFeaturesRequest
from support.machines.broker_stage import BrokerStage

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "


def update(peer, *updates: FeatureUpdateKey, version: int = 2, validate_only: bool = False):
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    return peer.ask(request, version)


def feature(name: str, level: int, upgrade_type: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)


@pytest.mark.parametrize("validate_only", [False, True])
def test_feature_update_to_the_finalized_level_succeeds(peer, validate_only):
    answer = update(peer, feature("transaction.version", 2), feature("group.version", 1), validate_only=validate_only)

    assert (answer.error_code, answer.error_message, answer.results) == (ErrorCode.NONE, None, [])


@pytest.mark.parametrize("version", [0, 1])
def test_response_of_older_update_features_versions_has_a_result_for_each_feature(peer, version):
    answer = update(peer, feature("transaction.version", 2), feature("group.version", 1), version=version)

    assert answer.error_code == ErrorCode.NONE
    assert [(r.feature, r.error_code) for r in answer.results] == [("transaction.version", 0), ("group.version", 0)]


@pytest.mark.parametrize(
    ("feature_update", "reason"),
    [
        (feature("group.version", 2), "The broker only supports versions 0 to 1."),
        (feature("metadata.version", 6), "The broker only supports versions 7 to 33."),
        (feature("group.version", -1), "A feature version cannot be less than 0."),
        (feature("group.version", 1, 7), "The upgrade type is unknown: expected 1 (upgrade), 2 or 3 (safe or unsafe"),
        (feature("group.version", 0), "Can't downgrade the version of this feature without setting the upgrade type"),
        (feature("no.such.feature", 1), "The broker does not support this feature, only metadata.version, "),
    ],
)
def test_invalid_feature_level_is_rejected_with_the_message_of_kafka(peer, feature_update, reason):
    answer = update(peer, feature_update)

    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    prefix = f"{FAILED}Invalid update version {feature_update.max_version_level} for feature {feature_update.feature}. "
    assert answer.error_message.startswith(prefix + reason)


@pytest.mark.parametrize("upgrade_type", [SAFE_DOWNGRADE, UNSAFE_DOWNGRADE])
def test_feature_downgrade_fails_and_the_feature_keeps_its_level(peer, upgrade_type):
    answer = update(peer, feature("transaction.version", 1, upgrade_type))

    assert answer.error_code == ErrorCode.FEATURE_UPDATE_FAILED
    assert answer.error_message == (
        f"{FAILED}Feature transaction.version stays at version 2: kohort cannot downgrade a feature."
    )
    software = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    finalized = {f.name: f.max_version_level for f in peer.ask(software, 4).finalized_features}
    assert finalized["transaction.version"] == 2


def test_update_features_version_0_allows_a_downgrade_by_its_flag(peer):
    refused = update(peer, FeatureUpdateKey(feature="group.version", max_version_level=0), version=0)
    failed = update(
        peer, FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True), version=0
    )

    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert failed.error_code == ErrorCode.FEATURE_UPDATE_FAILED


def test_invalid_feature_update_rejects_all_updates(peer):
    answer = update(peer, feature("group.version", 1), feature("metadata.version", 99), version=1)

    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])


def test_broker_that_acts_as_an_older_kafka_release_has_the_features_of_that_release():
    peer = BrokerStage(as_version="3.9").connect()

    assert update(peer, feature("metadata.version", 21), version=1).error_code == ErrorCode.NONE
    answer = update(peer, feature("group.version", 1), version=1)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.error_message.endswith("does not support this feature, only metadata.version.")

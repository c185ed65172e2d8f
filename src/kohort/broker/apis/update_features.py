"""UpdateFeatures (57), versions 0-2. KIP-584, KIP-778 (upgrade types), KIP-1022.

As in Kafka, one failing feature update fails the whole request. Deviation: each feature is finalized at its highest
level. An update to that level succeeds without effect; a valid downgrade is rejected with FEATURE_UPDATE_FAILED.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import guard_cluster
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import Operation
from kohort.steps import Pace
from kohort.wire.messages import features as wire

FIRST_VERSION_WITH_TYPES: Final = 1
FIRST_VERSION_WITHOUT_RESULTS: Final = 2
UPDATE_US: Final = 1.5


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.UpdateFeaturesRequest = request.message
    updated: dict[str, wire.UpdatableFeatureResult] = {}
    pace = Pace()
    for update in message.feature_updates:
        _check(state, update, _upgrade_type(update, request.version))
        updated[update.feature] = wire.UpdatableFeatureResult(feature=update.feature)
        if pace.is_due(UPDATE_US):
            yield
    has_results = request.version < FIRST_VERSION_WITHOUT_RESULTS
    return wire.UpdateFeaturesResponse(results=list(updated.values()) if has_results else [])


def _upgrade_type(update: wire.FeatureUpdateKey, version: int) -> UpgradeType:
    if version < FIRST_VERSION_WITH_TYPES:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType(update.upgrade_type) if update.upgrade_type in list(UpgradeType) else UpgradeType.UNKNOWN


def _check(state: BrokerState, update: wire.FeatureUpdateKey, upgrade_type: UpgradeType) -> None:
    """Raise ApiError if an update would change a feature's finalized level; the checks are in Kafka's order."""
    level = update.max_version_level
    feature = state.apis.features.get(update.feature)
    if upgrade_type is UpgradeType.UNKNOWN:
        raise _invalid(update, "The upgrade type is unknown: expected 1 (upgrade), 2 or 3 (safe or unsafe downgrade).")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    if feature is None:
        raise _invalid(update, f"The broker does not support this feature, only {', '.join(state.apis.features)}.")
    if not feature.lowest <= level <= feature.highest:
        raise _invalid(update, f"The broker only supports versions {feature.lowest} to {feature.highest}.")
    if level == feature.highest:
        return
    if upgrade_type is UpgradeType.UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade.",
        )
    raise _failed(
        ErrorCode.FEATURE_UPDATE_FAILED,
        f"Feature {update.feature} stays at version {feature.highest}: kohort cannot downgrade a feature.",
    )


def _invalid(update: wire.FeatureUpdateKey, reason: str) -> ApiError:
    text = f"Invalid update version {update.max_version_level} for feature {update.feature[:100]}. {reason}"
    return _failed(ErrorCode.INVALID_UPDATE_VERSION, text)


def _failed(code: ErrorCode, text: str) -> ApiError:
    return ApiError(code, f"The update failed for all features since the following feature had an error: {text}")


UPDATE_FEATURES = BrokerApi(
    wire.UpdateFeaturesRequest,
    update_features,
    guard_cluster(
        Operation.ALTER, lambda _message, code, text: wire.UpdateFeaturesResponse(error_code=code, error_message=text)
    ),
    Cost(AnswerBound.FIXED),
)

"""UpdateFeatures (57): finalized levels of features (KIP-584).

- 1: an upgrade type replaces the permission to downgrade; dry runs (KIP-778).
- 2: one error for all updates, and no results by feature (KIP-1022).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Message):
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+")


class UpdatableFeatureResult(Message):
    feature: str = string("0-1")
    error_code: int = int16("0-1")
    error_message: str | None = string("0-1", nullable="0-1", default=None)


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", ignorable=True)

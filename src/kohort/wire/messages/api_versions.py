"""ApiVersions (18): APIs and versions of a broker; the first request on a connection.

- 3: flexible body; name and version of the client's software (KIP-511). The response header is always the short one.
- 4: a supported feature may start at version 0.
- 5: the cluster and node that the client expects (KIP-1242).

An unsupported request version is answered at version 0, with UNSUPPORTED_VERSION and the broker's range for this API,
so that the client can retry with a lower one.
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, api_key=18, versions="0-5", flexible="3+"):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


class ApiVersion(Message):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Message):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Message):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, api_key=18, versions="0-5", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", ignorable=True, tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", ignorable=True, tag=2)
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)

"""ApiVersions (18), versions 0-4: what is served. KIP-35, KIP-511 (client software name).

An unsupported version is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions alone, so that the
client can step down (protocol/requests.md#apiversions). Produce is shown from 0 although it is served from 3: released
librdkafka versions fail compressed produces otherwise (KAFKA-18659). One feature is finalized: ``transaction.version``
2 (KIP-890).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.coordinator.transactions.decide import WITH_NEW_EPOCHS
from kohort.errors import ApiError, ErrorCode
from kohort.wire.apis import API_VERSIONS, APIS
from kohort.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

TRANSACTION_VERSION: Final = "transaction.version"
FEATURES_EPOCH: Final = 0
FIRST_VERSION_WITH_ZERO: Final = 4
SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(state: BrokerState, request: Request) -> Answer:
    message: ApiVersionsRequest = request.message
    if request.version >= 3:
        for text in (message.client_software_name, message.client_software_version):
            if not SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"not a name or version of software: {text!r}")
    supported = SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=WITH_NEW_EPOCHS)
    finalized = FinalizedFeatureKey(
        name=TRANSACTION_VERSION, min_version_level=WITH_NEW_EPOCHS, max_version_level=WITH_NEW_EPOCHS
    )
    return ApiVersionsResponse(
        api_keys=[_range(key) for key in state.api_keys],
        # Before version 4 a client takes a feature that begins with version 0 for a mistake (KAFKA-17011).
        supported_features=[supported] if request.version >= FIRST_VERSION_WITH_ZERO else [],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[finalized],
    )


def unsupported_version() -> ApiVersionsResponse:
    """Return the answer to a version of ApiVersions that is not served; always in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(API_VERSIONS)])


@cache
def _range(key: int) -> ApiVersion:
    api = APIS[key]
    return ApiVersion(api_key=key, min_version=api.advertised_low, max_version=api.high)

"""ApiVersions (18), versions 0-5. KIP-35, KIP-511 (client software), KIP-1242 (addressed node).

A request of an unsupported version gets a version 0 response with the error UNSUPPORTED_VERSION and the supported
versions of ApiVersions, so that the client can retry with one of them (protocol/requests.md#apiversions). Produce is
advertised from version 0 but served from 3: librdkafka assumes otherwise that compression is unsupported
(KAFKA-18659). Features are finalized at their highest level.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import unguarded
from kohort.broker.request import Answer, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.wire.apis import API_VERSIONS, Api
from kohort.wire.messages import api_versions as wire
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest

FIRST_VERSION_WITH_ZERO: Final = 4
NO_NODE: Final = -1
TELEMETRY: Final = frozenset({GetTelemetrySubscriptionsRequest.API_KEY, PushTelemetryRequest.API_KEY})
"""API keys that ApiVersions omits for clients without a matching metrics subscription (KIP-714)."""
SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(state: BrokerState, request: Request) -> Answer:
    message: wire.ApiVersionsRequest = request.message
    if request.version >= 3:
        for text in (message.client_software_name, message.client_software_version):
            if not SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"client software name or version {text!r} is invalid")
        state.client_metrics.set_software(
            request.reply_to.connection, message.client_software_name, message.client_software_version
        )
    _check_is_meant(state, message)
    software = f"{message.client_software_name} {message.client_software_version}"
    asks_for_metrics = state.cluster.subscriptions.in_force.apply_to(software)
    return wire.ApiVersionsResponse(
        api_keys=[_range(api) for key, api in state.apis.by_key.items() if asks_for_metrics or key not in TELEMETRY],
        # Before ApiVersions version 4, clients reject features with minimum version 0 (KAFKA-17011).
        supported_features=[
            wire.SupportedFeatureKey(name=name, min_version=feature.lowest, max_version=feature.highest)
            for name, feature in state.apis.features.items()
            if feature.lowest > 0 or request.version >= FIRST_VERSION_WITH_ZERO
        ],
        finalized_features_epoch=state.apis.features_epoch,
        finalized_features=[
            wire.FinalizedFeatureKey(name=name, min_version_level=feature.highest, max_version_level=feature.highest)
            for name, feature in state.apis.features.items()
        ],
    )


def _check_is_meant(state: BrokerState, message: wire.ApiVersionsRequest) -> None:
    """Raise ApiError if the client expects a different node or cluster at this address (KIP-1242)."""
    if (message.cluster_id is None) != (message.node_id == NO_NODE):
        raise ApiError(ErrorCode.INVALID_REQUEST, "ApiVersions must have both cluster id and node id, or neither")
    if message.cluster_id is not None and (message.cluster_id, message.node_id) != (
        state.topics.cluster_id,
        state.node.node_id,
    ):
        raise ApiError(
            ErrorCode.REBOOTSTRAP_REQUIRED,
            f"this broker is node {state.node.node_id} of cluster {state.topics.cluster_id}",
        )


def unsupported_version(state: BrokerState) -> wire.ApiVersionsResponse:
    """Build the version 0 response to an ApiVersions request of an unsupported version."""
    own = [_range(state.apis.by_key[API_VERSIONS])] if state.apis.names_its_versions else []
    return wire.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


@cache
def _range(api: Api) -> wire.ApiVersion:
    return wire.ApiVersion(api_key=api.key, min_version=api.advertised_low, max_version=api.high)


API = BrokerApi(wire.ApiVersionsRequest, api_versions, unguarded, Cost(AnswerBound.FIXED, one_step="no names"))

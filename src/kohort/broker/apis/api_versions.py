"""ApiVersions (18), versions 0-5: what is served. KIP-35, KIP-511 (the client's software), KIP-1242 (whom it means).

An unsupported version is answered in version 0 with UNSUPPORTED_VERSION and the range of ApiVersions alone, so that the
client can step down (protocol/requests.md#apiversions). Produce is shown from 0 although it is served from 3: released
librdkafka versions fail compressed produces otherwise (KAFKA-18659). Features are finalized at the highest level that
there is, such as ``transaction.version`` 2 (KIP-890).
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
"""APIs that are shown to clients that are asked for metrics (KIP-714)."""
SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(state: BrokerState, request: Request) -> Answer:
    message: wire.ApiVersionsRequest = request.message
    if request.version >= 3:
        for text in (message.client_software_name, message.client_software_version):
            if not SOFTWARE.fullmatch(text):
                raise ApiError(ErrorCode.INVALID_REQUEST, f"not a name or version of software: {text!r}")
        state.client_metrics.says_software(
            request.reply_to.connection, message.client_software_name, message.client_software_version
        )
    _check_is_meant(state, message)
    software = f"{message.client_software_name} {message.client_software_version}"
    asks_for_metrics = state.cluster.subscriptions.in_force.are_for(software)
    return wire.ApiVersionsResponse(
        api_keys=[_range(api) for key, api in state.apis.by_key.items() if asks_for_metrics or key not in TELEMETRY],
        # Before version 4 a client takes a feature that begins with version 0 for a mistake (KAFKA-17011).
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
    """Refuse who means to reach another node or cluster, such as the one that had this address before (KIP-1242)."""
    if message.cluster_id is None and message.node_id == NO_NODE:
        return
    if message.cluster_id is None or message.node_id == NO_NODE:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a cluster and a node are named together")
    if (message.cluster_id, message.node_id) != (state.topics.cluster_id, state.node.node_id):
        raise ApiError(
            ErrorCode.REBOOTSTRAP_REQUIRED, f"this is node {state.node.node_id} of {state.topics.cluster_id}"
        )


def unsupported_version(state: BrokerState) -> wire.ApiVersionsResponse:
    """Return the answer to a version of ApiVersions that is not served; always in version 0."""
    own = [_range(state.apis.by_key[API_VERSIONS])] if state.apis.names_its_versions else []
    return wire.ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)


@cache
def _range(api: Api) -> wire.ApiVersion:
    return wire.ApiVersion(api_key=api.key, min_version=api.advertised_low, max_version=api.high)


API = BrokerApi(wire.ApiVersionsRequest, api_versions, unguarded, Cost(AnswerBound.FIXED, one_step="no names"))

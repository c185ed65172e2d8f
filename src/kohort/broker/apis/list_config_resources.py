"""ListConfigResources (74), versions 0-1. KIP-1000, KIP-1142.

As in Kafka, an unknown resource type rejects the request with UNSUPPORTED_VERSION. Version 0 accepts only client
metrics. Only groups with options of their own are listed. The broker has no loggers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import guard_cluster
from kohort.broker.request import AnswerInSteps, Request
from kohort.broker.state import BrokerState
from kohort.errors import ApiError, ErrorCode
from kohort.security.acls import Operation
from kohort.steps import each
from kohort.wire.messages import configs as wire

KNOWN: Final = tuple(sorted(wire.ConfigResourceType, reverse=True))
LIST_US: Final = 1


def list_config_resources(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.ListConfigResourcesRequest = request.message
    requested = message.resource_types or ((wire.ConfigResourceType.CLIENT_METRICS,) if request.version == 0 else KNOWN)
    unknown = sorted(set(requested) - set(KNOWN))
    if unknown:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"unknown resource types {unknown}")
    kinds = set(requested)
    names = ((kind, name) for kind in KNOWN if kind in kinds for name in _names(state, kind))
    listed = yield from each(
        names, lambda pair: wire.ListedConfigResource(resource_name=pair[1], resource_type=pair[0]), LIST_US
    )
    return wire.ListConfigResourcesResponse(config_resources=listed)


def _names(state: BrokerState, kind: int) -> Iterable[str]:
    if kind == wire.ConfigResourceType.TOPIC:
        return sorted(topic.name for topic in state.topics)
    if kind == wire.ConfigResourceType.BROKER:
        return map(str, sorted(state.cluster.live))
    if kind == wire.ConfigResourceType.CLIENT_METRICS:
        return sorted(state.cluster.subscriptions.by_name)
    if kind == wire.ConfigResourceType.GROUP:
        return sorted(state.cluster.group_options.by_group)
    return ()


LIST_CONFIG_RESOURCES = BrokerApi(
    wire.ListConfigResourcesRequest,
    list_config_resources,
    guard_cluster(
        Operation.DESCRIBE_CONFIGS, lambda _message, code, _text: wire.ListConfigResourcesResponse(error_code=code)
    ),
    Cost(AnswerBound.STATE),
)

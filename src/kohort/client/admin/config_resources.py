"""The names of what has options: topics, brokers, groups, subscriptions to metrics of clients (KIP-1000, KIP-1142)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kohort.client.admin.model import ConfigResource
from kohort.client.admin.operations import Operation, ask
from kohort.client.admin.topics import RESOURCE_KINDS
from kohort.errors import ApiError, ErrorCode, UsageError
from kohort.wire.messages.configs import ListConfigResourcesRequest, ListConfigResourcesResponse
from kohort.wire.schema import Message

WITH_TYPES_FROM: Final = 1
CLIENT_METRICS: Final = RESOURCE_KINDS["client_metrics"]


def list_config_resources(kinds: Iterable[str]) -> Operation[list[ConfigResource]]:
    """Return the resources of these kinds that have options, sorted; without kinds, of all. Raises UsageError for an
    unknown kind, ApiError UNSUPPORTED_VERSION where an older broker knows only client metrics."""
    codes = []
    for kind in kinds:
        if kind not in RESOURCE_KINDS:
            raise UsageError(f"{kind!r} has no configuration; expected one of {', '.join(RESOURCE_KINDS)}")
        codes.append(RESOURCE_KINDS[kind])
    request = ListConfigResourcesRequest(resource_types=codes)
    response: ListConfigResourcesResponse = yield from ask(request, codes=lambda r: [r.error_code], shape=_of_its_time)
    names = {code: kind for kind, code in RESOURCE_KINDS.items()}
    return sorted(
        ConfigResource(names.get(listed.resource_type, str(listed.resource_type)), listed.resource_name)
        for listed in response.config_resources
    )


def _of_its_time(request: Message, version: int) -> Message:
    """Leave out the types: the first version lists client metrics alone."""
    assert isinstance(request, ListConfigResourcesRequest)
    if version >= WITH_TYPES_FROM:
        return request
    if request.resource_types != [CLIENT_METRICS]:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "before Kafka 4.1 brokers list client metrics alone")
    return ListConfigResourcesRequest()

"""Admin operations on topics, configurations and the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kohort.client.admin.model import (
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicListing,
)
from kohort.client.admin.operations import Ask, Operation, Pause, Results, ask, results_of
from kohort.client.requests.metadata import Metadata, shape_metadata
from kohort.client.requests.source import ANY_NODE
from kohort.errors import ApiError, ErrorCode, KohortError, UsageError, error_code
from kohort.model import Node
from kohort.wire.messages import configs
from kohort.wire.messages import topics as wire
from kohort.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from kohort.wire.schema import Message

RESOURCE_KINDS: Final = {kind.name.lower(): kind.value for kind in configs.ConfigResourceType}
_KINDS_BY_CODE: Final = {code: kind for kind, code in RESOURCE_KINDS.items()}
CONFIG_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "broker default",
    4: "static broker",
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
CONFIG_DEFAULT_SOURCE: Final = 5
DELETE_BY_STATE_FROM: Final = 6
SET: Final = 0
DELETE: Final = 1
MAX_DESCRIBED: Final = 100
"""Maximum number of topics or groups in one DescribeConfigs request. A topic has some 30 options."""


def cluster(metadata: Metadata, topics: Iterable[str] | None = ()) -> Operation[MetadataResponse]:
    """Request metadata of the cluster and of ``topics`` (None: all topics).

    The request engine adds the nodes in the response to its metadata.
    """
    requested = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=requested, allow_auto_topic_creation=False)
    response: MetadataResponse = yield from ask(request, shape=shape_metadata, codes=lambda r: [r.error_code])
    for broker in response.brokers:
        metadata.learn_node(Node(broker.node_id, broker.host, broker.port, broker.rack))
    return response


def ask_every_broker(metadata: Metadata, request: Message) -> Operation[Results[int, Any]]:
    """Send a request to every broker; retry transient errors once.

    Returns the response or the error of each node id.
    """
    attempt = 0
    while True:
        response = yield from cluster(metadata)
        nodes = [broker.node_id for broker in response.brokers]
        answers = yield [Ask(request, node_id) for node_id in nodes]
        failures = [f for f in map(_failure, answers) if f is not None]
        if not failures or attempt or not all(f.retriable for f in failures):
            results: Results[int, Any] = Results()
            for node_id, answer in zip(nodes, answers, strict=True):
                failure = _failure(answer)
                if failure is None:
                    results.add(node_id, answer)
                else:
                    results.refuse(node_id, failure)
            return results
        attempt += 1
        yield Pause(attempt)


def _failure(answer: Any) -> KohortError | None:
    if isinstance(answer, KohortError):
        return answer
    what = type(answer).__name__.removesuffix("Response")
    return ApiError(error_code(answer.error_code), what) if answer.error_code else None


def create_topics(
    metadata: Metadata, topics: Sequence[NewTopic], *, validate_only: bool, timeout_ms: int
) -> Operation[Results[str, CreatedTopic]]:
    requested = [
        wire.CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            configs=[wire.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        )
        for topic in topics
    ]
    request = wire.CreateTopicsRequest(topics=requested, timeout_ms=timeout_ms, validate_only=validate_only)
    response: wire.CreateTopicsResponse = yield from to_controller(
        metadata, request, lambda r: [topic.error_code for topic in r.topics]
    )
    return results_of((t.name, _created(t), t.error_code, t.error_message) for t in response.topics)


def delete_topics(metadata: Metadata, names: Sequence[str], *, timeout_ms: int) -> Operation[Results[str, None]]:
    request = wire.DeleteTopicsRequest(
        topics=[wire.DeleteTopicState(name=name) for name in names], topic_names=list(names), timeout_ms=timeout_ms
    )
    response: wire.DeleteTopicsResponse = yield from to_controller(
        metadata, request, lambda r: [topic.error_code for topic in r.responses], _delete_by_name
    )
    return results_of((t.name or "", None, t.error_code, t.error_message) for t in response.responses)


def create_partitions(
    metadata: Metadata, totals: Mapping[str, int], *, validate_only: bool, timeout_ms: int
) -> Operation[Results[str, None]]:
    request = wire.CreatePartitionsRequest(
        topics=[wire.CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in totals.items()],
        timeout_ms=timeout_ms,
        validate_only=validate_only,
    )
    response: wire.CreatePartitionsResponse = yield from to_controller(
        metadata, request, lambda r: [topic.error_code for topic in r.results]
    )
    return results_of((t.name, None, t.error_code, t.error_message) for t in response.results)


def list_topics(metadata: Metadata, *, internal: bool) -> Operation[list[TopicListing]]:
    response = yield from cluster(metadata, None)
    listings = [
        TopicListing(topic.name or "", topic.topic_id, len(topic.partitions), topic.is_internal)
        for topic in response.topics
        if not topic.error_code and (internal or not topic.is_internal)
    ]
    return sorted(listings, key=lambda listing: listing.name)


def describe_topics(metadata: Metadata, names: Sequence[str]) -> Operation[Results[str, TopicDescription]]:
    response = yield from cluster(metadata, names)
    return results_of((t.name or "", _described(t), t.error_code, None) for t in response.topics)


def describe_cluster(metadata: Metadata) -> Operation[ClusterDescription]:
    response = yield from cluster(metadata)
    nodes = tuple(sorted(Node(b.node_id, b.host, b.port, b.rack) for b in response.brokers))
    return ClusterDescription(response.cluster_id or "", response.controller_id, nodes)


def describe_configs(
    metadata: Metadata, resources: Sequence[ConfigResource], names: Iterable[str] | None = None
) -> Operation[Results[ConfigResource, dict[str, ConfigEntry]]]:
    yield from cluster(metadata)
    keys = None if names is None else list(names)
    requests = [(_node_of(batch[0]), batch) for batch in _batches(resources)]
    answers = yield [Ask(_describe_configs(batch, keys), node_id) for node_id, batch in requests]
    results: Results[ConfigResource, dict[str, ConfigEntry]] = Results()
    for (_, batch), answer in zip(requests, answers, strict=True):
        if isinstance(answer, KohortError):
            for resource in batch:
                results.refuse(resource, answer)
            continue
        assert isinstance(answer, configs.DescribeConfigsResponse)
        described = {(one.resource_type, one.resource_name): one for one in answer.results}  # in any order
        for resource in batch:
            result = described[_kind(resource.kind), resource.name]
            entries = {config.name: _entry(config) for config in result.configs}
            results.add_or_refuse(resource, entries, result.error_code, result.error_message)
    return results


def _batches(resources: Sequence[ConfigResource]) -> list[list[ConfigResource]]:
    """Divide resources into requests: one for each broker, and one for each ``MAX_DESCRIBED`` other resources."""
    of_brokers = [[resource] for resource in resources if _node_of(resource) != ANY_NODE]
    others = [resource for resource in resources if _node_of(resource) == ANY_NODE]
    return of_brokers + [others[at : at + MAX_DESCRIBED] for at in range(0, len(others), MAX_DESCRIBED)]


def _node_of(resource: ConfigResource) -> int:
    return int(resource.name) if resource.kind == "broker" and resource.name.isdigit() else ANY_NODE


def _describe_configs(batch: Sequence[ConfigResource], keys: list[str] | None) -> configs.DescribeConfigsRequest:
    requested = [
        configs.DescribeConfigsResource(
            resource_type=_kind(resource.kind), resource_name=resource.name, configuration_keys=keys
        )
        for resource in batch
    ]
    return configs.DescribeConfigsRequest(resources=requested)


def alter_configs(
    metadata: Metadata, changes: Mapping[ConfigResource, Mapping[str, str | None]]
) -> Operation[Results[ConfigResource, None]]:
    yield from cluster(metadata)
    resources = [
        configs.AlterConfigsResource(
            resource_type=_kind(resource.kind),
            resource_name=resource.name,
            configs=[
                configs.AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
                for name, value in options.items()
            ],
        )
        for resource, options in changes.items()
    ]
    response: configs.IncrementalAlterConfigsResponse = yield from to_controller(
        metadata,
        configs.IncrementalAlterConfigsRequest(resources=resources),
        lambda r: [x.error_code for x in r.responses],
    )
    return results_of((_resource(r), None, r.error_code, r.error_message) for r in response.responses)


def to_controller(
    metadata: Metadata,
    request: Message,
    codes: Callable[[Any], list[int]],
    shape: Callable[[Message, int], Message] | None = None,
) -> Operation[Any]:
    """Send a request to the controller and return its response.

    Before KRaft, only the controller accepts such requests.
    """
    attempt = 0
    while True:
        response = yield from cluster(metadata)
        node_id = response.controller_id if response.controller_id >= 0 else ANY_NODE
        answer = yield from ask(request, node_id=node_id, shape=shape)
        if ErrorCode.NOT_CONTROLLER not in codes(answer):
            return answer
        attempt += 1
        yield Pause(attempt)


def _kind(kind: str) -> int:
    if kind not in RESOURCE_KINDS:
        raise UsageError(f"resource kind {kind!r} has no options: expected one of {', '.join(RESOURCE_KINDS)}")
    return RESOURCE_KINDS[kind]


def _resource(item: Any) -> ConfigResource:
    return ConfigResource(_KINDS_BY_CODE.get(item.resource_type, str(item.resource_type)), item.resource_name)


def _delete_by_name(request: Message, version: int) -> Message:
    assert isinstance(request, wire.DeleteTopicsRequest)
    if version >= DELETE_BY_STATE_FROM:
        return request
    return wire.DeleteTopicsRequest(topic_names=request.topic_names, timeout_ms=request.timeout_ms)


def _created(topic: wire.CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = tuple(
        PartitionDescription(p.partition_index, p.leader_id, p.leader_epoch, tuple(p.replica_nodes), tuple(p.isr_nodes))
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    )
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, partitions)


def _entry(config: configs.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        CONFIG_SOURCES.get(config.config_source, "unknown"),
        config.config_source == CONFIG_DEFAULT_SOURCE,
        config.read_only,
        config.is_sensitive,
    )


WITH_TYPES_FROM: Final = 1
CLIENT_METRICS: Final = RESOURCE_KINDS["client_metrics"]


def list_config_resources(kinds: Iterable[str]) -> Operation[list[ConfigResource]]:
    """Return the cluster's config resources of these kinds, sorted; all resources if ``kinds`` is empty.

    Raises UsageError for an unknown kind. A broker before Kafka 4.1 lists client metrics only; for any other kind this
    raises ApiError UNSUPPORTED_VERSION.
    """
    codes = [_kind(kind) for kind in kinds]
    request = configs.ListConfigResourcesRequest(resource_types=codes)
    response: configs.ListConfigResourcesResponse = yield from ask(
        request, codes=lambda r: [r.error_code], shape=_shape_of_list
    )
    return sorted(_resource(listed) for listed in response.config_resources)


def _shape_of_list(request: Message, version: int) -> Message:
    """Rewrite ListConfigResources for version 0, which lists client metrics only. Raises ApiError for other kinds."""
    assert isinstance(request, configs.ListConfigResourcesRequest)
    if version >= WITH_TYPES_FROM:
        return request
    if request.resource_types != [CLIENT_METRICS]:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION, "list_config_resources: brokers before Kafka 4.1 list client metrics only"
        )
    return configs.ListConfigResourcesRequest()

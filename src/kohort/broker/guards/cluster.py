"""What is asked of the cluster as a whole: coordinators, options, folders, replicas, ACLs, quotas."""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from kohort.broker.authorization import CHECK_US
from kohort.broker.guards.guard import (
    PASSED,
    REFUSE_US,
    Checking,
    Denials,
    Guard,
    Guarded,
    guard_cluster,
    refused_by_topic,
    without,
)
from kohort.errors import ErrorCode
from kohort.security.acls import CLUSTER_NAME, Operation, ResourceType
from kohort.steps import Pace, SpreadDict, Steps, counted, each, emptied
from kohort.wire.messages.acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsResponse,
)
from kohort.wire.messages.cluster import DescribeQuorumResponse
from kohort.wire.messages.configs import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
    ConfigResourceType,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    IncrementalAlterConfigsResponse,
    ListConfigResourcesResponse,
)
from kohort.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from kohort.wire.messages.log_dirs import (
    AlteredLogDirPartition,
    AlteredLogDirTopic,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsResponse,
)
from kohort.wire.messages.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuotas,
    DescribeClientQuotasResponse,
)
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersPartitionResult,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersTopicResult,
    ListPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    DescribeUserScramCredentialsResponse,
)
from kohort.wire.schema import Message

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
WORDS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}
"""As Kafka has them."""


# ---------------------------------------------------------------- FindCoordinator

FIRST_WITH_SEVERAL_KEYS: Final = 4
COORDINATED: Final = {
    0: (Operation.DESCRIBE, ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    2: (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, DENIED),
}
"""By the type of key: a group, a transactional id, a share group's partition."""


def guard_find_coordinator(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE on each group or transactional id; CLUSTER_ACTION for share groups."""
    message: FindCoordinatorRequest = checking.request.message
    if message.key_type not in COORDINATED:
        return PASSED
    operation, resource_type, code = COORDINATED[message.key_type]
    on_cluster = resource_type is ResourceType.CLUSTER
    if checking.request.version < FIRST_WITH_SEVERAL_KEYS:
        if checking.may(operation, resource_type, CLUSTER_NAME if on_cluster else message.key):
            return PASSED
        return Guarded(FindCoordinatorResponse(error_code=code, error_message=WORDS[code], node_id=-1, port=-1))
    allowed, denied = yield from checking.sifted(
        operation, resource_type, message.coordinator_keys, lambda key: CLUSTER_NAME if on_cluster else key
    )
    told = yield from each(
        denied,
        lambda key: Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=""),
        REFUSE_US,
    )
    return without(checking, allowed, Denials("coordinator_keys", "coordinators", told), FindCoordinatorResponse)


# ---------------------------------------------------------------- options

OF_CLUSTER: Final = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER, ConfigResourceType.CLIENT_METRICS)


def _sifted_resources(
    checking: Checking, operation: Operation, resources: list[Any]
) -> Steps[tuple[list[Any], list[tuple[Any, ErrorCode]]]]:
    """Return the resources whose options the caller may see or change, and the others with why not; the topics and
    groups by their name, everything else by the cluster. What is named twice is refused for that."""
    times = yield from counted((one.resource_type, one.resource_name) for one in resources)
    allowed: list[Any] = []
    refused: list[tuple[Any, ErrorCode]] = []
    of_cluster: bool | None = None
    pace = Pace(goes_on=True)
    for one in resources:
        kind, name = one.resource_type, one.resource_name
        code = ErrorCode.NONE
        if times.part((kind, name))[kind, name] > 1 and operation is Operation.ALTER_CONFIGS:
            pass
        elif kind == ConfigResourceType.TOPIC:
            if not checking.may(operation, ResourceType.TOPIC, name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif kind == ConfigResourceType.GROUP:
            if not checking.may(operation, ResourceType.GROUP, name):
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        elif kind in OF_CLUSTER:
            if of_cluster is None:
                of_cluster = checking.may_on_cluster(operation)
            code = ErrorCode.NONE if of_cluster else DENIED
        if code is ErrorCode.NONE:
            allowed.append(one)
        else:
            refused.append((one, code))
        if pace.is_due(CHECK_US):
            yield
    yield from times.let_go(pace)
    return allowed, refused


def guard_describe_configs(checking: Checking) -> Steps[Guarded]:
    """DESCRIBE_CONFIGS on each topic and group, and on the cluster."""
    message: DescribeConfigsRequest = checking.request.message
    allowed, denied = yield from _sifted_resources(checking, Operation.DESCRIBE_CONFIGS, message.resources)
    told = yield from each(denied, lambda pair: _not_told(*pair), REFUSE_US)
    yield from emptied(denied, Pace(goes_on=True))
    return without(checking, allowed, Denials("resources", "results", told), DescribeConfigsResponse)


def _not_told(one: Any, code: ErrorCode) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code, error_message=WORDS[code], resource_type=one.resource_type, resource_name=one.resource_name
    )


def _not_altered(one: Any, code: ErrorCode) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code, error_message=WORDS[code], resource_type=one.resource_type, resource_name=one.resource_name
    )


def guard_alter_configs(response: type[AlterConfigsResponse | IncrementalAlterConfigsResponse]) -> Guard:
    """Return the guard of an API that changes options: ALTER_CONFIGS on each topic and group, and on the cluster."""

    def guard(checking: Checking) -> Steps[Guarded]:
        resources = checking.request.message.resources
        allowed, denied = yield from _sifted_resources(checking, Operation.ALTER_CONFIGS, resources)
        told = yield from each(denied, lambda pair: _not_altered(*pair), REFUSE_US)
        yield from emptied(denied, Pace(goes_on=True))
        return without(checking, allowed, Denials("resources", "responses", told), response)

    return guard


guard_list_config_resources = guard_cluster(
    Operation.DESCRIBE_CONFIGS, lambda _message, code, _words: ListConfigResourcesResponse(error_code=code)
)


# ---------------------------------------------------------------- replicas


def _not_moved(message: AlterReplicaLogDirsRequest, code: int, _words: str) -> Steps[Message]:
    topics = yield from refused_by_topic(
        chain.from_iterable(folder.topics for folder in message.dirs),
        lambda topic: topic.partitions,
        lambda p: AlteredLogDirPartition(partition_index=p, error_code=code),
        lambda topic, made: AlteredLogDirTopic(topic_name=topic.name, partitions=made),
    )
    return AlterReplicaLogDirsResponse(results=topics)


def _not_elected(message: ElectLeadersRequest, code: int, words: str) -> Steps[Message]:
    refused = yield from refused_by_topic(
        message.topic_partitions or (),
        lambda topic: topic.partitions,
        lambda p: ElectLeadersPartitionResult(partition_id=p, error_code=code, error_message=words),
        lambda topic, made: ElectLeadersTopicResult(topic=topic.topic, partition_result=made),
    )
    return ElectLeadersResponse(error_code=code, replica_election_results=refused)


def _not_reassigned(message: AlterPartitionReassignmentsRequest, code: int, words: str) -> Steps[Message]:
    refused = yield from refused_by_topic(
        message.topics,
        lambda topic: topic.partitions,
        lambda p: ReassignablePartitionResponse(
            partition_index=p.partition_index, error_code=code, error_message=words
        ),
        lambda topic, made: ReassignableTopicResponse(name=topic.name, partitions=made),
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=code,
        error_message=words,
        responses=refused,
    )


guard_describe_log_dirs = guard_cluster(
    Operation.DESCRIBE, lambda _message, code, _words: DescribeLogDirsResponse(error_code=code)
)
guard_alter_log_dirs = guard_cluster(Operation.ALTER, _not_moved)
guard_elect_leaders = guard_cluster(Operation.ALTER, _not_elected)
guard_alter_reassignments = guard_cluster(Operation.ALTER, _not_reassigned)
guard_list_reassignments = guard_cluster(
    Operation.DESCRIBE,
    lambda _message, code, words: ListPartitionReassignmentsResponse(error_code=code, error_message=words),
)
guard_describe_quorum = guard_cluster(
    Operation.DESCRIBE, lambda _message, code, words: DescribeQuorumResponse(error_code=code, error_message=words)
)


# ---------------------------------------------------------------- ACLs, quotas, users


def _no_acls_made(message: CreateAclsRequest, code: int, words: str) -> Steps[Message]:
    refused = AclCreationResult(error_code=code, error_message=words)
    return CreateAclsResponse(results=(yield from each(message.creations, lambda _: refused, REFUSE_US)))


def _no_acls_deleted(message: DeleteAclsRequest, code: int, words: str) -> Steps[Message]:
    refused = DeleteAclsFilterResult(error_code=code, error_message=words)
    return DeleteAclsResponse(filter_results=(yield from each(message.filters, lambda _: refused, REFUSE_US)))


guard_describe_acls = guard_cluster(
    Operation.DESCRIBE, lambda _message, code, words: DescribeAclsResponse(error_code=code, error_message=words)
)
guard_create_acls = guard_cluster(Operation.ALTER, _no_acls_made)
guard_delete_acls = guard_cluster(Operation.ALTER, _no_acls_deleted)


def _no_quotas_altered(message: AlterClientQuotasRequest, code: int, words: str) -> Steps[Message]:
    refused = yield from each(
        message.entries,
        lambda one: AlteredQuotas(error_code=code, error_message=words, entity=one.entity),
        REFUSE_US,
    )
    return AlterClientQuotasResponse(entries=refused)


guard_describe_quotas = guard_cluster(
    Operation.DESCRIBE_CONFIGS,
    lambda _message, code, words: DescribeClientQuotasResponse(error_code=code, error_message=words, entries=None),
)
guard_alter_quotas = guard_cluster(Operation.ALTER_CONFIGS, _no_quotas_altered)


def _no_users_altered(message: AlterUserScramCredentialsRequest, code: int, words: str) -> Steps[Message]:
    pace = Pace()
    seen: SpreadDict[str, None] = SpreadDict()
    refused = []
    for one in chain[Any](message.deletions, message.upsertions):
        if seen.add(one.name, None):
            refused.append(AlterUserScramCredentialsResult(user=one.name, error_code=code, error_message=words))
        if pace.is_due(REFUSE_US):
            yield
    yield from seen.let_go(pace)
    return AlterUserScramCredentialsResponse(results=refused)


guard_describe_users = guard_cluster(
    Operation.DESCRIBE,
    lambda _message, code, words: DescribeUserScramCredentialsResponse(error_code=code, error_message=words),
)
guard_alter_users = guard_cluster(Operation.ALTER, _no_users_altered)

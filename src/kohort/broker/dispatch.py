"""From a frame to its handler: header, version, body, handler, and the answer to an error.

An API or a version that is not served has no answer in the protocol: the connection is closed
(protocol/requests.md#what-is-not-served). The one exception is ApiVersions, so that a newer client can find out what is
served.

A large frame is read in steps, and a handler may take steps of its own. The first is taken at once, so what is done by
then is answered at once; the rest is left to long_work.py.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from kohort.broker.connections import LARGE_BYTES
from kohort.broker.guards.serving import guarded
from kohort.broker.guards.table import GUARDS
from kohort.broker.handlers.acls import create_acls, delete_acls, describe_acls
from kohort.broker.handlers.alter_configs import alter_configs, incremental_alter_configs
from kohort.broker.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from kohort.broker.handlers.api_versions import api_versions, unsupported_version
from kohort.broker.handlers.client_quotas import alter_client_quotas, describe_client_quotas
from kohort.broker.handlers.create_partitions import create_partitions
from kohort.broker.handlers.create_topics import create_topics
from kohort.broker.handlers.delete_records import delete_records
from kohort.broker.handlers.delete_topics import delete_topics
from kohort.broker.handlers.describe_cluster import describe_cluster
from kohort.broker.handlers.describe_configs import describe_configs
from kohort.broker.handlers.describe_log_dirs import describe_log_dirs
from kohort.broker.handlers.describe_producers import describe_producers
from kohort.broker.handlers.describe_quorum import describe_quorum
from kohort.broker.handlers.describe_topic_partitions import describe_topic_partitions
from kohort.broker.handlers.elect_leaders import elect_leaders
from kohort.broker.handlers.fetch import fetch
from kohort.broker.handlers.find_coordinator import find_coordinator
from kohort.broker.handlers.groups import group_request
from kohort.broker.handlers.init_producer_id import init_producer_id
from kohort.broker.handlers.list_config_resources import list_config_resources
from kohort.broker.handlers.list_offsets import list_offsets
from kohort.broker.handlers.metadata import metadata
from kohort.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from kohort.broker.handlers.produce import produce
from kohort.broker.handlers.reassignments import alter_partition_reassignments, list_partition_reassignments
from kohort.broker.handlers.sasl import sasl_authenticate, sasl_handshake
from kohort.broker.handlers.scram_users import alter_scram_users, describe_scram_users
from kohort.broker.handlers.telemetry import get_telemetry_subscriptions, push_telemetry
from kohort.broker.handlers.transaction_admin import describe_transactions, list_transactions, write_txn_markers
from kohort.broker.handlers.transactions import add_offsets_to_txn, add_partitions_to_txn, end_txn, txn_offset_commit
from kohort.broker.long_work import Task
from kohort.broker.refusals import refusal_of
from kohort.broker.request import Answer, AnswerInSteps, Caller, Handler, HangUp, ReplyTo, Request, Unanswered
from kohort.broker.split_requests import cutting_of, serve_in_parts
from kohort.broker.state import BrokerState
from kohort.coordinator.api_table import GROUP_APIS
from kohort.errors import KohortError, ProtocolError
from kohort.wire.apis import API_VERSIONS, APIS, Api
from kohort.wire.codec import decode, decode_in_steps
from kohort.wire.headers import client_id_of, skip_tags
from kohort.wire.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.cluster import DescribeClusterRequest, DescribeQuorumRequest
from kohort.wire.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from kohort.wire.messages.fetch import FetchRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kohort.wire.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from kohort.wire.messages.metadata import MetadataRequest
from kohort.wire.messages.produce import ProduceRequest
from kohort.wire.messages.producer_ids import DescribeProducersRequest, InitProducerIdRequest
from kohort.wire.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from kohort.wire.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kohort.wire.messages.sasl import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from kohort.wire.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from kohort.wire.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeTopicPartitionsRequest,
)
from kohort.wire.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kohort.wire.schema import Message

HEADER = struct.Struct(">hhi")

HANDLERS: Final[dict[type[Message], Handler]] = {
    **dict.fromkeys(GROUP_APIS, group_request),
    ProduceRequest: produce,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    MetadataRequest: metadata,
    FindCoordinatorRequest: find_coordinator,
    ApiVersionsRequest: api_versions,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    DeleteRecordsRequest: delete_records,
    InitProducerIdRequest: init_producer_id,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    WriteTxnMarkersRequest: write_txn_markers,
    TxnOffsetCommitRequest: txn_offset_commit,
    DescribeAclsRequest: describe_acls,
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
    DescribeConfigsRequest: describe_configs,
    AlterConfigsRequest: alter_configs,
    AlterReplicaLogDirsRequest: alter_replica_log_dirs,
    DescribeLogDirsRequest: describe_log_dirs,
    CreatePartitionsRequest: create_partitions,
    ElectLeadersRequest: elect_leaders,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    AlterPartitionReassignmentsRequest: alter_partition_reassignments,
    ListPartitionReassignmentsRequest: list_partition_reassignments,
    DescribeQuorumRequest: describe_quorum,
    DescribeClientQuotasRequest: describe_client_quotas,
    AlterClientQuotasRequest: alter_client_quotas,
    DescribeClusterRequest: describe_cluster,
    DescribeProducersRequest: describe_producers,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
    GetTelemetrySubscriptionsRequest: get_telemetry_subscriptions,
    PushTelemetryRequest: push_telemetry,
    ListConfigResourcesRequest: list_config_resources,
    DescribeTopicPartitionsRequest: describe_topic_partitions,
    SaslHandshakeRequest: sasl_handshake,
    SaslAuthenticateRequest: sasl_authenticate,
    DescribeUserScramCredentialsRequest: describe_scram_users,
    AlterUserScramCredentialsRequest: alter_scram_users,
}

SERVED: Final[Mapping[int, Api]] = {key: api for key, api in sorted(APIS.items()) if api.request in HANDLERS}
"""By API key: all that there are. A broker may stand in for a release that had fewer (served_apis.py)."""


def dispatch(
    state: BrokerState, connection: int, caller: Caller, frame: bytes | bytearray, now_ms: int
) -> tuple[ReplyTo, Answer | Task]:
    """Serve one frame. Raises HangUp, with a line for the log, where the only answer is to close the connection."""
    if len(frame) < HEADER.size:
        raise HangUp(f"a request of {len(frame)} bytes is too short for its header", "short")
    key, version, correlation_id = HEADER.unpack_from(frame)
    reply_to = ReplyTo(connection, correlation_id, key, version)
    api = state.apis.get(key)
    if api is None:
        name = APIS[key].name if key in APIS else "unknown"
        raise HangUp(f"API {key} ({name}) is not served", "api")
    if not api.serves(version):
        if key == API_VERSIONS:
            return reply_to._replace(version=0), unsupported_version(state)
        raise HangUp(f"{api.name} version {version} is not served, only {api.low} to {api.high}", "version")
    try:
        client_id, body_at = client_id_of(frame)
        if version >= api.flexible_from:
            body_at = skip_tags(frame, body_at, "RequestHeader")
        request = Request(None, version, reply_to, client_id or "", caller, now_ms)
        if len(frame) > LARGE_BYTES:
            return reply_to, begun(request, _served_in_steps(state, api, request, frame, body_at))
        request.message, end = decode(api.request, version, frame, body_at)
    except ProtocolError as error:
        raise HangUp(f"malformed {api.name} version {version}: {error}", "malformed") from None
    return reply_to, _serve_decoded(state, api, request, len(frame) - end)


def _served_in_steps(
    state: BrokerState, api: Api, request: Request, frame: bytes | bytearray, body_at: int
) -> AnswerInSteps:
    """Read a large frame, then serve it."""
    try:
        request.message, end = yield from decode_in_steps(api.request, request.version, frame, body_at)
    except ProtocolError as error:
        raise HangUp(f"malformed {api.name} version {request.version}: {error}", "malformed") from None
    answer = _serve_decoded(state, api, request, len(frame) - end)
    return (yield from answer.steps) if isinstance(answer, Task) else answer


def _serve_decoded(state: BrokerState, api: Api, request: Request, behind: int) -> Answer | Task:
    if behind:
        state.trailing_bytes.seen(request.client_id, api.name, request.version, behind)
    if state.intercept is not None and (answer := state.intercept(state.node.node_id, api, request)) is not None:
        return answer
    return serve(state, request)


def serve(state: BrokerState, request: Request) -> Answer | Task:
    """Check and handle a request. Raises HangUp for a failure that its answer cannot say."""
    api = SERVED[request.reply_to.api_key]
    cutting = cutting_of(state, request)
    if cutting is not None:
        return begun(request, _refusing(api, serve_in_parts(state, request, cutting, _serve_one)))
    return _serve_one(state, request)


def _serve_one(state: BrokerState, request: Request) -> Answer | Task:
    """Check and handle one request, or one part of a large request."""
    if state.access is None:
        return _handle(state, request)
    api = SERVED[request.reply_to.api_key]
    return begun(request, _refusing(api, guarded(state, request, GUARDS[api.request], _handle)))


def _handle(state: BrokerState, request: Request) -> Answer | Task:
    api = SERVED[request.reply_to.api_key]
    try:
        answer = HANDLERS[api.request](state, request)
    except KohortError as error:
        return _refuse(api, error)
    if isinstance(answer, (Message, Unanswered)):
        return answer
    return begun(request, _refusing(api, answer))


def _refusing(api: Api, steps: AnswerInSteps) -> AnswerInSteps:
    try:
        return (yield from steps)
    except KohortError as error:
        return _refuse(api, error)


def begun(request: Request, steps: AnswerInSteps) -> Answer | Task:
    """Take the first step of serving ``request``: the answer, or what is left to do."""
    try:
        next(steps)
    except StopIteration as end:
        answer: Answer = end.value
        return answer
    return Task(request, steps)


def _refuse(api: Api, error: KohortError) -> Message:
    """Return the answer to a request that failed as a whole."""
    refusal = refusal_of(error)
    fields = {f.name for f in api.response.FIELDS}
    if "error_code" not in fields:
        raise HangUp(f"{api.name} failed and its response has no field to say so: {error}", "failed")
    words = {"error_message": refusal.message} if "error_message" in fields else {}
    return api.response(error_code=int(refusal.code), **words)  # type: ignore[call-arg]  # fields vary by API

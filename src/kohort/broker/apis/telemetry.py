"""GetTelemetrySubscriptions (71) and PushTelemetry (72), version 0: metrics of clients. KIP-714.

Clients need no right for these APIs, as in Kafka. Clients send cumulative values (no delta temporality), so a lost push
does no harm.
"""

from __future__ import annotations

from typing import Final

from kohort.broker.api import AnswerBound, BrokerApi, Cost
from kohort.broker.authorization import unguarded
from kohort.broker.request import Answer, AnswerInSteps, Request, principal_of
from kohort.broker.state import BrokerState
from kohort.coordinator.journal import ClientIdentity
from kohort.coordinator.journal_events import MemberMetrics
from kohort.errors import CorruptRecord, ErrorCode, ProtocolError
from kohort.telemetry.instances import ClientInstance
from kohort.telemetry.otlp import PushedMetrics, parse_metrics
from kohort.telemetry.report import ClientReport
from kohort.telemetry.subscriptions import ClientFacts
from kohort.wire.compression import Codec, decompressed
from kohort.wire.messages import telemetry as wire

ACCEPTED: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""Accepted compression types of pushed metrics, preferred ones first, as in Kafka."""
CONSUMER: Final = "org.apache.kafka.consumer."
CODECS: Final = frozenset(map(int, Codec))


def get_telemetry_subscriptions(state: BrokerState, request: Request) -> Answer:
    message: wire.GetTelemetrySubscriptionsRequest = request.message
    facts = _facts(state, request)
    connection = request.reply_to.connection
    client = state.client_metrics.instances.ask(message.client_instance_id, connection, facts, request.now_ms)
    return wire.GetTelemetrySubscriptionsResponse(
        client_instance_id=client.instance_id,
        subscription_id=client.requested.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=client.requested.interval_ms,
        telemetry_max_bytes=state.config.telemetry_max_bytes,
        delta_temporality=False,
        requested_metrics=list(client.requested.metrics),
    )


def push_telemetry(state: BrokerState, request: Request) -> AnswerInSteps:
    message: wire.PushTelemetryRequest = request.message
    instances, facts = state.client_metrics.instances, _facts(state, request)
    client = instances.push(message.client_instance_id, request.reply_to.connection, facts, request.now_ms)
    instances.check_push(client, message.subscription_id, request.now_ms, terminating=message.terminating)
    most = state.config.telemetry_max_bytes
    if message.compression_type not in CODECS:
        problem = f"pushes with unknown compression type {message.compression_type}"
        raise instances.refuse(client, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, problem)
    if len(message.metrics) > most:
        problem = f"pushes {len(message.metrics)} bytes, above telemetry.max.bytes={most}"
        raise instances.refuse(client, ErrorCode.TELEMETRY_TOO_LARGE, problem)
    report = None
    if message.metrics:
        try:
            data = bytes(decompressed(Codec(message.compression_type), message.metrics, most))
            pushed = yield from parse_metrics(data)
        except (CorruptRecord, ProtocolError) as error:
            raise instances.refuse(client, ErrorCode.INVALID_RECORD, f"pushes unreadable metrics: {error}") from None
        report = _report(state, request, client, pushed)
        _report_to_coordinator(state, request, report)
    state.client_metrics.take(client, report, request.now_ms)
    return wire.PushTelemetryResponse()


def _report_to_coordinator(state: BrokerState, request: Request, report: ClientReport) -> None:
    if report.group is None:
        return
    values = {one.name.removeprefix(CONSUMER): one.value for one in report.values if not one.labels}
    last_poll_s, gap_ms = values.get("last.poll.seconds.ago"), values.get("time.between.poll.max")
    metrics = MemberMetrics(
        at_ms=request.now_ms,
        last_poll_ms_ago=None if last_poll_s is None or last_poll_s < 0 else int(last_poll_s * 1000),
        longest_poll_gap_ms=None if gap_ms is None else int(gap_ms),
        poll_idle_ratio=values.get("poll.idle.ratio.avg"),
        commit_latency_ms=values.get("coordinator.commit.latency.avg"),
        rebalance_latency_ms=values.get("coordinator.rebalance.latency.max"),
    )
    who = ClientIdentity(report.member_id or "", request.client_id, request.client_host)
    state.coordinator.add_client_metrics(report.client_instance_id, who, metrics)


def _facts(state: BrokerState, request: Request) -> ClientFacts:
    caller = request.caller
    return state.client_metrics.facts_of(request.reply_to.connection, request.client_id, caller.host, caller.port)


def _report(state: BrokerState, request: Request, client: ClientInstance, pushed: PushedMetrics) -> ClientReport:
    facts = client.facts
    return ClientReport(
        at_ms=state.cluster.wall.at(request.now_ms),
        client_instance_id=client.text,
        client_id=facts.client_id,
        host=request.client_host,
        node_id=state.node.node_id,
        interval_ms=client.requested.interval_ms,
        software_name=facts.software_name,
        software_version=facts.software_version,
        principal=principal_of(request),
        terminating=request.message.terminating,
        labels=pushed.labels,
        values=tuple(pushed.values),
        is_cut=pushed.is_cut,
    )


GET_TELEMETRY_SUBSCRIPTIONS = BrokerApi(
    wire.GetTelemetrySubscriptionsRequest,
    get_telemetry_subscriptions,
    unguarded,
    Cost(AnswerBound.FIXED, one_step="one client instance"),
)
PUSH_TELEMETRY = BrokerApi(wire.PushTelemetryRequest, push_telemetry, unguarded, Cost(AnswerBound.FIXED))

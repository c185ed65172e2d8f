"""GetTelemetrySubscriptions (71), PushTelemetry (72), both version 0 and flexible: metrics of clients (KIP-714).

Clients push a ``MetricsData`` of OpenTelemetry's protocol, compressed as a whole (telemetry/otlp.py).
"""

from __future__ import annotations

from kohort.wire.schema import Message, array, boolean, data, int8, int16, int32, string, uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    """An id of zeros requests a new one."""

    client_instance_id: bytes = uuid()


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    """Without requested metrics the client pushes none, and asks again later."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8())
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string())


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = data()


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()

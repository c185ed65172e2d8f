"""What ``kohort client-metrics`` prints."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from kohort.results.result import Result


class SubscriptionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription: what is asked of which clients, and how often."""

    name: str
    interval_ms: int
    metrics: list[str]
    """Prefixes of names; ``*`` is everything."""
    match: list[str]
    """``client_id=EXPRESSION`` and the like, all of which a client must match; none: every client."""


class SubscriptionsListed(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.list"):
    """The subscriptions to metrics of clients."""

    LINES: ClassVar[str] = "subscriptions"

    subscriptions: list[SubscriptionRow]


class SubscriptionSet(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.set"):
    """A subscription as it is now."""

    subscription: SubscriptionRow


class SubscriptionRemoved(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.remove"):
    """A subscription that is gone."""

    removed: str


class PushedValue(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a client pushed."""

    metric: str
    labels: dict[str, str]
    value: float


class PushingClient(msgspec.Struct, frozen=True, kw_only=True):
    """What one client pushed last; what it did not say is null."""

    client_instance_id: str
    client_id: str
    host: str
    software: str | None
    principal: str | None
    node_id: int
    group: str | None
    member_id: str | None
    pushed_at_ms: int
    interval_ms: int
    is_last: bool
    """It has said that there will be no other."""
    is_cut: bool
    """It pushed more than is kept."""
    labels: dict[str, str]
    values: list[PushedValue]


class ClientsShown(Result, frozen=True, kw_only=True, tag="kohort/v1/client-metrics.show"):
    """Clients by what they pushed."""

    LINES: ClassVar[str] = "clients"

    clients: list[PushingClient]

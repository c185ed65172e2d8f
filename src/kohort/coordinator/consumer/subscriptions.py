"""Subscriptions of a consumer group's members, resolved to existing topics once for as long as nothing changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kohort.assignors.server.iteration import in_name_order
from kohort.assignors.server.spec import MemberSpec
from kohort.coordinator.consumer.group import ModernGroup
from kohort.coordinator.outcome import TopicsView
from kohort.wire.messages.consumer_group_records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupRegularExpressionValue,
)


class ResolvedSubscription(NamedTuple):
    """One member's subscription, as of one version of all topics. Members with equal subscriptions share the rest."""

    said: ConsumerGroupMemberMetadataValue
    resolved: ConsumerGroupRegularExpressionValue | None
    version: int
    topic_ids: Mapping[str, bytes]
    """Existing topics by name, in Kafka's order."""
    spec: MemberSpec

    @property
    def key(self) -> tuple[Collection[str], str]:
        return self.spec.names, self.spec.regex


class Subscriptions:
    """Subscriptions for one target assignment; those that changed since the one before are resolved."""

    def __init__(self, group: ModernGroup, topics: TopicsView) -> None:
        self._group = group
        self._topics = topics
        self._before: dict[str, ResolvedSubscription] = group.soft.subscriptions
        self._now: dict[str, ResolvedSubscription] = {}
        self._by_key: dict[tuple[Collection[str], str], ResolvedSubscription] = {}
        self._matched: dict[tuple[str, ...], dict[str, bytes]] = {}

    def of(self, member_id: str, said: ConsumerGroupMemberMetadataValue) -> tuple[ResolvedSubscription, bool]:
        """Return the subscription of a member, and whether it is the first of its kind."""
        regex = said.subscribed_topic_regex or ""
        resolved = self._group.regexes.get(regex) if regex else None
        known = self._before.get(member_id)
        if known is not None and known.said is said and known.resolved is resolved:
            key = known.key
            is_current = known.version == self._topics.version
        else:
            key, is_current = (tuple(sorted(said.subscribed_topic_names)), regex), False
        shared = self._by_key.get(key)
        is_first = shared is None
        if shared is None:
            shared = known if known is not None and is_current else self._resolve(said, key, resolved)
            self._by_key[key] = shared
        self._now[member_id] = shared if shared.said is said else shared._replace(said=said)
        return shared, is_first

    def keep(self) -> None:
        """Keep the subscriptions for the next target."""
        self._group.soft.subscriptions = self._now

    def _resolve(
        self,
        said: ConsumerGroupMemberMetadataValue,
        key: tuple[Collection[str], str],
        resolved: ConsumerGroupRegularExpressionValue | None,
    ) -> ResolvedSubscription:
        """Find the existing topics of a subscription; those that its expression matches come first."""
        names, regex = key
        matched = () if resolved is None else tuple(resolved.topics)
        if matched not in self._matched:  # many expressions may match the same
            self._matched[matched] = self._topic_ids(matched)
        topic_ids = self._matched[matched]
        if names:
            topic_ids = topic_ids | self._topic_ids(names)
        spec = MemberSpec(frozenset(topic_ids.values()), names=names, regex=regex)
        return ResolvedSubscription(said, resolved, self._topics.version, topic_ids, spec)

    def _topic_ids(self, names: Collection[str]) -> dict[str, bytes]:
        found = {name: topic_id for name in names if (topic_id := self._topics.topic_id(name)) is not None}
        return {name: found[name] for name in in_name_order(found, len(names))}

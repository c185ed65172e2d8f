"""API answers about topics: list, state of one topic, search in its records."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kohort.console.routes import ApiQuery, Route
from kohort.console.sources import ConsoleSource
from kohort.errors import UsageError
from kohort.results.console import ConsoleRecords, ConsoleTopic, ConsoleTopics
from kohort.verbs.searching import (
    MOST_MATCHES,
    MOST_RECORDS,
    PARTS,
    SearchFilter,
    Start,
    find_records,
    log_ends,
    parse_ranges,
    ranges_from,
)
from kohort.verbs.topics import (
    LISTED_OPTIONS,
    end_sums,
    groups_by_topic,
    partition_states,
    topic_facts,
    topic_options,
    topic_state,
)
from kohort.watch.cluster_queries import ADMIN_MS

if TYPE_CHECKING:
    from kohort.watch.opening import WatchClients

MOST_TOPICS: Final = 2_000
MOST_PARTITIONS: Final = 20_000
SAMPLES: Final = 4
APART_S: Final = 15.0
"""Minimum time in seconds between two kept samples of log ends."""
LEAST_S: Final = 1.0
OLDEST_S: Final = 300.0


class EndSample(NamedTuple):
    at_s: float
    end: int


class OffsetRates:
    """Rates of topics, from the log ends of the last queries. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: OrderedDict[str, deque[EndSample]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, ends: Mapping[str, int]) -> dict[str, float]:
        """Add the log ends of topics, each the sum of its partitions. Return the known rates in offsets per second."""
        now_s = self._clock()
        with self._lock:
            rates = {topic: self._add(topic, EndSample(now_s, end)) for topic, end in ends.items()}
            while len(self._samples) > MOST_TOPICS:
                self._samples.popitem(last=False)
        return {topic: rate for topic, rate in rates.items() if rate is not None}

    def _add(self, topic: str, now: EndSample) -> float | None:
        kept = self._samples.setdefault(topic, deque(maxlen=SAMPLES))
        self._samples.move_to_end(topic)
        while kept and (now.at_s - kept[0].at_s > OLDEST_S or kept[0].end > now.end):
            kept.popleft()  # an old sample, or a deleted topic of the same name
        if not kept or now.at_s - kept[-1].at_s >= APART_S:
            kept.append(now)
        over_s = now.at_s - kept[0].at_s
        return (now.end - kept[0].end) / over_s if over_s >= LEAST_S else None


class TopicQueries:
    def __init__(self, source: ConsoleSource) -> None:
        self._source = source
        self._rates = OffsetRates()

    def topics(self, clients: WatchClients) -> ConsoleTopics:
        groups = groups_by_topic(self._source.groups(None).groups.values())
        with clients.admin() as admin:
            listed = admin.list_topics(internal=True, timeout_ms=ADMIN_MS)
            listed.sort(key=lambda topic: (topic.internal, topic.name))
            names = [topic.name for topic in listed[:MOST_TOPICS]]
            facts = topic_facts(admin, names, MOST_PARTITIONS, LISTED_OPTIONS)
        names = [name for name in names if name not in facts.described.errors]  # others were deleted meanwhile
        partitions = {name: partition_states(facts, name) for name in names}
        rates = self._rates.add(end_sums(partitions))
        rows = [topic_state(facts, name, partitions[name], groups.get(name, ()), rates) for name in names]
        return ConsoleTopics(topics=rows, left_out=max(0, len(listed) - MOST_TOPICS))

    def topic(self, clients: WatchClients, name: str) -> ConsoleTopic:
        groups = groups_by_topic(self._source.groups(None).groups.values())
        with clients.admin() as admin:
            facts = topic_facts(admin, [name], MOST_PARTITIONS, None)
        partitions = partition_states(facts, name)
        rates = self._rates.add(end_sums({name: partitions}))
        options = facts.options.get(name)
        return ConsoleTopic(
            topic=topic_state(facts, name, partitions, groups.get(name, ()), rates),
            partitions=partitions,
            options=None if options is None else topic_options(options),
        )

    def records(self, query: ApiQuery, name: str) -> ConsoleRecords:
        """Search records. Without parameters, return the last records."""
        clients, text = query.with_clients(), query.params.get("text", "")
        wanted = SearchFilter(text, query.names("in") or PARTS)
        width = MOST_RECORDS if text else MOST_MATCHES
        given = query.params.get("ranges")
        asked = parse_ranges(given) if given else None
        start = _start_of(query)
        with clients.admin() as admin:
            ends = log_ends(admin, name, query.number("partition"))
            ranges = ranges_from(admin, name, ends, start, width) if asked is None else asked
        return find_records(clients.consumer, name, ends, ranges, wanted, width)


def _start_of(query: ApiQuery) -> Start:
    offset, at_ms = query.number("offset"), query.number("time")
    if offset is not None and at_ms is not None:
        raise UsageError("offset and time exclude each other")
    if offset is not None:
        return Start("offset", offset)
    if at_ms is not None:
        return Start("time", at_ms)
    return Start("first") if query.params.get("start") == "first" else Start()


TOPIC_ROUTES: Final[tuple[Route[TopicQueries], ...]] = (
    Route("topics", lambda t, q, _: t.topics(q.with_clients())),
    Route("topics/{}", lambda t, q, names: t.topic(q.with_clients(), names[0])),
    Route("topics/{}/records", lambda t, q, names: t.records(q, names[0])),
)

"""Admin calls with invented responses: any result or documented error is right, a traceback is not."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import cached_property
from typing import Any

from fuzz.entrance import Entrance, Watch, Wrong
from fuzz.entrances.client_answers import ClientAnswers, with_topics
from fuzz.messages import Vocabulary, bytes_of
from fuzz.mutate import mutated
from kohort.client.admin import groups, nodes, offsets, topics, transactions
from kohort.client.admin.operations import AdminMachine
from kohort.client.requests.metadata import Metadata
from kohort.client.requests.source import Unsent
from kohort.errors import ConnectionFailed, KohortError
from kohort.model import TopicPartition
from kohort.wire.apis import api_of
from kohort.wire.codec import decode
from support.machines.consumer_stage import ConsumerStage

HEAD = struct.Struct(">BI")
LASTS_MS = 3_000
PARTITION = TopicPartition("t", 0)
CALLS: tuple[Callable[[Metadata], Any], ...] = (
    lambda metadata: groups.list_groups(metadata, states=(), types=()),
    lambda metadata: groups.describe_groups(metadata, ["g"]),
    lambda metadata: groups.delete_groups(metadata, ["g"]),
    lambda metadata: groups.list_offsets_of_groups(metadata, ["g"]),
    lambda metadata: topics.list_topics(metadata, internal=True),
    lambda metadata: topics.describe_topics(metadata, ["t"]),
    topics.describe_cluster,
    lambda metadata: topics.delete_topics(metadata, ["t"], timeout_ms=100),
    lambda metadata: transactions.describe_transactions(metadata, ["t"]),
    lambda metadata: transactions.fence_producers(metadata, ["t"]),
    lambda metadata: transactions.describe_producers(metadata, [PARTITION]),
    lambda metadata: transactions.abort_transaction(
        metadata, PARTITION, producer_id=1, producer_epoch=0, coordinator_epoch=None
    ),
    lambda metadata: offsets.list_ends(metadata, [PARTITION]),
    lambda metadata: nodes.list_reassignments(metadata, timeout_ms=100),
)


class AdminAnswers(Entrance):
    """Responses to admin calls."""

    name = "admin-answers"
    feeds = "mutated and made-up answers to administrative calls, asked again and again as they wish"

    @cached_property
    def stage(self) -> ConsumerStage:
        return with_topics()

    @property
    def metadata(self) -> Metadata:
        return self.stage.producer.metadata

    @cached_property
    def words(self) -> Vocabulary:
        return ClientAnswers().words

    def generate(self, rng: random.Random) -> bytes:
        return HEAD.pack(rng.randrange(len(CALLS)), rng.randrange(1 << 32))

    def run(self, data: bytes, watch: Watch) -> None:
        if len(data) < HEAD.size:
            return
        call, seed = HEAD.unpack_from(data)
        rng = random.Random(seed)
        try:
            watch.step(lambda: self.played(CALLS[call % len(CALLS)], rng, watch))
        except KohortError as error:
            if not str(error):
                raise Wrong(f"{type(error).__name__} without a message") from error

    def played(self, call: Callable[[Metadata], Any], rng: random.Random, watch: Watch) -> None:
        """Answer an operation's requests until it ends, up to a limit."""
        machine = AdminMachine(self.stage.producer.config, self.metadata, rng)
        now_ms = self.stage.now_ms
        promise = machine.start("it", call(self.metadata), LASTS_MS, now_ms)
        while not promise.done:
            polled = machine.poll(now_ms)
            for unsent in polled.unsent:
                answer = self.answer(unsent, rng, watch)
                if isinstance(answer, KohortError):
                    machine.on_failure(unsent, answer, now_ms)
                else:
                    machine.on_response(unsent, answer, now_ms)
            if not polled.unsent:
                now_ms = max(now_ms + 1, polled.wake_at_ms or 0)
        promise.result()

    def answer(self, ask: Unsent, rng: random.Random, watch: Watch) -> Any:
        """Return a response to a request."""
        watch.inputs += 1
        if rng.random() < 0.05:
            return ConnectionFailed("a liar hung up")
        api = api_of(ask.request)
        version = min(rng.choice((api.high, rng.randint(api.low, api.high))), ask.max_version or api.high)
        body = bytes_of(api.response, version, rng, self.words)
        if rng.random() < 0.3:
            body = mutated(body, rng)
        try:
            return decode(api.response, version, body)[0]
        except KohortError as error:
            return error

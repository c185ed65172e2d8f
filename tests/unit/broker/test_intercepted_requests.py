"""Intercepted requests, and the event EndWaits, which ends the waits of fetches."""

import random

from kohort.broker.broker import Broker
from kohort.broker.io import EndWaits, Serve
from kohort.broker.request import Unanswered
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.broker_stage import BrokerStage


class InterceptingBroker(BrokerStage):
    """A broker that delays each Metadata request."""

    def start(self) -> None:
        self.kept = []
        self.broker = Broker(self.config, self.storage, random.Random(7), self.now_ms, intercept=self.intercept)

    def intercept(self, _node_id, api, request):
        if api.name != "Metadata":
            return None
        self.kept.append(request)
        return Unanswered.LATER


def test_intercepted_request_is_answered_after_the_serve_event():
    stage = InterceptingBroker()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    assert peer.take() is None

    stage.give(Serve(stage.kept.pop()))

    assert peer.take().cluster_id == stage.broker.cluster_id


def test_pipelined_request_waits_for_the_intercepted_request():
    stage = InterceptingBroker()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    peer.send(MetadataRequest(topics=[]), 12)
    assert len(stage.kept) == 1

    stage.give(Serve(stage.kept.pop(0)))

    assert peer.take() is not None
    assert len(stage.kept) == 1


def test_serve_event_after_a_disconnect_has_no_effect():
    stage = InterceptingBroker()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    peer.leave()

    stage.give(Serve(stage.kept.pop()))

    assert peer.take_all() == []


def test_end_waits_event_answers_a_fetch_with_available_records():
    stage = BrokerStage()
    peer = stage.connect()
    peer.create("a")
    assert peer.fetch("a", min_bytes=1, max_wait_ms=60_000) is None

    stage.give(EndWaits())

    answer = peer.take()
    assert answer.error_code == 0
    assert len(stage.broker.state.purgatory) == 0

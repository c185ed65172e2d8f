"""Requests that were kept, and waits that are ended from outside: inputs of the broker like any other."""

import random

from kohort.broker.broker import Broker
from kohort.broker.io import EndWaits, Serve
from kohort.broker.request import Unanswered
from kohort.wire.messages.metadata import MetadataRequest
from support.machines.broker_stage import BrokerStage


class Keeping(BrokerStage):
    """Keeps every Metadata request until it is given back."""

    def start(self) -> None:
        self.kept = []
        self.broker = Broker(self.config, self.storage, random.Random(7), self.now_ms, intercept=self.intercept)

    def intercept(self, _node_id, api, request):
        if api.name != "Metadata":
            return None
        self.kept.append(request)
        return Unanswered.LATER


def test_a_request_that_was_kept_is_answered_when_it_is_given_back():
    stage = Keeping()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    assert peer.take() is None

    stage.give(Serve(stage.kept.pop()))

    assert peer.take().cluster_id == stage.broker.cluster_id


def test_what_came_behind_a_kept_request_is_served_after_it():
    stage = Keeping()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    peer.send(MetadataRequest(topics=[]), 12)
    assert len(stage.kept) == 1

    stage.give(Serve(stage.kept.pop(0)))

    assert peer.take() is not None
    assert len(stage.kept) == 1


def test_nothing_happens_when_the_peer_is_gone():
    stage = Keeping()
    peer = stage.connect()
    peer.send(MetadataRequest(topics=[]), 12)
    peer.leave()

    stage.give(Serve(stage.kept.pop()))

    assert peer.take_all() == []


def test_a_fetch_is_answered_with_what_there_is_when_waits_are_ended():
    stage = BrokerStage()
    peer = stage.connect()
    peer.create("a")
    assert peer.fetch("a", min_bytes=1, max_wait_ms=60_000) is None

    stage.give(EndWaits())

    answer = peer.take()
    assert answer.error_code == 0
    assert len(stage.broker.state.purgatory) == 0

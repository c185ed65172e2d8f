"""A consumer group member on two brokers that sends valid and invalid requests."""

from __future__ import annotations

import random
from typing import Any

from kohort.wire.messages.group_consumer import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from support.differential.modern.both import Both

Places = dict[bytes, list[int]]
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
VALID_REGEXES = ("a-MARK.*", "[ab]-MARK", "nothing", r"[[:alpha:]]\D*MARK", "[^d]-MARK", "")
REGEXES = (*VALID_REGEXES[:-1], "a(", "(?=a)", "*b", "a++", "")


def _owned_partitions(places: Places) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=t, partitions=p) for t, p in places.items()]


class ModernMember:
    """A consumer group member with the values of its last responses."""

    def __init__(self, both: Both, chance: random.Random, name: str, group: str, topics: list[str]) -> None:
        self.both = both
        self.chance = chance
        self.name = name
        self.group = group
        self.topics = topics
        """All topics, existing or not."""
        self.member_id = self.new_id()
        self.instance_id = f"i{chance.randrange(3)}" if chance.random() < 0.25 else None
        self.epoch = 0
        self.has: Places = {}
        self.had: Places = {}
        self.assignors: tuple[str, ...] = ("uniform",)
        """Server assignors that it may request. One per group: with equal votes Kafka's choice is random."""
        self.regexes: tuple[str, ...] = REGEXES
        self.names: list[str] | None = None
        self.regex: str | None = None

    def new_id(self) -> str:
        return "".join(self.chance.choices(ALPHABET, k=22))

    def act(self) -> None:
        """Send a valid or an invalid request."""
        if self.epoch == 0:
            self.join()
            return
        well = (self.heartbeat, self.heartbeat, self.acknowledge, self.acknowledge, self.acknowledge, self.full)
        ill = (
            self.stale,
            self.wrong_owned,
            self.resubscribe,
            self.resubscribe,
            self.prefer,
            self.leave,
            self.leave_for_a_while,
            self.rejoin,
            self.lose_answer,
            self.replace,
            self.nonsense,
            self.move_rack,
        )
        self.chance.choice(well if self.chance.random() < 0.65 else ill)()

    def send(self, *, learns: bool = True, version: int = 1, **fields: Any) -> Any:
        all_fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch} | fields
        answer = self.both.ask(self.name, ConsumerGroupHeartbeatRequest(**all_fields), version).get(self.name)
        if learns and isinstance(answer, ConsumerGroupHeartbeatResponse):
            self._learn(answer)
        return answer

    def _learn(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code in (25, 69, 82, 110):
            self.epoch, self.has, self.had = 0, {}, {}
            if answer.error_code == 82:
                self.member_id = self.new_id()
        if answer.error_code:
            return
        self.epoch = max(answer.member_epoch, 0)
        if answer.assignment is not None:
            self.had = self.has
            self.has = {t.topic_id: list(t.partitions) for t in answer.assignment.topic_partitions}

    def _choose(self, *, least: int = 0) -> None:
        """Choose a subscription: names, a pattern, or both."""
        count = self.chance.choice((least, 1, 1, 2, 2, 3, len(self.topics)))
        self.names = self.chance.sample(self.topics, min(count, len(self.topics)))
        self.regex = None
        if self.chance.random() < 0.15:
            self.regex = self.chance.choice(self.regexes).replace("MARK", self.both.mark)
        if self.regex is not None and not least and self.chance.random() < 0.7:
            self.names = None

    def join(self, **fields: Any) -> None:
        """Join by names: without names, Kafka's assignment depends on earlier members."""
        if not self.names or self.chance.random() < 0.2:
            self._choose(least=1)
        all_fields: dict[str, Any] = {
            "member_epoch": 0,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": self.names,
            "subscribed_topic_regex": self.regex,
            "server_assignor": self.chance.choice(self.assignors) if self.chance.random() < 0.3 else None,
            "topic_partitions": [],
        }
        self.send(**(all_fields | fields))

    def heartbeat(self) -> None:
        self.send()

    def acknowledge(self) -> None:
        self.send(topic_partitions=_owned_partitions(self.has))

    def full(self) -> None:
        self.send(
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=self.names,
            subscribed_topic_regex=self.regex,
            topic_partitions=_owned_partitions(self.has),
        )

    def stale(self) -> None:
        epoch = self.epoch + self.chance.choice((-1, -1, 1, 5, -self.epoch + 1))
        owned = self.chance.choice((None, _owned_partitions(self.has), _owned_partitions(self.had), []))
        self.send(member_epoch=max(epoch, 1), topic_partitions=owned, learns=self.chance.random() < 0.5)

    def wrong_owned(self) -> None:
        owned = {t: self.chance.sample(p, self.chance.randint(0, len(p))) for t, p in self.has.items()}
        if self.chance.random() < 0.5:
            owned[self.chance.choice([*self.both.words.topics])] = [self.chance.randrange(8)]
        self.send(topic_partitions=_owned_partitions(owned))

    def resubscribe(self) -> None:
        self._choose()
        self.send(subscribed_topic_names=self.names, subscribed_topic_regex=self.regex)

    def prefer(self) -> None:
        self.send(server_assignor=self.chance.choice(self.assignors))

    def move_rack(self) -> None:
        self.send(rack_id=self.chance.choice(("r1", "r2", "", " ")))

    def leave(self) -> None:
        self.send(member_epoch=-1, instance_id=self.instance_id if self.chance.random() < 0.5 else None)

    def leave_for_a_while(self) -> None:
        self.send(member_epoch=-2, instance_id=self.instance_id)
        if self.instance_id is not None and self.chance.random() < 0.5:
            self.member_id = self.new_id()

    def rejoin(self) -> None:
        self.join()

    def lose_answer(self) -> None:
        owned = self.chance.choice((None, _owned_partitions(self.has)))
        self.send(topic_partitions=owned, learns=False)

    def replace(self) -> None:
        """Start another process: it takes over the instance id, or else is a second member and the first is silent."""
        if self.instance_id is None and self.chance.random() < 0.7:
            self.instance_id = f"i{self.chance.randrange(3)}"
        self.member_id = self.new_id()
        self.join()

    def nonsense(self) -> None:
        self.send(
            learns=False,
            **self.chance.choice(
                (
                    {"group_id": ""},
                    {"group_id": " "},
                    {"member_id": ""},
                    {"member_id": " "},
                    {"member_id": "nobody"},
                    {"member_epoch": -3},
                    {"member_epoch": -2, "instance_id": None},
                    {"member_epoch": -2, "instance_id": "nobody"},
                    {"member_epoch": -1, "member_id": "nobody"},
                    {"instance_id": ""},
                    {"instance_id": "nobody"},
                    {"instance_id": "i1"},
                    {"member_epoch": 0},
                    {"member_epoch": 0, "rebalance_timeout_ms": 5000},
                    {"member_epoch": 0, "rebalance_timeout_ms": 5000, "topic_partitions": []},
                    {"group_id": f"none-{self.both.mark}"},
                    {"group_id": f"none-{self.both.mark}", "member_epoch": -1},
                    {"rebalance_timeout_ms": 0},
                    {"subscribed_topic_names": []},
                    {"subscribed_topic_names": [self.topics[0], self.topics[0]]},
                    {"subscribed_topic_names": ["no such topic!"]},
                )
            ),
        )

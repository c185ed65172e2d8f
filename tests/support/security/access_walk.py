"""Send every request with every relevant set of ACLs to a secured cluster; collect responses and effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kohort.broker.dispatch import SERVED
from kohort.security.acls import Permission, ResourceType
from kohort.wire.messages.acls import DescribeAclsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from kohort.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kohort.wire.messages.log_dirs import DescribeLogDirsRequest
from kohort.wire.messages.quotas import DescribeClientQuotasRequest, QuotaFilterComponent
from kohort.wire.messages.sasl import (
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    UserName,
)
from kohort.wire.messages.transactions import DescribeTransactionsRequest
from support.differential.harness import Names
from support.raw.broker_under_test import BrokerUnderTest, settle
from support.raw.raw_client import RawClient
from support.raw.transactional import Transactional
from support.security.access import Grant, all_of, grant, take_all
from support.security.api_levels import at_both_ends
from support.security.api_requests import ApiCall, Right, Things, calls
from support.security.secured_cluster import PASSWORDS, SecuredCluster
from support.waiting import eventually

USER = "bob"
SCRATCH_USER = "nobody"
"""User of requests that alter quotas, credentials and ACLs."""
EXACT = 0
"""Match type of a quota filter: exact name."""
CLOSED = "the connection is closed"
SILENCE = "no answer"
SILENCE_S = 5.0


class Variation(NamedTuple):
    """Operations that are allowed and explicitly denied."""

    allowed: tuple[Right, ...]
    denied: tuple[Right, ...] = ()

    def __str__(self) -> str:
        names = [f"{operation.name} {kind.name}" for operation, kind in self.allowed]
        refused = [f"not {operation.name} {kind.name}" for operation, kind in self.denied]
        return ", ".join([*names, *refused]) or "nothing"


def variations(call: ApiCall) -> Iterator[Variation]:
    """Yield: no right; each right alone; each sufficient set; each sufficient set with one right denied."""
    yield Variation(())
    single = sorted({right for needed in call.needs for right in needed})
    yield from (Variation((right,)) for right in single)
    for needed in call.needs:
        rights = tuple(sorted(needed))
        yield from (Variation(rights, (right,)) for right in rights)
        if len(rights) > 1:
            yield Variation(rights)


class LoggedIn(RawClient):
    """A connection with a PLAIN login."""

    def __init__(self, address: str, user: str) -> None:
        super().__init__(address, "walker")
        self.socket.settimeout(SILENCE_S)
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{PASSWORDS[user]}".encode()
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert answer.error_code == 0, answer


class WalkedCluster:
    """One cluster, the objects of the requests, and the user."""

    def __init__(self, cluster: SecuredCluster) -> None:
        self._cluster = cluster
        self._wire = LoggedIn(cluster.addresses["SASLP"], USER)
        self._folder = self._log_folder()
        self.renew()

    def close(self) -> None:
        self._wire.close()
        self._broker.close()
        take_all(self._cluster.setup, USER)

    def renew(self) -> None:
        """Create new objects: the last request may have changed the old ones."""
        self._broker: BrokerUnderTest
        if hasattr(self, "_broker"):
            self._broker.close()
        self._broker = BrokerUnderTest(self._cluster.setup)
        broker = self._broker
        topic = broker.topic("t", 2)
        broker.wire.produce(topic, b"first", b"second")
        group, empty = broker.group("g"), broker.group("e")
        member = broker.member(group, topic)
        member.join()
        member.joined()
        settle(member, plan={member.member_id: b"its part"})
        assert broker.commit(group, topic, {0: 1}, member_id=member.member_id,
                             generation_id_or_member_epoch=member.generation) == [0]  # fmt: skip
        assert broker.commit(empty, topic, {0: 1}) == [0]
        writer = Transactional(broker, f"x-{broker.mark}")
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[writer.transactional_id])
        eventually(lambda: broker.ask(request, 4).coordinators[0].error_code == 0, "no coordinator of transactions")
        eventually(lambda: writer.init() == 0, "the coordinator of transactions does not serve")
        writer.send(topic, b"open", partition=1)
        self.things = Things(
            topic, broker.topic_id(topic), f"n-{broker.mark}", group, member.member_id, member.generation, empty,
            writer.transactional_id, writer.producer_id, writer.epoch, self._folder,
        )  # fmt: skip
        self.names = Names(broker.mark)
        self.names.topic_ids[self.things.topic_id] = "the id of t"

    def _log_folder(self) -> str:
        with RawClient(self._cluster.setup) as wire:
            answer = wire.ask(DescribeLogDirsRequest(topics=None), 2)
            folder: str = answer.results[0].log_dir
            return folder

    def calls(self) -> list[ApiCall]:
        return list(at_both_ends(call for call in calls(self.things) if type(call.message).API_KEY in SERVED))

    def give(self, variation: Variation) -> None:
        """Replace the user's rights."""
        setup = self._cluster.setup
        take_all(setup, USER)
        grants = [
            Grant(kind, name, operation, permission)
            for rights, permission in ((variation.allowed, Permission.ALLOW), (variation.denied, Permission.DENY))
            for operation, kind in rights
            for name in self.things.named(kind)
        ]
        if grants:
            grant(setup, USER, grants)

    def ask(self, call: ApiCall) -> Any:
        """Send the request; return the response as plain data."""
        try:
            return self.names.plain(self._wire.ask(call.message, call.version))
        except TimeoutError:
            found = SILENCE
        except (EOFError, ConnectionError):
            found = CLOSED
        self._wire.close()
        self._wire = LoggedIn(self._cluster.addresses["SASLP"], USER)
        return found

    def effects(self) -> dict[str, Any]:
        """Return the state that requests could have changed."""
        broker, things = self._broker, self.things
        topic = broker._described(things.topic)
        made = broker._described(things.new_topic)
        user = [UserName(name=SCRATCH_USER)]
        quotas = QuotaFilterComponent(entity_type="user", match_type=EXACT, match=SCRATCH_USER)
        found = {
            "topic": (topic.error_code, len(topic.partitions)),
            "new topic": (made.error_code, len(made.partitions)),
            "group": (broker.state(things.group), len(broker.describe(things.group).members)),
            "transaction": broker.ask(DescribeTransactionsRequest(transactional_ids=[things.transactional_id]), 0)
            .transaction_states[0].transaction_state,
            "quotas": DescribeClientQuotasRequest.API_KEY in SERVED
            and repr(broker.ask(DescribeClientQuotasRequest(components=[quotas]), 1).entries),
            "credentials": [
                (r.error_code, len(r.credential_infos))
                for r in broker.ask(DescribeUserScramCredentialsRequest(users=user), 0).results
            ],
            "ACLs": len(broker.ask(DescribeAclsRequest(**all_of(SCRATCH_USER)), 3).resources),
        }  # fmt: skip
        if topic.error_code == 0:
            found["retention"] = broker._option(int(ResourceType.TOPIC), things.topic, "retention.ms")
            found["ends"] = [self._offset(partition, at) for partition, at in ((0, -2), (0, -1), (1, -1))]
            found["committed"] = self._committed()
        return found

    def _offset(self, partition: int, at: int) -> tuple[int, int]:
        request_partition = ListOffsetsPartition(partition_index=partition, timestamp=at)
        topics = [ListOffsetsTopic(name=self.things.topic, partitions=[request_partition])]
        answer = self._broker.ask(ListOffsetsRequest(replica_id=-1, topics=topics), 6).topics[0].partitions[0]
        return answer.error_code, answer.offset

    def _committed(self) -> list[list[int]]:
        groups = (self.things.group, self.things.empty_group)
        return [self._broker.committed(group, self.things.topic, [0]) for group in groups]

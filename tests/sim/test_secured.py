"""Secured broker: no unauthorized effect while ACLs, quotas and users change, and recovery afterwards."""

from pathlib import Path
from typing import Any

import pytest

from kohort.errors import ErrorCode
from kohort.wire.apis import api_of
from kohort.wire.messages.group_classic import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.produce import ProduceRequest, ProduceResponse
from kohort.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from kohort_lab.sim.checks.broken import CheckFailed
from kohort_lab.sim.checks.denials import DenialsHold
from kohort_lab.sim.checks.logins import KnownUsers
from kohort_lab.sim.checks.throttles import Throttles
from kohort_lab.sim.checks.watcher import Exchange
from kohort_lab.sim.world import START_MS, World
from kohort_lab.sim.worlds.secured import run_secured

EVERY_RUN = (0, 3, 4, 11, 12, 17, 29, 31)
MORE = range(120)
CHUNK = 12
EVER_FAILED = [int(line.split()[0]) for line in Path(__file__).with_name("secured.txt").read_text().splitlines()]
READ_GROUP = ("READ", "GROUP", "g")


@pytest.mark.slow
@pytest.mark.campaign
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", MORE[::CHUNK])
def test_group_survives_denials_and_settles_after_them(first):
    for seed in range(first, first + CHUNK):
        run = run_secured(seed)

        assert run.producer.acknowledged or run.producer.failed, f"seed {seed}"


@pytest.mark.parametrize("seed", EVER_FAILED)
def test_formerly_failed_seed_passes(seed):
    run_secured(seed)


def test_many_seeds_survive_denials_rejected_logins_and_throttling():
    throttled = refused = kept_out = 0
    for seed in EVERY_RUN:
        run = run_secured(seed)
        assert run.producer.acknowledged or run.producer.failed, f"seed {seed}"
        throttled += run.throttles.reported
        refused += run.denials.refused
        kept_out += run.known_users.refused

    assert throttled > 10
    assert refused > 100
    assert kept_out > 2


class StoredSection:
    def __init__(self, *entries):
        self.entries = list(entries)

    def section(self, _name):
        return self.entries


def deny(principal="User:c0", pattern="LITERAL", name="g", operation="READ", kind="GROUP"):
    return {
        "resourceType": kind,
        "resourceName": name,
        "patternType": pattern,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permissionType": "DENY",
    }


def exchange(request, answer, sent_ms, link_id=1):
    return Exchange("c0", link_id, api_of(request), 4, 1, sent_ms, request, answer)


def denials(world, *acls):
    check: Any = DenialsHold(world, "g", {"c0": "c0"}, {"c0": [READ_GROUP]})
    check.security = lambda: StoredSection(*acls)
    check.look()
    return check


@pytest.mark.parametrize(
    "acl",
    [
        deny(),
        deny("User:*"),
        deny(operation="ALL"),
        deny(name="*"),
        deny(pattern="PREFIXED"),
    ],
)
def test_success_after_a_denial_fails_the_check(acl):
    world = World(1)
    check = denials(world, acl)

    with pytest.raises(CheckFailed, match="Heartbeat of c0 is answered NONE, but READ GROUP g was denied before"):
        check.answered(exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), START_MS + 1))
    denied = HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    check.answered(exchange(HeartbeatRequest(group_id="g"), denied, START_MS + 1))
    assert check.refused == 1


@pytest.mark.parametrize(
    "acl",
    [
        deny("User:c1"),
        deny(name="h"),
        deny(operation="DELETE"),
        deny(kind="TOPIC"),
        deny(pattern="PREFIXED", name="gg"),
    ],
)
def test_denials_for_other_users_or_resources_do_not_count(acl):
    denials(World(1), acl).answered(exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), START_MS + 1))


def test_request_sent_before_the_denial_may_succeed():
    check = denials(World(1), deny())

    check.answered(exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), START_MS))
    check.security = StoredSection
    check.answered(exchange(HeartbeatRequest(group_id="g"), HeartbeatResponse(), START_MS + 1))


def test_response_within_the_throttle_time_fails_the_check():
    check = Throttles()
    check.now_ms = lambda: 1_000
    check.answered(exchange(ProduceRequest(), ProduceResponse(throttle_time_ms=500), 900))
    assert check.longest_remaining_ms == 500

    check.answered(exchange(HeartbeatRequest(), HeartbeatResponse(), 900, link_id=2))
    with pytest.raises(CheckFailed, match="Produce of c0 is answered 500 ms before the end of its throttle time"):
        check.answered(exchange(ProduceRequest(), ProduceResponse(), 900))
    check.now_ms = lambda: 1_500
    check.answered(exchange(ProduceRequest(), ProduceResponse(), 900))

    check.check_reported(500)
    with pytest.raises(CheckFailed, match="throttled clients for 700 ms in total, but reported 500 ms"):
        check.check_reported(700)

    check.answered_dead_client(exchange(ProduceRequest(), ProduceResponse(throttle_time_ms=200), 900, link_id=3))
    check.check_reported(700)
    assert check.longest_remaining_ms == 0


def test_login_of_a_removed_user_fails_the_check():
    check: Any = KnownUsers(World(1), {"c0": "c0", "c1": "c1"})
    check.security = lambda: StoredSection({"name": "c1"})
    check.look()

    check.check_user_exists("c1", START_MS + 1, ErrorCode.NONE)
    check.check_user_exists("c0", START_MS, ErrorCode.NONE)
    check.check_user_exists("c0", START_MS + 1, ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert check.refused == 1
    with pytest.raises(CheckFailed, match="c0 logs in, but its user was removed before"):
        check.check_user_exists("c0", START_MS + 1, ErrorCode.NONE)

    check.requested(exchange(SaslHandshakeRequest(), SaslHandshakeResponse(), START_MS))
    refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    refused = exchange(SaslAuthenticateRequest(), refusal, START_MS)
    refused.answered_ms = START_MS + 1
    check.answered(refused)
    assert check.answered_ms == {"c0": START_MS + 1}

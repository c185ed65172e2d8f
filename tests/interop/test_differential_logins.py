"""The same bytes to Apache Kafka and to our broker in every state of a login: what they make of them is the same.

What may differ stands in tests/support/differential/login_differences.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import pytest

from support.differential.differences import is_allowed
from support.differential.harness import unequal
from support.differential.login_differences import is_allowed_of_logins
from support.security import login_cases
from support.security.login_walk import Case, play, resume
from support.security.secured_cluster import SecuredCluster
from support.security.tokens import Issuer

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(900)]


def cases_of(walk: Callable[[], Iterable[Case]]) -> Callable[[Issuer], Iterable[Case]]:
    return lambda _issuer: walk()


WALKS: dict[str, Callable[[Issuer], Iterable[Case]]] = {
    "every API in every state": cases_of(login_cases.every_api_in_every_state),
    "odd frames": cases_of(login_cases.odd_frames),
    "handshakes": cases_of(login_cases.handshakes),
    "PLAIN": cases_of(login_cases.plain_tokens),
    "SCRAM": cases_of(login_cases.scram_tokens),
    "OAUTHBEARER": login_cases.oauth_tokens,
    "sessions": cases_of(login_cases.sessions),
}


def judge(transcripts: Iterable[tuple[str, list[object], list[object]]]) -> None:
    """Count the cases, and fail with all where two transcripts differ and may not."""
    count, allowed, found = 0, 0, []
    for name, ours, theirs in transcripts:
        count += 1
        parts = [
            f"{name}: {path}: ours {a!r}, theirs {b!r}"
            for path, a, b in unequal(ours, theirs, "answer")
            if not is_allowed("", path, a, b)
        ]
        if parts and is_allowed_of_logins(name, ours, theirs):
            allowed += 1
        else:
            found += parts
    counted = f"{count} cases, {allowed} differ as they may, {len(found)} as they may not"
    print(counted)
    assert count > 0
    assert found == [], "\n".join([counted, *found])


@pytest.mark.parametrize("walk", WALKS)
def test_a_login_goes_as_with_apache_kafka(
    walk: str, secured_ours: SecuredCluster, secured_apache: SecuredCluster
) -> None:
    ours, theirs = [WALKS[walk](cluster.issuer) for cluster in (secured_ours, secured_apache)]
    judge(
        (
            mine.name,
            play(mine, secured_ours.addresses[mine.listener]),
            play(other, secured_apache.addresses[other.listener]),
        )
        for mine, other in zip(ours, theirs, strict=True)
    )


def test_a_new_login_goes_as_with_apache_kafka(secured_ours: SecuredCluster, secured_apache: SecuredCluster) -> None:
    cases = list(login_cases.later_sessions())
    ours, theirs = [
        [login_cases.logged_in(cluster.addresses[case.listener]) for case in cases]
        for cluster in (secured_ours, secured_apache)
    ]
    time.sleep(1.1)  # by the protocol what follows a login within a second is no new one
    judge(
        (case.name, resume(case, mine), resume(case, other))
        for case, mine, other in zip(cases, ours, theirs, strict=True)
    )

"""Every API, at its lowest and its highest version, by a user with every set of rights that matters: Apache Kafka and
our broker answer the same, at the same level, and what is refused has no effect.

What may differ stands in tests/support/differential/access_differences.py, and in ``differences.py`` beside it.
"""

from __future__ import annotations

import pytest

from support.differential.access_differences import is_allowed_of_access
from support.differential.differences import is_allowed
from support.differential.harness import unequal
from support.security.access_walk import Variation, WalkedCluster, variations
from support.security.api_requests import ApiCall
from support.security.secured_cluster import SecuredCluster
from support.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(1800)]


def differences(call: ApiCall, variation: Variation, ours: object, theirs: object) -> list[str]:
    """Describe the differences of two responses that are not allowed."""
    request = type(call.message).__name__
    return [
        f"{call.name} with {variation}: {path}: ours {a!r}, theirs {b!r}"
        for path, a, b in unequal(ours, theirs, "")
        if not is_allowed(request, path, a, b) and not is_allowed_of_access(request, path, a, b)
    ]


def test_responses_of_all_apis_match_apache_kafka_for_all_rights(
    secured_ours: SecuredCluster, secured_apache: SecuredCluster
) -> None:
    ours, theirs = WalkedCluster(secured_ours), WalkedCluster(secured_apache)
    count, refused, found = 0, 0, list[str]()
    try:
        for number, call in enumerate(ours.calls()):
            used = False
            for variation in variations(call):
                if used:
                    ours.renew()
                    theirs.renew()
                for ground in (ours, theirs):
                    ground.give(variation)
                before = ours.effects()
                mine, other = [ground.calls()[number] for ground in (ours, theirs)]
                response, expected = ours.ask(mine), theirs.ask(other)
                count += 1
                found += differences(call, variation, response, expected)
                used = mine.is_allowed_by(set(variation.allowed) - set(variation.denied)) and bool(call.needs)
                if used:
                    try:
                        eventually(lambda: ours.effects() == theirs.effects(), deadline_s=5)
                    except AssertionError:
                        effects = unequal(ours.effects(), theirs.effects(), "effect")
                        found += [f"{call.name} with {variation}: {p}: ours {a!r}, theirs {b!r}" for p, a, b in effects]
                else:
                    refused += 1
                    if (after := ours.effects()) != before:
                        found.append(f"{call.name} with {variation} had an effect: {before} became {after}")
    finally:
        ours.close()
        theirs.close()
    counted = f"{count} requests, {refused} of them not allowed, {len(found)} differences"
    print(counted)
    assert found == [], "\n".join([counted, *found])

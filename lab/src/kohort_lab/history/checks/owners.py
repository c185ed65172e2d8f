"""Ownership check: a partition has one owner at a time, by the clock that the members share.

Ownership lasts from the assignment until the end of the revocation, or until the client exits. A member that revokes
on request of the coordinator is still a member, so any overlap is an anomaly. A member that is slow, finds out by
itself that it was removed (``lost``), closes or dies may have been removed earlier: in a classic group, one session
timeout after its last acknowledged commit.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from kohort_lab.history.facts import NEVER, SILENT_US, GroupFacts, HistoryFacts, Holding

TOGETHER_US: Final = 5_000_000
"""Members that see one generation within this time share one life of their group, in microseconds.

A deleted and recreated group restarts its generations.
"""


def check_owners(facts: HistoryFacts) -> None:
    for group in facts.groups.values():
        for log, holdings in group.holdings.items():
            open_holdings: list[Holding] = []
            for holding in sorted(holdings, key=lambda h: (h.since, h.line)):
                open_holdings = [h for h in open_holdings if _until(facts, h) > holding.since]
                for earlier in open_holdings:
                    if earlier.client != holding.client and facts.same_clock(earlier.client, holding.client):
                        _judge(facts, group, log, earlier, holding)
                open_holdings.append(holding)


def _until(facts: HistoryFacts, holding: Holding) -> int:
    return facts.clients[holding.client].last_at if holding.until == NEVER else holding.until


def _judge(facts: HistoryFacts, group: GroupFacts, log: int, earlier: Holding, later: Holding) -> None:
    client = facts.clients[earlier.client]
    if client.instance and client.instance == facts.clients[later.client].instance:
        return  # a static member's replacement keeps the generation; the replaced member is fenced later
    in_one = group.classic and earlier.generation == later.generation >= 0
    if in_one and later.since - earlier.since < TOGETHER_US:
        pass  # a generation assigns a partition once, even to a zombie
    elif group.classic and 0 <= later.generation < earlier.generation and later.revoked < 0:
        return  # the process was frozen before it saw its earlier assignment, and was removed meanwhile
    elif earlier.revoked >= later.since:
        if client.silent_us(later.since) >= (client.session_us or SILENT_US):
            return  # the process was frozen, and revoked before it learned of its removal
    else:
        contacts = client.contacts
        last = bisect_left(contacts, later.since) - 1
        if client.session_us is None or last < 0 or later.since >= contacts[last] + client.session_us:
            return
    who = facts.clients[later.client].name
    why = f"{who} is assigned {facts.logs.all[log]} of {group.name!r} (generation {later.generation}) "
    why += f"while {client.name} (generation {earlier.generation}) owns it"
    facts.anomalies.add("two-owners", why, earlier.line, later.line, earlier.end_line)

"""A partition has one owner at a time, by the clock that its members share.

A member has it from when it is told so until it has given it up, or is gone. Whoever was told to by its coordinator was
a member then, so nobody else can have had the partition before. Whoever takes long to do so, or found out by itself
that it is no member any more (``lost``, a client that closes or dies), may have been one no longer: then what counts is
for how long the coordinator had to count it in: in a classic group for its session after the last acknowledged commit.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from kohort_lab.history.facts import NEVER, SILENT_US, GroupFacts, HistoryFacts, Holding

TOGETHER_US: Final = 5_000_000
"""Members that are told of one generation within so long are of one life of their group: a group that was deleted and
made again counts from the beginning."""


def check_owners(facts: HistoryFacts) -> None:
    """Note partitions that two members had at one time."""
    for group in facts.groups.values():
        for log, holdings in group.holdings.items():
            held: list[Holding] = []
            for holding in sorted(holdings, key=lambda h: (h.since, h.line)):
                held = [h for h in held if _until(facts, h) > holding.since]
                for earlier in held:
                    if earlier.client != holding.client and facts.same_clock(earlier.client, holding.client):
                        _judge(facts, group, log, earlier, holding)
                held.append(holding)


def _until(facts: HistoryFacts, holding: Holding) -> int:
    return facts.clients[holding.client].last_at if holding.until == NEVER else holding.until


def _judge(facts: HistoryFacts, group: GroupFacts, log: int, earlier: Holding, later: Holding) -> None:
    client = facts.clients[earlier.client]
    if client.instance and client.instance == facts.clients[later.client].instance:
        return  # of one instance id the newcomer takes the place, in the same generation; the other learns of it later
    in_one = group.classic and earlier.generation == later.generation >= 0
    if in_one and later.since - earlier.since < TOGETHER_US:
        pass  # a generation gives a partition once, to whoever is a zombie or not
    elif group.classic and 0 <= later.generation < earlier.generation and later.revoked < 0:
        return  # it stood still on its way to what an earlier generation gave it, and found out then
    elif earlier.revoked >= later.since:
        if client.silent_us(later.since) >= (client.session_us or SILENT_US):
            return  # it stood still, came back, and asked before it was told that it is no member any more
    else:
        contacts = client.contacts
        last = bisect_left(contacts, later.since) - 1
        if client.session_us is None or last < 0 or later.since >= contacts[last] + client.session_us:
            return
    who = facts.clients[later.client].name
    why = f"{who} is given {facts.logs.all[log]} of {group.name!r} (generation {later.generation}) while {client.name} "
    why += f"(generation {earlier.generation}) has it"
    facts.anomalies.add("two-owners", why, earlier.line, later.line, earlier.end_line)

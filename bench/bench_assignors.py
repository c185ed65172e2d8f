"""Assignors: time of an assignment, and number of moved partitions when a member joins.

    python bench/bench_assignors.py [--large] [--json]

``fresh`` is a group's first assignment, ``rejoin`` the same members with their owned partitions, ``joins`` adds one
member. The sticky assignors are compared with their plain form (``tests/support/plain_sticky.py``): ``ratio`` is the
slow-down of the plain form. ``--large`` adds a million partitions; the plain form does not finish these with unequal
subscriptions. Seconds of CPU, the best of three (of one if large).
"""

from __future__ import annotations

import argparse
import base64
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kohort.assignors import cooperative, sticky
from kohort.assignors.server.builtin import SERVER_ASSIGNORS
from kohort.assignors.server.spec import MemberSpec
from kohort.assignors.spec import Assignment, MemberSubscription, SubscribedTopics

ROUNDS = 3
STICKY = ((100, 1_600, 100), (1, 160_000, 100), (1_000, 160, 100))
"""Topics, partitions of each, members."""
LARGE = (500, 2_000, 2_000)
SERVER = ((1_000, 1_000, 1), (10_000, 10_000, 1), (10_000, 10_000, 100))
"""Members, partitions, topics."""
Group = list[MemberSubscription]
Assign = Callable[[SubscribedTopics, Group], Assignment]


def timed(rounds: int, work: Callable[[], Any]) -> tuple[float, Any]:
    best, result = float("inf"), None
    for _ in range(rounds):
        start = time.process_time()
        result = work()
        best = min(best, time.process_time() - start)
    return best, result


def plainly() -> Mapping[str, Assign]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.plain_sticky import plain_cooperative, plain_sticky

    return {"sticky": plain_sticky, "cooperative-sticky": plain_cooperative}


def stages(module: Any, topics: SubscribedTopics, members: Group) -> dict[str, Group]:
    """Return the group at its first assignment, after it, and with one more member."""
    before = module.assign(topics, members)
    rejoining = [
        MemberSubscription(
            m.member_id, m.topics, owned=tuple(before[m.member_id]), generation=1,
            user_data=module.user_data(before[m.member_id], 1),
        )
        for m in members
    ]  # fmt: skip
    return {"fresh": members, "rejoin": rejoining, "joins": [*rejoining, MemberSubscription("new", members[0].topics)]}


def sticky_results(shape: tuple[int, int, int], *, mixed: bool = False, rounds: int = ROUNDS) -> dict[str, Any]:
    count, partitions, size = shape
    names = tuple(f"t{i}" for i in range(count))
    topics = SubscribedTopics(dict.fromkeys(names, partitions))
    members = [MemberSubscription(f"c{i}", names) for i in range(size)]
    if mixed:
        members.append(MemberSubscription(f"c{size}", names[:1]))
    plain = plainly()
    results: dict[str, Any] = {}
    for name, module in {"sticky": sticky, "cooperative-sticky": cooperative}.items():
        for stage, group in stages(module, topics, members).items():
            took, found = timed(rounds, lambda g=group, m=module: m.assign(topics, g))
            results[f"{name}, {stage}"] = {"s": round(took, 3)}
            if rounds == ROUNDS:
                plainly_took, expected = timed(1, lambda g=group, n=name: plain[n](topics, g))
                assert found == expected
                results[f"{name}, {stage}"] |= {
                    "plain_s": round(plainly_took, 3),
                    "ratio": round(plainly_took / took, 1),
                }
    return results


def server_results(size: int, partitions: int, topics: int) -> dict[str, Any]:
    rng = random.Random(1)
    ids = [base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=") for _ in range(size + 1)]
    counts = {rng.randbytes(16): partitions // topics for _ in range(topics)}
    targets = frozenset(counts)
    results: dict[str, Any] = {}
    for name, assignor in SERVER_ASSIGNORS.items():
        members = {member: MemberSpec(targets) for member in ids[:-1]}
        fresh, before = timed(ROUNDS, lambda a=assignor, m=members: a.assign(m, counts))
        members = {member: MemberSpec(targets, before[member]) for member in ids[:-1]}
        again, _ = timed(ROUNDS, lambda a=assignor, m=members: a.assign(m, counts))
        members[ids[-1]] = MemberSpec(targets)
        joins, after = timed(ROUNDS, lambda a=assignor, m=members: a.assign(m, counts))
        moved = sum(len(p - after[m].get(t, frozenset())) for m in before for t, p in before[m].items())
        results[name] = {
            "fresh_s": round(fresh, 4),
            "rejoin_s": round(again, 4),
            "joins_s": round(joins, 4),
            "moved": moved,
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {
        f"{size:,} members, {count:,} x {partitions:,} partitions": sticky_results((count, partitions, size))
        for count, partitions, size in STICKY
    }
    if options.large:
        results["2,000 members, 500 x 2,000 partitions"] = sticky_results(LARGE, rounds=1)
        results["2,001 members, 500 x 2,000 partitions, one wants one topic"] = sticky_results(
            LARGE, mixed=True, rounds=1
        )
    for size, partitions, topics in SERVER:
        results[f"server-side, {size:,} members, {partitions:,} partitions of {topics} topics"] = server_results(
            size, partitions, topics
        )
    if options.json:
        print(json.dumps(results))
        return
    for shape, figures in results.items():
        print(shape)
        for name, figure in figures.items():
            print(f"  {name:28} " + "  ".join(f"{k} {v}" for k, v in figure.items()))


if __name__ == "__main__":
    main()

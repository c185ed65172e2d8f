"""Timers and waiting requests: cost of one among a thousand, ten thousand and a hundred thousand.

    python bench/bench_timers.py [--json]

``set`` creates a timer, ``move`` postpones one (as every heartbeat does to a session), ``cancel`` removes one, ``fire``
runs a due one. ``park`` is a fetch that starts to wait, ``wake`` the append that answers it, ``forget`` the close of a
connection with a waiting fetch. Microseconds of CPU each, the best of three.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from kohort.broker.purgatory import Parked, Purgatory
from kohort.broker.request import ReplyTo
from kohort.clock import Timers

SIZES = (1_000, 10_000, 100_000)
SESSION_MS = 45_000
ROUNDS = 3


def timed(count: int, work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return (time.process_time() - start) / count * 1e6


def timers(count: int) -> dict[str, float]:
    rng = random.Random(count)
    made: Timers[int] = Timers()
    deadlines = [rng.randrange(SESSION_MS) for _ in range(count)]
    order = rng.sample(range(count), count)

    def fill() -> None:
        for key, at_ms in enumerate(deadlines):
            made.set(key, at_ms)

    def move() -> None:
        for key in order:
            made.set(key, deadlines[key] + SESSION_MS)
            _ = made.wake_at_ms

    def cancel() -> None:
        for key in order[: count // 2]:
            made.cancel(key)

    def fire() -> None:
        assert sum(1 for _ in made.pop_due(2 * SESSION_MS)) == count - count // 2

    results = {"set": timed(count, fill), "move": timed(count, move), "cancel": timed(count // 2, cancel)}
    results["fire"] = timed(count - count // 2, fire)
    return results


def requests(count: int) -> dict[str, float]:
    purgatory = Purgatory()
    parked = [Parked(ReplyTo(n, n, 1, 12), [(b"t", n), (b"u", n)], 1, None) for n in range(count)]
    again = [Parked(ReplyTo(n, n, 1, 12), [(b"t", n)], 1, None) for n in range(count)]

    def park() -> None:
        for n, one in enumerate(parked):
            purgatory.park(one, 500 + n % 1000)

    def wake() -> None:
        for n in range(count):
            purgatory.appended((b"t", n), 100)
            assert len(purgatory.take_woken()) == 1

    def forget() -> None:
        for n in range(count):
            purgatory.forget(n)

    results = {"park": timed(count, park), "wake": timed(count, wake)}
    for one in again:
        purgatory.park(one, 500)
    results["forget"] = timed(count, forget)
    return results


def measure(count: int) -> dict[str, float]:
    rounds = [timers(count) | requests(count) for _ in range(ROUNDS)]
    return {name: round(min(r[name] for r in rounds), 2) for name in rounds[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    found = {count: measure(count) for count in SIZES}
    if args.json:
        json.dump({"microseconds": found}, sys.stdout)
        return
    names = list(found[SIZES[0]])
    print(f"{'waiting':>9}  " + "  ".join(f"{name:>7}" for name in names))
    for count, row in found.items():
        print(f"{count:>9}  " + "  ".join(f"{row[name]:>7.2f}" for name in names))


if __name__ == "__main__":
    main()

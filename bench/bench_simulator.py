"""The simulator: simulated seconds and request-response pairs per CPU second, with bytes and with message objects.

    python bench/bench_simulator.py [--seeds 40] [--json]

One core. Pairs count if a broker answered; all checks run.
"""

from __future__ import annotations

import argparse
import json
import time

from kohort_lab.sim.checks.watcher import Exchange, Watcher
from kohort_lab.sim.swarm import plan_of
from kohort_lab.sim.unencoded import unencoded
from kohort_lab.sim.worlds.one_broker import OneBroker


class Pairs(Watcher):
    """Counts answers."""

    hears_all = True

    def __init__(self) -> None:
        self.count = 0

    def answered(self, exchange: Exchange) -> None:
        del exchange
        self.count += 1


def measure(seeds: int, *, encoded: bool) -> dict[str, float]:
    pairs, simulated_ms, events = Pairs(), 0, 0
    began = time.process_time()
    for seed in range(seeds):
        run = OneBroker(plan_of(seed))
        run.context.checks.add(pairs)
        if encoded:
            run.go()
        else:
            with unencoded():
                run.go()
        simulated_ms += run.world.elapsed_ms
        events += run.world.events
    took = time.process_time() - began
    return {
        "cpu_s": round(took, 2),
        "simulated_s_per_s": round(simulated_ms / 1000 / took),
        "pairs_per_s": round(pairs.count / took),
        "events_per_s": round(events / took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    measure(2, encoded=True)  # readers and writers are compiled on first use
    found = {"encoded": measure(args.seeds, encoded=True), "unencoded": measure(args.seeds, encoded=False)}
    if args.json:
        print(json.dumps(found))
        return
    for mode, figures in found.items():
        print(
            f"{mode:<10} {figures['simulated_s_per_s']:>6,} simulated s/s  {figures['pairs_per_s']:>6,} pairs/s"
            f"  {figures['events_per_s']:>7,} events/s  ({figures['cpu_s']} s)"
        )


if __name__ == "__main__":
    main()

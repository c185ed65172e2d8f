"""Show which planted bugs of the simulator `kohort check-history` finds: run each bug's seed without the simulator's
own checks, and check the clients' history.

    python lab/tools/history/controls.py [NAMES…]     a line each: bug, world, seed, checks that alarm (- for none)

The seeds are those of tests/sim/planted.txt, with which the simulator's checks find the bugs. Takes minutes.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path

from kohort.errors import KohortError
from kohort_lab.history.checker import check_history
from kohort_lab.sim.planted.catalogue import all_bugs
from kohort_lab.sim.recorded_runs import write_run

PLANTED = Path(__file__).parents[3] / "tests" / "sim" / "planted.txt"
LONGEST_S = 60
"""Limit of a run without an alarm; its history up to then is checked."""


class TooLong(Exception):
    """A run exceeds its time limit."""


def too_long(*_: object) -> None:
    raise TooLong


def alarms_of(name: str, seed: int, path: Path) -> list[str]:
    """Return the checks that alarm with a planted bug."""
    bug = all_bugs()[name]
    with path.open("w") as file, bug.planted():
        signal.alarm(LONGEST_S)
        try:
            write_run(bug.world, seed, file, alone=True)
        except (TooLong, KohortError):
            pass  # some bugs leave unreadable logs
        finally:
            signal.alarm(0)
    return list(check_history([path]).counts)


def main() -> int:
    signal.signal(signal.SIGALRM, too_long)
    names = set(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        for line in PLANTED.read_text().splitlines():
            name, seed, *_ = line.split()
            if not names or name in names:
                found = alarms_of(name, int(seed), Path(folder) / "history.jsonl")
                print(name, all_bugs()[name].world, seed, ", ".join(found) or "-", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run a LIVE console in a browser for long, with changing groups, and check for growth.

    python lab/tools/soak/console.py --minutes 60
    python lab/tools/soak/console.py --minutes 5 --times 12     as many looks and changes as in an hour
    python lab/tools/soak/console.py --judge FILE               the verdict of a run that was kept

A broker (kohort serve), twenty groups with changing members, temporary groups, a console, and three tabs: one on the
list, one on a group's timeline, one that changes views. Recorded: heap, nodes and listeners of each tab after garbage
collection, and memory, open files and threads of the console. Exit code 1: growth. Needs the packages of `make
browser`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "lab" / "tools")]

from faults.process import sample  # noqa: E402 - after sys.path is set

from soak.tabs import Tab, chromium, resident_of_children  # noqa: E402 - after sys.path is set
from soak.verdict import judge, table  # noqa: E402 - after sys.path is set

INTERVAL_S: Final = 5.0
"""Sampling interval of a console."""
CHANGE_S: Final = 6.0
SPAN_MS: Final = 300_000
"""Length of the timeline: it is full before half of the run."""
VIEWS: Final = ("overview", "timeline", "rebalances", "members", "partitions", "fenced", "causes", "what-if", "events")
ROUND: Final = (*(f"/groups/group-3/{view}" for view in VIEWS), "/doctor", "/causes", "/topics", "/brokers", "/groups")


class ConsoleSoak:
    """One run."""

    def __init__(self, out: Path, seconds: float, every_s: float, times: float) -> None:
        self._out, self._seconds, self._every_s, self._times = out, seconds, every_s, times
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.samples: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def run(self) -> None:
        """Run all processes for the given time."""
        try:
            ready = self._start("broker", "-m", "kohort", "serve", "--listen", "127.0.0.1:0", "--output", "json",
                                "--set", "group.initial.rebalance.delay.ms=0")  # fmt: skip
            bootstrap = json.loads(ready)["bootstrap"]
            watched = str(Path(__file__).parent / "watched.py")
            self._start("groups", watched, "groups", bootstrap, str(CHANGE_S / self._times), says=False)
            address = self._start("console", watched, "console", bootstrap, str(INTERVAL_S / self._times)).strip()
            self._watch(address)
        finally:
            for process in reversed(self._processes.values()):
                process.terminate()
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    process.kill()

    def _start(self, name: str, *arguments: str, says: bool = True) -> str:
        log = (self._out / f"{name}.log").open("w")
        process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, stderr=log, text=True)
        self._processes[name] = process
        assert process.stdout is not None
        return process.stdout.readline() if says else ""

    def _watch(self, address: str) -> None:
        span = round(SPAN_MS / self._times)
        with chromium() as browser, (self._out / "samples.jsonl").open("w") as file:
            tabs = {
                "list": Tab(browser.new_page(), address, "/groups"),
                "timeline": Tab(browser.new_page(), address, f"/groups/group-1/timeline?span={span}"),
                "round": Tab(browser.new_page(), address, "/groups"),
            }
            views = itertools.cycle(ROUND)
            began = time.monotonic()
            while (at_s := time.monotonic() - began) < self._seconds:
                tabs["round"].go(next(views))
                tabs["round"].page.wait_for_timeout(self._every_s * 1000)
                self._look(at_s, tabs)
                file.write(json.dumps(self.samples[-1]) + "\n")
                file.flush()
            self.problems = [f"{name}: {text}" for name, tab in tabs.items() for text in tab.problems]

    def _look(self, at_s: float, tabs: dict[str, Tab]) -> None:
        console = sample(self._processes["console"].pid)
        values: dict[str, float] = {
            "console rss": console.rss_bytes, "console handles": console.handles, "console threads": console.threads,
            "console cpu_s": console.cpu_s, "browser rss": resident_of_children("chrom"),
        }  # fmt: skip
        for name, tab in tabs.items():
            values |= {f"{name} {what}": value for what, value in tab.counts().items()}
        self.samples.append({"at_s": at_s, "values": values})


def main(arguments: list[str] | None = None) -> int:
    """Run the selected soak; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="duration in minutes [60]")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples [5]")
    parser.add_argument("--times", type=float, default=1.0, help="speed-up of samples and changes [1]")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "soak-console", help="folder for samples and logs")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge the samples of an earlier run")
    options = parser.parse_args(arguments)
    if options.judge is not None:
        samples, problems = [json.loads(line) for line in options.judge.read_text().splitlines()], []
    else:
        options.out.mkdir(parents=True, exist_ok=True)
        soak = ConsoleSoak(options.out, options.minutes * 60, options.every, options.times)
        soak.run()
        samples, problems = soak.samples, soak.problems
    lines = judge(samples)
    print(table(lines))
    for problem in problems:
        print(problem)
    grows = [line.series for line in lines if not line.is_flat]
    print(f"\n{len(samples)} samples; verdict: {'flat' if not grows else 'grows: ' + ', '.join(grows)}")
    return 1 if grows or problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""``kohort sim``: run the simulator over seeds, or one seed with its story."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kohort.sim.run import Verdict


def parse_seeds(text: str) -> range:
    """``"7"`` is one seed, ``"0..200"`` the 200 from 0 to 199."""
    first, dots, last = text.partition("..")
    try:
        low = int(first)
        high = int(last) if dots else low + 1
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a seed (7) nor a range of seeds (0..200)") from None
    if high <= low:
        raise click.BadParameter(f"{text!r} holds no seed: the end is not part of a range")
    return range(low, high)


@click.group()
def sim() -> None:
    """The broker and its clients under one seed, with faults and invariants."""


@sim.command()
@click.option("--seeds", default="0..20", show_default=True, help="A seed, or a range FIRST..END without its end.")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Processes to run them in.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def run(seeds: str, jobs: int, output: str) -> None:
    """Run seeds; a failing one prints its story and the command that replays it.

    \b
    kohort sim run --seeds 0..200 --jobs 2
    """
    wanted = parse_seeds(seeds)
    failed, events, simulated_ms = 0, 0, 0
    for verdict in _verdicts(wanted, jobs):
        events += verdict.events
        simulated_ms += verdict.elapsed_ms
        if not verdict.passed:
            failed += 1
            click.echo(_failure(verdict), err=True)
    summary = {"seeds": len(wanted), "failed": failed, "events": events, "simulated_s": simulated_ms // 1000}
    if output == "json":
        click.echo(json.dumps(summary))
    else:
        click.echo(f"{len(wanted)} seeds, {events} events, {simulated_ms / 3_600_000:.1f} h simulated: {failed} failed")
    sys.exit(1 if failed else 0)


@sim.command()
@click.argument("seed", type=int)
def replay(seed: int) -> None:
    """Run one seed again and tell its story."""
    from kohort.sim.run import run_seed

    verdict = run_seed(seed)
    click.echo(f"{verdict.plan}\n{verdict.story}")
    click.echo(f"{verdict.events} events, {verdict.elapsed_ms / 1000:.0f} s simulated")
    if not verdict.passed:
        click.echo(verdict.failure, err=True)
        sys.exit(1)
    click.echo("passed")


def _verdicts(seeds: range, jobs: int) -> list[Verdict]:
    from kohort.sim.run import run_seed

    if jobs == 1:
        return [run_seed(seed) for seed in seeds]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(run_seed, seeds, chunksize=4))


def _failure(verdict: Verdict) -> str:
    return f"{verdict.plan}\n{verdict.story}\n{verdict.failure}\nreplay it: kohort sim replay {verdict.plan.seed}\n"

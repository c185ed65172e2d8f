"""The command group ``kohort sim``: run, replay, record and shrink simulated runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import click

from kohort.cli.terminal.output import output_of, print_result
from kohort_lab.commands.compare import compare
from kohort_lab.commands.results import FailedSeed, SeedsRun
from kohort_lab.commands.seeds import parse_seeds

F = TypeVar("F", bound=Callable[..., Any])
SIM_LISTEN = "127.0.0.1:0"
OF_CONSOLE = "Show the groups of the run in a browser (kohort console), until Ctrl-C."


def world_option(command: F) -> F:
    """Add the option ``--world`` to a command that runs seeds."""
    what = "group: one broker; transactions: members that copy exactly once; moves: three nodes whose leaders move; "
    what += "secured: logins, ACLs and quotas that change; modern: consumer groups (KIP-848)."
    choice = click.Choice(["group", "transactions", "moves", "secured", "modern"])
    return click.option("--world", type=choice, default="group", show_default=True, help=what)(command)


@click.group()
def sim() -> None:
    """Simulate brokers and clients under one seed, with faults and invariants."""


sim.add_command(compare)


@sim.command()
@click.option("--seeds", default="0..20", show_default=True, help="One seed, or a range FIRST..END (END excluded).")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of worker processes.")
@world_option
@click.option("--unencoded", is_flag=True, help="Pass messages as objects instead of bytes: same histories, faster.")
@click.option(
    "--audit", is_flag=True, help="Fail a run that reads a clock, random number or thread outside of its seed."
)
@output_of(SeedsRun)
def run(seeds: str, jobs: int, world: str, unencoded: bool, audit: bool, output: str) -> None:
    """Run seeds; print the event log and the replay command of each failed seed.

    \b
    kohort sim run --seeds 0..200 --jobs 2
    kohort sim run --seeds 0..20000 --jobs 2 --unencoded
    """
    from kohort_lab.sim.campaign import replay_command, verdicts

    seed_range = parse_seeds(seeds)
    failed, events, simulated_ms = 0, 0, 0
    failures = []
    with SeedsProgress(len(seed_range)) as progress:
        for verdict in verdicts(seed_range, world=world, jobs=jobs, encoded=not unencoded, audit=audit):
            events += verdict.events
            simulated_ms += verdict.elapsed_ms
            failed += not verdict.passed
            if not verdict.passed:
                again = replay_command(verdict.plan.seed, world)
                progress.say(f"{verdict.plan}\n{verdict.story}\n{verdict.failure}\nreplay it: {again}\n")
                failures.append(FailedSeed(seed=verdict.plan.seed, failure=str(verdict.failure), replay=again))
            progress.seed_done(simulated_ms, failed)
    if output != "table":
        result = SeedsRun(
            seeds=len(seed_range), failed=failed, events=events, simulated_s=simulated_ms // 1000, failures=failures
        )
        print_result(result, output)
    else:
        click.echo(
            f"{len(seed_range)} seeds, {events} events, {simulated_ms / 3_600_000:.1f} h simulated: {failed} failed"
        )
    sys.exit(1 if failed else 0)


@sim.command()
@click.argument("seed", type=int)
@world_option
def replay(seed: int, world: str) -> None:
    """Replay one seed and print its event log."""
    from kohort_lab.sim.worlds.catalogue import WORLDS

    verdict = WORLDS[world].run_seed(seed)
    click.echo(f"{verdict.plan}\n{verdict.story}")
    click.echo(f"{verdict.events} events, {verdict.elapsed_ms / 1000:.0f} s simulated, wire {verdict.digest[:16]}")
    if not verdict.passed:
        click.echo(verdict.failure, err=True)
        sys.exit(1)
    click.echo("passed")


@sim.command()
@click.argument("seed", type=int)
@click.option("--html", type=click.Path(dir_okay=False, writable=True), help="Output file: a self-contained HTML page.")
@click.option("--console", "listen", is_flag=False, flag_value=SIM_LISTEN, metavar="[HOST:PORT]", help=OF_CONSOLE)
@world_option
def story(seed: int, html: str | None, listen: str | None, world: str) -> None:
    """Show the events of a seed's run from start to verdict.

    \b
    kohort sim story 7 --html seed-7.html
    kohort sim story 7 --console                   its groups, in a browser
    """
    if listen is not None:
        _show_in_console(seed, world, listen)
        return
    from kohort_lab.sim.story import story_html, story_text
    from kohort_lab.sim.worlds.catalogue import WORLDS

    verdict = WORLDS[world].run_seed(seed)
    if html is None:
        click.echo(story_text(verdict))
    else:
        Path(html).write_text(story_html(verdict), encoding="utf-8")
        click.echo(f"{html}: seed {seed} {'passed' if verdict.passed else 'failed'}")


def _show_in_console(seed: int, world: str, listen: str) -> None:
    from kohort.cli.serve.console import ConsoleFlags, require_console, serve_console

    require_console()
    from kohort.console.recorded import RecordedSource
    from kohort_lab.sim.recorded_runs import journal_of_seed

    verdict, entries = journal_of_seed(world, seed)
    click.echo(f"seed {seed} {'passed' if verdict.passed else 'failed'}", err=True)
    source = RecordedSource(entries, f"simulated seed {seed}, world {world}")
    serve_console(source, ConsoleFlags(), (listen, "--console"), None)


@sim.command()
@click.argument("seed", type=int)
@click.option("--alone", is_flag=True, help="Disable the simulator's own checks, so that no check ends the run.")
@click.option("--bug", help="Name of a planted bug (see `kohort sim controls`).")
@world_option
def history(seed: int, alone: bool, bug: str | None, world: str) -> None:
    """Write the client history of a seed's run for `kohort check-history` (docs/lab/history-format.md).

    \b
    kohort sim history 7 > seed-7.jsonl && kohort check-history seed-7.jsonl
    """
    from kohort_lab.sim.recorded_runs import write_run

    with _planted(bug):
        verdict = write_run(world, seed, sys.stdout, alone=alone)
    click.echo(f"{verdict.plan}: {'passed' if verdict.passed else verdict.caught_by}", err=True)


@sim.command()
@click.argument("seed", type=int)
@click.option("--runs", default=200, show_default=True, type=click.IntRange(1), help="Largest number of runs.")
@click.option("--bug", help="Name of a planted bug (see `kohort sim controls`).")
@world_option
def shrink(seed: int, runs: int, bug: str | None, world: str) -> None:
    """Shrink a failing seed to the smallest run with the same failure.

    Fewer faults, members, partitions and records, shorter time.

    \b
    kohort sim shrink 7
    """
    from kohort_lab.sim.shrink import shrink as shrink_plan
    from kohort_lab.sim.story import story_text
    from kohort_lab.sim.worlds.catalogue import WORLDS

    kind = WORLDS[world]
    with _planted(bug):
        found = shrink_plan(
            kind.plan_of(seed), kind.run_plan, runs, lambda plan: click.echo(f"still fails: {plan}", err=True)
        )
    if found is None:
        click.echo(f"seed {seed} does not fail")
        return
    click.echo(story_text(found.verdict))
    click.echo(f"the smallest of {found.runs} runs")


@sim.command()
@click.argument("names", nargs=-1)
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1, 64), help="Number of worker processes.")
@click.option("--seeds", default=2000, show_default=True, type=click.IntRange(1), help="Number of seeds per bug.")
@click.option("--output", type=click.Choice(["text", "list", "json"]), default="text", show_default=True)
def controls(names: tuple[str, ...], jobs: int, seeds: int, output: str) -> None:
    """Plant each bug and show the seed and the check that catch it. NAMES: bugs to plant (default: all).

    \b
    kohort sim controls --jobs 2
    """
    from kohort_lab.sim.controls import run_controls
    from kohort_lab.sim.planted.catalogue import all_bugs

    bugs = all_bugs()
    if unknown := [name for name in names if name not in bugs]:
        raise click.BadParameter(f"unknown planted bug {unknown[0]!r}; expected one of: {', '.join(bugs)}")
    missed = 0
    for control in run_controls(names or bugs, jobs=jobs, seeds=seeds):
        missed += control.seed is None
        if output == "json":
            click.echo(json.dumps(asdict(control)))
        elif output == "list":
            click.echo(str(control))
        elif control.seed is None:
            click.echo(f"{control.name}: NOT CAUGHT in {seeds} seeds: a check is missing ({control.what})")
        else:
            click.echo(f"{control.name}: seed {control.seed}, {control.check} ({control.what})")
    sys.exit(1 if missed else 0)


@sim.command()
@click.option("--seeds", default="0..20", show_default=True, help="One seed, or a range FIRST..END (END excluded).")
@click.option(
    "--world",
    type=click.Choice(["group", "modern"]),
    default="group",
    show_default=True,
    help="group: classic groups; modern: consumer groups (KIP-848) and conversions.",
)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def reach(seeds: str, world: str, output: str) -> None:
    """Show state transitions, decisions and error codes that no seed reaches.

    \b
    kohort sim reach --seeds 0..200
    kohort sim reach --seeds 0..200 --world modern
    """
    from kohort_lab.sim.reach import reachable, reached_by
    from kohort_lab.sim.reach_modern import reachable_modern, reached_in_modern

    what_there_is, one = (reachable, reached_by) if world == "group" else (reachable_modern, reached_in_modern)
    reached: set[str] = set()
    for seed in parse_seeds(seeds):
        reached |= one(seed)
    missed = [what for what in what_there_is() if what not in reached]
    if output == "json":
        click.echo(json.dumps({"reached": len(reached), "unreached": missed}))
    else:
        click.echo("\n".join([*missed, f"{len(reached)} reached, {len(missed)} not"]))


def _planted(bug: str | None) -> AbstractContextManager[None]:
    from kohort_lab.sim.planted.catalogue import all_bugs

    if bug is None:
        return nullcontext()
    if bug not in all_bugs():
        raise click.BadParameter(f"unknown planted bug {bug!r}; expected one of: {', '.join(all_bugs())}")
    return all_bugs()[bug].planted()


class SeedsProgress:
    """Progress bar of a campaign on a terminal: failed seeds, simulated seconds per second, remaining time."""

    def __init__(self, seeds: int) -> None:
        self._seeds = seeds
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> SeedsProgress:
        if sys.stderr.isatty():
            self._start_bar()
        return self

    def _start_bar(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("seeds"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
        self._bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True))
        self._task = self._bar.add_task("", total=self._seeds)
        self._bar.start()

    def seed_done(self, simulated_ms: int, failed: int) -> None:
        """Advance the bar by one seed; both arguments are totals."""
        if self._bar is not None:
            speed = simulated_ms / 1000 / max(1e-9, time.monotonic() - self._began)
            self._bar.update(self._task, advance=1, description=f"{failed} failed, {speed:,.0f} simulated s/s")

    def say(self, text: str) -> None:
        """Print a failure above the bar."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            click.echo(text, err=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

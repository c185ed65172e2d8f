"""``kohort group wait``: a gate for deployments, which opens once a group is stable and not behind."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import ADMIN_MS, DURATION
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import cell
from kohort.errors import ApiTimeout, KohortError
from kohort.insight.lag import lag_of, owners_of
from kohort.insight.names import count, limit, seconds
from kohort.results.groups import WaitedFor
from kohort.verbs.groups import is_missing, no_such_group
from kohort.verbs.refusals import CheckNotMet

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.insight.snapshot import GroupSnapshot

HELP = """Wait until GROUP is stable for a while: a gate after a deployment.

Stable: the state is Stable, and members and assignments stay the same. With --max-lag the lag must stay below it, too.
The exit code is 0 if it is so; 7 if the group was stable with a greater lag; 4 if it was not stable in time; 3 if it
never existed. The command waits for restarting brokers, too.

\b
Examples:
  kohort group wait my-group --stable --for 30s --timeout 5m
  kohort group wait my-group --stable --max-lag 1000
"""
LONGEST_ASK_MS: Final = 5_000


@dataclass(slots=True)
class Gate:
    """Conditions of a wait, and its progress."""

    group_id: str
    stable: bool
    for_ms: int
    max_lag: int | None
    last: GroupSnapshot | None = None
    good_since: float | None = None
    stable_since: float | None = None
    was_stable: bool = False
    """For as long as was asked for, whatever its lag."""
    why: str = "nothing was seen of it"

    def look(self, snapshot: GroupSnapshot, now: float) -> bool:
        """Judge a sample; return whether the conditions held long enough."""
        total = lag_of([snapshot]).total
        lag = None if total.unknown else total.records
        steady = not self.stable or snapshot.state == "Stable"
        if self.stable and self.last is not None and _shape(self.last) != _shape(snapshot):
            self.stable_since = self.good_since = None
        self.last = snapshot
        behind = self.max_lag is not None and (lag is None or lag > self.max_lag)
        self.why = (
            f"{snapshot.state}, {count(len(snapshot.members), 'member')}, lag {'unknown' if lag is None else lag}"
        )
        self.stable_since = (self.stable_since or now) if steady else None
        self.good_since = (self.good_since or now) if steady and not behind else None
        self.was_stable = self.was_stable or self.has_lasted(self.stable_since, now)
        return self.has_lasted(self.good_since, now)

    def has_lasted(self, since: float | None, now: float) -> bool:
        return since is not None and (now - since) * 1000 >= self.for_ms

    def lost(self, error: KohortError) -> None:
        """Note a failed sample."""
        self.last = self.good_since = self.stable_since = None
        self.why = str(error)


@click.command("wait", help=HELP, short_help="Wait until a group is stable and not behind.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--stable", is_flag=True, help="Wait until the group is stable.")
@click.option("--for", "for_ms", type=DURATION, default="30s", show_default=True, help="Duration of the conditions.")
@click.option("--timeout", "timeout_ms", type=DURATION, default="5m", show_default=True, help="Longest wait.")
@click.option("--max-lag", type=click.IntRange(min=0), metavar="N", help="Greatest lag, in records.")
@click.option("--every", "every_ms", type=DURATION, default="1s", show_default=True, help="Interval of samples.")
@cluster_options
@output_of(WaitedFor)
def wait(group_id: str, cluster: ClusterAccess, output: str, **asked: object) -> None:
    for_ms, timeout_ms, every_ms = (int(str(asked[name])) for name in ("for_ms", "timeout_ms", "every_ms"))
    max_lag = asked["max_lag"]
    gate = Gate(group_id, bool(asked["stable"]), for_ms, None if max_lag is None else int(str(max_lag)))
    if not gate.stable and gate.max_lag is None:
        raise click.UsageError("say what to wait for: --stable, --max-lag, or both")
    if for_ms >= timeout_ms:
        raise click.UsageError(f"--for {limit(for_ms)} cannot be reached within --timeout {limit(timeout_ms)}")
    start = time.monotonic()
    with cluster.admin() as admin:
        seen = _until_open(admin, gate, start + timeout_ms / 1000, every_ms)
        if not seen:
            raise no_such_group(admin, group_id)
    now = time.monotonic()
    waited_ms = round((now - start) * 1000)
    if gate.good_since is None or not gate.has_lasted(gate.good_since, now):
        raise _failure(gate, timeout_ms)
    stable_ms, found = round((now - gate.good_since) * 1000), gate.last
    assert found is not None
    lag = lag_of([found]).total.records
    if output != "table":
        told = WaitedFor(group=group_id, waited_ms=waited_ms, stable_ms=stable_ms, lag=lag, members=len(found.members))
        print_result(told, output)
    else:
        click.echo(f"{cell(group_id)}: {gate.why}, for {seconds(stable_ms)}, after {seconds(waited_ms)}")


def _until_open(admin: Admin, gate: Gate, deadline: float, every_ms: int) -> bool:
    """Sample until the gate opens or the deadline passes; return whether the group ever existed."""
    from kohort.watch.sampling import SamplingLimits, sample_groups

    limits = SamplingLimits(append_times=0, timeout_ms=min(LONGEST_ASK_MS, ADMIN_MS))
    seen, told = False, ""
    while True:
        try:
            sample = sample_groups(admin, [gate.group_id], limits)
            error = sample.errors.get(gate.group_id)
            if error is not None and not is_missing(error) and not error.retriable:
                raise error
            if error is not None:
                gate.lost(error)
                seen = seen or not is_missing(error)
            else:
                seen = True
                if gate.look(sample.groups[0], time.monotonic()):
                    return True
        except KohortError as error:
            if not error.retriable:
                raise
            seen = True  # nobody answers, so it is not known that it is not there
            gate.lost(error)
        if gate.why != told:
            click.echo(f"{cell(gate.group_id)}: {cell(gate.why)}", err=True)
            told = gate.why
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return seen
        time.sleep(min(every_ms / 1000, left_s))


def _failure(gate: Gate, timeout_ms: int) -> KohortError:
    if gate.max_lag is not None and (gate.was_stable or not gate.stable) and gate.last is not None:
        return CheckNotMet(f"group {gate.group_id!r} is further behind than {gate.max_lag}: {gate.why}")
    what = f"stable for {limit(gate.for_ms)}" if gate.stable else "there"
    return ApiTimeout(f"group {gate.group_id!r} was not {what} within {limit(timeout_ms)}: {gate.why}")


def _shape(snapshot: GroupSnapshot) -> object:
    """Return the parts of a group that a rebalance changes."""
    owners = {tp: member.member_id for tp, member in owners_of(snapshot).items()}
    return snapshot.state, snapshot.epoch, frozenset(m.member_id for m in snapshot.members), owners

"""``kohort group wait``: after a deployment, wait until a group is stable and its lag is small."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from kohort.cli.terminal.cluster import ClusterAccess, cluster_options, complete_groups
from kohort.cli.terminal.options import ADMIN_MS, DURATION
from kohort.cli.terminal.output import output_of, report_lines
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

HELP = """Wait until GROUP is stable, its lag is small, or both, for example after a deployment.

At least one of the conditions --stable and --max-lag is required. --stable means that the state stays Stable, with the
same members and assignments. --max-lag means that the lag is at most N records. The conditions must hold
for the DURATION of --for. The command continues while brokers restart.

Exit code 0: the conditions hold. After --timeout: 7 if only the lag is too large; 4 if the group is not stable; 3 if
the group never existed.

\b
Examples:
  kohort group wait my-group --stable --for 30s --timeout 5m
  kohort group wait my-group --stable --max-lag 1000
"""
LONGEST_REQUEST_MS: Final = 5_000


@dataclass(slots=True)
class WaitConditions:
    """Conditions of ``kohort group wait``.

    ``good_since``: time since which all conditions hold. ``stable_since``: time since which the group is stable. Both
    are monotonic, in seconds.
    """

    group_id: str
    stable: bool
    for_ms: int
    max_lag: int | None
    last: GroupSnapshot | None = None
    good_since: float | None = None
    stable_since: float | None = None
    was_stable: bool = False
    """True if the group was ever stable for ``for_ms``, with any lag."""
    summary: str = "the group was not found"

    def check(self, snapshot: GroupSnapshot, now: float) -> bool:
        """Check the conditions on a snapshot of the group. Return True if they have held for ``for_ms``."""
        total = lag_of([snapshot]).total
        lag = None if total.unknown else total.records
        steady = not self.stable or snapshot.state == "Stable"
        if self.stable and self.last is not None and _shape(self.last) != _shape(snapshot):
            self.stable_since = self.good_since = None
        self.last = snapshot
        behind = self.max_lag is not None and (lag is None or lag > self.max_lag)
        members = count(len(snapshot.members), "member")
        self.summary = f"{snapshot.state}, {members}, lag {'unknown' if lag is None else lag}"
        self.stable_since = (self.stable_since or now) if steady else None
        self.good_since = (self.good_since or now) if steady and not behind else None
        self.was_stable = self.was_stable or self.has_lasted(self.stable_since, now)
        return self.has_lasted(self.good_since, now)

    def has_lasted(self, since: float | None, now: float) -> bool:
        return since is not None and (now - since) * 1000 >= self.for_ms

    def sample_failed(self, error: KohortError) -> None:
        self.last = self.good_since = self.stable_since = None
        self.summary = str(error)


@click.command("wait", help=HELP, short_help="Wait until a group is stable and its lag is small.")
@click.argument("group_id", metavar="GROUP", shell_complete=complete_groups)
@click.option("--stable", is_flag=True, help="Wait until the group is stable.")
@click.option("--for", "for_ms", type=DURATION, default="30s", help="Time for which the conditions must hold [30s].")
@click.option(
    "--timeout", "timeout_ms", type=DURATION, default="5m", help="Maximum time to wait for the conditions [5m]."
)
@click.option(
    "--max-lag", type=click.IntRange(0), metavar="N", help="Wait until the lag of the group is at most N records."
)
@click.option("--every", "every_ms", type=DURATION, default="1s", help="Time between two samples of the group [1s].")
@cluster_options
@output_of(WaitedFor)
def wait(
    group_id: str,
    stable: bool,
    for_ms: int,
    timeout_ms: int,
    max_lag: int | None,
    every_ms: int,
    cluster: ClusterAccess,
    output: str,
) -> None:
    conditions = WaitConditions(group_id, stable, for_ms, max_lag)
    if not stable and max_lag is None:
        raise click.UsageError("expected --stable, --max-lag, or both")
    if for_ms >= timeout_ms:
        raise click.UsageError(f"--for {limit(for_ms)} must be shorter than --timeout {limit(timeout_ms)}")
    start = time.monotonic()
    with cluster.admin() as admin:
        if not _wait_until_met(admin, conditions, start + timeout_ms / 1000, every_ms):
            raise no_such_group(admin, group_id)
    now = time.monotonic()
    waited_ms = round((now - start) * 1000)
    if conditions.good_since is None or not conditions.has_lasted(conditions.good_since, now):
        raise _failure(conditions, timeout_ms)
    stable_ms, found = round((now - conditions.good_since) * 1000), conditions.last
    assert found is not None
    lag, members = lag_of([found]).total.records, len(found.members)
    result = WaitedFor(group=group_id, waited_ms=waited_ms, stable_ms=stable_ms, lag=lag, members=members)
    line = f"{group_id}: {conditions.summary}, for {seconds(stable_ms)}, after {seconds(waited_ms)}"
    report_lines(output, result, [line])


def _wait_until_met(admin: Admin, conditions: WaitConditions, deadline: float, every_ms: int) -> bool:
    """Sample the group until it meets the conditions or the timeout ends. Return False if the group never existed."""
    from kohort.watch.sampling import SamplingLimits, sample_groups

    limits = SamplingLimits(append_times=0, timeout_ms=min(LONGEST_REQUEST_MS, ADMIN_MS))
    existed, printed = False, ""
    while True:
        try:
            sample = sample_groups(admin, [conditions.group_id], limits)
            if (error := sample.errors.get(conditions.group_id)) is not None:
                raise error
            existed = True
            if conditions.check(sample.groups[0], time.monotonic()):
                return True
        except KohortError as error:
            if not error.retriable and not is_missing(error):
                raise
            existed = existed or not is_missing(error)
            conditions.sample_failed(error)
        if conditions.summary != printed:
            click.echo(f"{cell(conditions.group_id)}: {cell(conditions.summary)}", err=True)
            printed = conditions.summary
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return existed
        time.sleep(min(every_ms / 1000, left_s))


def _failure(conditions: WaitConditions, timeout_ms: int) -> KohortError:
    group, max_lag = conditions.group_id, conditions.max_lag
    if max_lag is not None and (conditions.was_stable or not conditions.stable) and conditions.last is not None:
        return CheckNotMet(f"the lag of group {group!r} is above {max_lag}: {conditions.summary}")
    state = f"stable for {limit(conditions.for_ms)}" if conditions.stable else "reachable"
    return ApiTimeout(f"group {group!r} was not {state} within {limit(timeout_ms)}: {conditions.summary}")


def _shape(snapshot: GroupSnapshot) -> object:
    """Return a value that each rebalance changes: state, epoch, members and partition owners of the group."""
    owners = {tp: member.member_id for tp, member in owners_of(snapshot).items()}
    return snapshot.state, snapshot.epoch, frozenset(m.member_id for m in snapshot.members), owners

"""Samples of groups for commands: snapshots of the cluster, and rebalances of the journal, as findings."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.cli.groups.journal import journal_of, store_option, tell, tell_if_stale
from kohort.cli.terminal.cluster import ClusterAccess
from kohort.cli.terminal.options import ADMIN_MS, DURATION, with_options
from kohort.cli.terminal.show import harmless
from kohort.errors import ApiTimeout, ConfigError, KohortError
from kohort.verbs.groups import is_missing, no_such_group

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.client.admin.model import GroupDescription
    from kohort.insight.findings.groups import GroupFinding
    from kohort.insight.findings.model import RebalanceFinding
    from kohort.insight.snapshot import GroupSnapshot
    from kohort.watch.sampling import GroupSample

BACK_MS: Final = 3_600_000
READ_S: Final = 2.0
"""A command that lists groups waits no longer for what is but a column of it."""


def recent_rebalances(
    cluster: ClusterAccess, admin: Admin, groups: Sequence[str], store: Path | None = None
) -> dict[str, list[RebalanceFinding]] | None:
    """Return the rebalances of these groups in the last hour; None without a journal that is readable, current and
    read in time. Entries from further back are read, since a rebalance is explained by what preceded it."""
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.insight.observed.generation_records import BASELINE_MS

    since_ms = time.time_ns() // 1_000_000 - BACK_MS
    alone = groups[0] if len(groups) == 1 else None
    try:
        with journal_of(cluster, admin, alone, since_ms - BASELINE_MS, store) as source:
            entries = [] if source is None else source.read(READ_S)
            if source is None or tell_if_stale(source):
                return None
    except ConfigError:
        raise
    except ApiTimeout:
        tell(f"the journal of rebalances was not read within {READ_S:.0f} s, so it is left out")
        return None
    except KohortError as error:
        tell(f"the journal of rebalances cannot be read: {error}")
        return None
    found: dict[str, list[RebalanceFinding]] = {}
    for this in find_rebalances(entries):
        if this.opened_at_ms >= since_ms:
            found.setdefault(this.group, []).append(this)
    return found


F = TypeVar("F", bound=Callable[..., Any])
MOST_LOOKS: Final = 10
MANY_GROUPS: Final = 1000
"""Of more groups the log is not asked how long records have waited, unless ``--append-times`` says so."""
DEFAULT_TIMES: Final = 5000
APPEND_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class Looks:
    """Options of sampling; ``append_times`` is None for the default."""

    watch_ms: int = 0
    append_times: int | None = None
    journal: bool = True
    store: Path | None = None
    """A watcher's file to read the journal from."""


@dataclass(slots=True)
class GroupsSeen:
    """Findings of groups, and what could not be sampled."""

    groups: list[GroupFinding]
    rebalances: dict[str, list[RebalanceFinding]] | None
    errors: dict[str, KohortError] = field(default_factory=dict)
    """Of groups that could not be described, and of brokers that did not tell theirs."""
    unseen: list[str] = field(default_factory=list)
    """What could not be seen of the groups that were."""
    descriptions: dict[str, GroupDescription] = field(default_factory=dict)
    snapshots: dict[str, GroupSnapshot] = field(default_factory=dict)
    not_looked_into: int = 0
    times_left_out: bool = False

    def rebalances_of(self, group: str) -> list[RebalanceFinding] | None:
        return None if self.rebalances is None else self.rebalances.get(group, [])


def look_options(command: F) -> F:
    """Give a command the options of sampling, as the argument ``looks``."""

    @wraps(command)
    def with_looks(*args: Any, **options: Any) -> Any:
        looks = Looks(
            watch_ms=options.pop("watch_ms") or 0,
            append_times=options.pop("append_times"),
            journal=options.pop("journal"),
            store=options.pop("store"),
        )
        return command(*args, looks=looks, **options)

    return with_options(*_LOOK_OPTIONS)(with_looks)  # type: ignore[return-value]


_LOOK_OPTIONS: Final = (
    click.option("--watch-for", "watch_ms", type=DURATION, help="Take several samples, for rates and health; as 20s."),
    click.option(
        "--append-times", type=click.IntRange(min=0), metavar="N",
        help="Look up at most N timestamps (0: none). [5000, of over 1000 groups 0]",
    ),
    click.option("--journal/--no-journal", default=True, help="Read the journal of rebalances."),
    store_option,
)  # fmt: skip


def look_at_all(cluster: ClusterAccess, looks: Looks, wanted: Callable[[Any], bool]) -> GroupsSeen:
    """Sample every group whose listing ``wanted`` accepts."""
    from kohort.watch.sampling import READABLE, heard_groups

    with cluster.admin() as admin:
        listed = heard_groups(admin, ADMIN_MS)
        names = [g.group_id for g in listed.groups if g.group_type.lower() in READABLE and wanted(g)]
        others = sorted({g.group_type for g in listed.groups if g.group_type.lower() not in READABLE})
        if others:
            click.echo(harmless(f"groups of other types are left out: {', '.join(others)}"), err=True)
        seen = look_at_groups(cluster, admin, names, looks)
        # One that was deleted since it was listed is none that is missing here.
        seen.errors = {name: error for name, error in seen.errors.items() if not is_missing(error)}
        seen.errors |= {f"broker {node_id}": error for node_id, error in listed.errors.items()}
        return seen


def look_at_one(cluster: ClusterAccess, group_id: str, looks: Looks) -> tuple[GroupFinding, GroupsSeen]:
    """Sample one group. Raises NothingThere, with the nearest name."""
    with cluster.admin() as admin:
        seen = look_at_groups(cluster, admin, [group_id], looks)
        error = seen.errors.get(group_id)
        if error is not None:
            raise no_such_group(admin, group_id) if is_missing(error) else error
        return seen.groups[0], seen


def tell_unseen(seen: GroupsSeen, command: str) -> KohortError | None:
    """Print what could not be sampled; return the last error of that."""
    told = [f"{name}: {error}" if name.startswith("broker ") else str(error) for name, error in seen.errors.items()]
    for text in [*told, *seen.unseen]:
        click.echo(harmless(f"{command}: not seen: {text}"), err=True)
    if seen.errors:
        return list(seen.errors.values())[-1]
    return KohortError(f"not all of {len(seen.unseen)} groups was seen") if seen.unseen else None


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable the garbage collector: with ten thousand groups it takes a third of the time and finds nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@uncollected()
def look_at_groups(cluster: ClusterAccess, admin: Admin, names: Sequence[str], looks: Looks) -> GroupsSeen:
    """Sample these groups, and read their rebalances of the last hour."""
    from kohort.insight.findings.groups import find_group
    from kohort.watch.sampling import unseen_of

    samples = list(samples_of(admin, names, looks))
    last = samples[-1]
    history: dict[str, list[GroupSnapshot]] = {snapshot.group: [] for snapshot in last.groups}
    for sample in samples:
        for snapshot in sample.groups:
            if snapshot.group in history:
                history[snapshot.group].append(snapshot)
    rebalances = recent_rebalances(cluster, admin, names, looks.store) if looks.journal else None
    seen = GroupsSeen(
        [],
        rebalances,
        dict(last.errors),
        descriptions=last.descriptions,
        snapshots={snapshot.group: snapshot for snapshot in last.groups},
        not_looked_into=last.not_looked_into,
        times_left_out=not _times(names, looks) and bool(names),
    )
    seen.unseen = [text for snapshot in last.groups if (text := unseen_of(snapshot)) is not None]
    seen.groups = [find_group(found, seen.rebalances_of(name)) for name, found in history.items()]
    return seen


def samples_of(admin: Admin, names: Sequence[str], looks: Looks) -> Iterable[GroupSample]:
    """Take samples; only the last looks up timestamps."""
    from kohort.watch.sampling import SamplingLimits, sample_groups

    limits = SamplingLimits(append_times=_times(names, looks), append_ms=APPEND_MS, timeout_ms=ADMIN_MS)
    if looks.watch_ms:
        count = max(2, min(MOST_LOOKS, looks.watch_ms // 1000))
        for _ in range(count - 1):
            yield sample_groups(admin, names, replace(limits, append_times=0))
            time.sleep(looks.watch_ms / (count - 1) / 1000)
    yield sample_groups(admin, names, limits)


def _times(names: Sequence[str], looks: Looks) -> int:
    if looks.append_times is not None:
        return looks.append_times
    return 0 if len(names) > MANY_GROUPS else DEFAULT_TIMES

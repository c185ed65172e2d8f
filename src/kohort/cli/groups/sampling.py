"""Sample groups for commands: findings from snapshots of the cluster, and from rebalances in the journal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from kohort.aio.serving.garbage import postpone_collection
from kohort.cli.groups.journal import journal_of, store_option, warn, warn_if_stale
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
"""Maximum time to read the journal for the group list, in seconds. A slower read leaves rebalances out of the list."""


def recent_rebalances(
    cluster: ClusterAccess, admin: Admin, groups: Sequence[str], store: Path | None = None
) -> dict[str, list[RebalanceFinding]] | None:
    """Return the rebalances of each group in the last hour.

    Returns None if the journal is missing, stale, unreadable or slow. Also reads journal entries from before that hour,
    which may explain its first rebalances.
    """
    from kohort.insight.findings.rebalances import find_rebalances
    from kohort.insight.observed.generation_records import BASELINE_MS

    since_ms = time.time_ns() // 1_000_000 - BACK_MS
    alone = groups[0] if len(groups) == 1 else None
    try:
        with journal_of(cluster, admin, alone, since_ms - BASELINE_MS, store) as source:
            entries = [] if source is None else source.read(READ_S)
            if source is None or warn_if_stale(source):
                return None
    except ConfigError:
        raise
    except ApiTimeout:
        warn(f"rebalances are left out: reading the journal took longer than {READ_S:.0f} s")
        return None
    except KohortError as error:
        warn(f"the journal of rebalances cannot be read: {error}")
        return None
    found: dict[str, list[RebalanceFinding]] = {}
    for rebalance in find_rebalances(entries):
        if rebalance.opened_at_ms >= since_ms:
            found.setdefault(rebalance.group, []).append(rebalance)
    return found


F = TypeVar("F", bound=Callable[..., Any])
MOST_SAMPLES: Final = 10
MANY_GROUPS: Final = 1000
"""Number of groups above which record timestamps are read only with ``--append-times``."""
DEFAULT_TIMES: Final = 5000
APPEND_MS: Final = 5000


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    watch_ms: int = 0
    append_times: int | None = None
    """Maximum number of record timestamps to read. None: 5000, or 0 for more than 1000 groups."""
    journal: bool = True
    store: Path | None = None


@dataclass(slots=True)
class SampledGroups:
    """Findings about sampled groups, errors of failed samples, and messages about missing values."""

    groups: list[GroupFinding]
    rebalances: dict[str, list[RebalanceFinding]] | None
    errors: dict[str, KohortError] = field(default_factory=dict)
    """Error of each group that could not be described. A broker that listed no groups has the key ``broker N``."""
    gaps: list[str] = field(default_factory=list)
    """Messages about groups whose samples lack values."""
    descriptions: dict[str, GroupDescription] = field(default_factory=dict)
    snapshots: dict[str, GroupSnapshot] = field(default_factory=dict)
    not_looked_up: int = 0
    """Number of committed offsets for which no record timestamp was read."""
    times_left_out: bool = False

    def rebalances_of(self, group: str) -> list[RebalanceFinding] | None:
        return None if self.rebalances is None else self.rebalances.get(group, [])


def sampling_options(command: F) -> F:
    @wraps(command)
    def with_sampling(*args: Any, **options: Any) -> Any:
        from kohort.insight.lag import JUDGED_AFTER_MS

        sampling = SamplingOptions(
            watch_ms=options.pop("watch_ms") or 0,
            append_times=options.pop("append_times"),
            journal=options.pop("journal"),
            store=options.pop("store"),
        )
        if 0 < sampling.watch_ms < JUDGED_AFTER_MS:
            least = JUDGED_AFTER_MS // 1000
            warn(f"--watch-for is shorter than {least} s, the time to judge commit progress: health may stay unknown")
        return command(*args, sampling=sampling, **options)

    return with_options(*_SAMPLING_OPTIONS)(with_sampling)  # type: ignore[return-value]


_SAMPLING_OPTIONS: Final = (
    click.option("--watch-for", "watch_ms", type=DURATION, help="Sampling time for rates and health, such as 20s."),
    click.option(
        "--append-times", type=click.IntRange(min=0), metavar="N",
        help="Read at most N record timestamps, for LAG-TIME [5000; with over 1000 groups: 0].",
    ),
    click.option("--journal/--no-journal", default=True, help="Read rebalances from the journal [--journal]."),
    store_option,
)  # fmt: skip


def sample_all_groups(
    cluster: ClusterAccess, sampling: SamplingOptions, selects: Callable[[Any], bool]
) -> SampledGroups:
    from kohort.watch.sampling import READABLE, list_all_groups

    with cluster.admin() as admin:
        listed = list_all_groups(admin, ADMIN_MS)
        names = [g.group_id for g in listed.groups if g.group_type.lower() in READABLE and selects(g)]
        others = sorted({g.group_type for g in listed.groups if g.group_type.lower() not in READABLE})
        if others:
            click.echo(harmless(f"groups of other types are left out: {', '.join(others)}"), err=True)
        sampled = sample_named_groups(cluster, admin, names, sampling)
        # ignore a group that was deleted between its listing and its description
        sampled.errors = {name: error for name, error in sampled.errors.items() if not is_missing(error)}
        sampled.errors |= {f"broker {node_id}": error for node_id, error in listed.errors.items()}
        return sampled


def sample_one_group(cluster: ClusterAccess, group_id: str, sampling: SamplingOptions) -> SampledGroups:
    """Sample one group. If it does not exist, raises NothingThere with the most similar group name."""
    with cluster.admin() as admin:
        sampled = sample_named_groups(cluster, admin, [group_id], sampling)
        error = sampled.errors.get(group_id)
        if error is not None:
            raise no_such_group(admin, group_id) if is_missing(error) else error
        return sampled


def print_gaps(sampled: SampledGroups, command: str) -> KohortError | None:
    """Print errors and incomplete samples of groups on stderr. Return the last error, or None if there is none."""
    texts = [f"{name}: {error}" if name.startswith("broker ") else str(error) for name, error in sampled.errors.items()]
    for text in [*texts, *sampled.gaps]:
        click.echo(harmless(f"{command}: not sampled: {text}"), err=True)
    if sampled.errors:
        return list(sampled.errors.values())[-1]
    return KohortError(f"{len(sampled.gaps)} groups were sampled only in part") if sampled.gaps else None


@postpone_collection()
def sample_named_groups(
    cluster: ClusterAccess, admin: Admin, names: Sequence[str], sampling: SamplingOptions
) -> SampledGroups:
    """Sample the named groups. Read their rebalances of the last hour from the journal."""
    from kohort.insight.findings.groups import find_group
    from kohort.watch.sampling import missing_values

    samples = list(samples_of(admin, names, sampling))
    last = samples[-1]
    history: dict[str, list[GroupSnapshot]] = {snapshot.group: [] for snapshot in last.groups}
    for sample in samples:
        for snapshot in sample.groups:
            if snapshot.group in history:
                history[snapshot.group].append(snapshot)
    rebalances = recent_rebalances(cluster, admin, names, sampling.store) if sampling.journal else None
    sampled = SampledGroups(
        [],
        rebalances,
        dict(last.errors),
        descriptions=last.descriptions,
        snapshots={snapshot.group: snapshot for snapshot in last.groups},
        not_looked_up=last.unknown_waits,
        times_left_out=not _times(names, sampling) and bool(names),
    )
    sampled.gaps = [text for snapshot in last.groups if (text := missing_values(snapshot)) is not None]
    sampled.groups = [find_group(found, sampled.rebalances_of(name)) for name, found in history.items()]
    return sampled


def samples_of(admin: Admin, names: Sequence[str], sampling: SamplingOptions) -> Iterable[GroupSample]:
    """Sample the groups once, or several times with ``--watch-for``. Only the last sample reads record timestamps."""
    from kohort.watch.sampling import SamplingLimits, sample_groups

    limits = SamplingLimits(append_times=_times(names, sampling), append_ms=APPEND_MS, timeout_ms=ADMIN_MS)
    if sampling.watch_ms:
        count = max(2, min(MOST_SAMPLES, sampling.watch_ms // 1000))
        for _ in range(count - 1):
            yield sample_groups(admin, names, replace(limits, append_times=0))
            time.sleep(sampling.watch_ms / (count - 1) / 1000)
    yield sample_groups(admin, names, limits)


def _times(names: Sequence[str], sampling: SamplingOptions) -> int:
    if sampling.append_times is not None:
        return sampling.append_times
    return 0 if len(names) > MANY_GROUPS else DEFAULT_TIMES

"""What the journal tells of the last hour, of many groups at once; nothing where that is not known."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kohort.cli.cluster import ClusterAccess
from kohort.cli.journal import journal_of, tell, tell_if_stale
from kohort.errors import ApiTimeout, ConfigError, KohortError

if TYPE_CHECKING:
    from kohort.aio.admin import Admin
    from kohort.insight.findings.model import RebalanceFinding

BACK_MS: Final = 3_600_000
READ_S: Final = 2.0
"""A command that lists groups waits no longer for what is but a column of it."""


@dataclass(slots=True)
class RecentRebalances:
    """The rebalances of the last hour, by group."""

    by_group: dict[str, list[RebalanceFinding]] = field(default_factory=dict)

    def of(self, group: str) -> list[RebalanceFinding]:
        """Return those of a group, oldest first."""
        return self.by_group.get(group, [])


def recent_rebalances(
    cluster: ClusterAccess, admin: Admin, groups: Sequence[str], store: Path | None = None
) -> RecentRebalances | None:
    """Return the rebalances of these groups in the last hour; None where there is no journal, or it must not be read,
    or not in time, or its watcher does not run. All but the first are said on stderr.

    Entries are read from further back, since a rebalance is told by what was before it.
    """
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
    found = RecentRebalances()
    for this in find_rebalances(entries):
        if this.opened_at_ms >= since_ms:
            found.by_group.setdefault(this.group, []).append(this)
    return found

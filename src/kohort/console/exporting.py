"""The answers about one group, gathered for a page that is one file: of that group alone, and not too many."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from kohort.console.answers import AskedSpan, ConsoleAnswers
from kohort.console.asked_of_cluster import ChangesAtCluster
from kohort.console.encoding import json_of
from kohort.console.sources import ConsoleSource
from kohort.errors import UsageError
from kohort.insight.names import printable
from kohort.results.console import ConsoleCluster, ConsoleGroups
from kohort.verbs.describing import row_of
from kohort.verbs.explaining import explained
from kohort.verbs.refusals import NothingThere
from kohort.version import VERSION

AS_IN_PAGES: Final = "!'()*"
"""What encodeURIComponent leaves as it is besides what ``quote`` does."""
MOST_BYTES: Final = 32 << 20
"""Of the answers in one file; what is older goes."""


def view_of(group: str, tab: str = "timeline") -> str:
    """Return where a page shows a group."""
    return f"/groups/{quote(group, safe=AS_IN_PAGES)}/{tab}"


def exported(source: ConsoleSource, group: str, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the answers by their paths; of a past that is too long the younger part, which is said.

    Raises NothingThere for a group that is not there, UsageError for one that is too large as it is now.
    """
    times = [entry.at_ms for entry in source.entries(group, None)]
    since_ms: int | None = None
    while True:
        found = _exported(source, group, since_ms)
        if len(json_of(found)) <= most_bytes:
            return found
        if not times:
            raise UsageError(f"group {printable(group)!r} has too much for one file: more than {most_bytes >> 20} MiB")
        times = times[(len(times) + 1) // 2 :]
        since_ms = times[0] if times else source.now_ms()


def _exported(source: ConsoleSource, group: str, since_ms: int | None) -> dict[str, Any]:
    answers, span = ConsoleAnswers(source), AskedSpan(from_ms=since_ms)
    at = f"/groups/{quote(group, safe=AS_IN_PAGES)}"
    status = answers.status(group, span)
    doctor = answers.doctor(group, span)
    found: dict[str, Any] = {
        "/cluster": _cluster(source, group, since_ms),
        "/groups": ConsoleGroups(
            at_ms=status.status.at_ms,
            groups=[row_of(status.status)],
            trends=answers.trends([group], status.status.at_ms),
        ),
        at: status,
        f"{at}/lag-history": answers.lag_history(group, span),
        "/doctor": doctor,
        f"/doctor?group={quote(group, safe='*-._')}": doctor,
        "/causes/software": ChangesAtCluster(source).software(None, since_ms, group, AskedSpan()),
        f"{at}/causes/software": ChangesAtCluster(source).software(None, since_ms, group, AskedSpan()),
        "/causes": answers.causes(since_ms, group, AskedSpan()),
        f"{at}/clients": ChangesAtCluster(source).clients(None, group),
    }
    try:
        rebalances = answers.rebalances(group, span)
        found |= {
            f"{at}/timeline": answers.timeline(group, span),
            f"{at}/rebalances": rebalances,
            f"{at}/events": answers.events(group, span),
            f"{at}/fenced": answers.fenced(group, span),
            f"{at}/causes": answers.causes(since_ms, group, AskedSpan()),
        }
    except NothingThere:
        return found
    for word in {*(this.cause for this in rebalances.rebalances), *(this.pattern for this in rebalances.patterns)}:
        try:
            found[f"/explain/{word}"] = explained(word)
        except NothingThere:
            continue
    return found


def _cluster(source: ConsoleSource, group: str, since_ms: int | None) -> ConsoleCluster:
    about = source.about()
    journal = about.journal
    known = source.groups(None)
    unseen = [*known.unseen, *(text for name, text in known.unseen_groups.items() if name == group)]
    if since_ms is not None:
        unseen.append("what happened earlier, for which this file has no room")
        journal = replace(journal, since_ms=max(since_ms, journal.since_ms or 0))
    return ConsoleCluster(
        cluster_id=about.cluster_id,
        address=about.address,
        version=VERSION,
        now_ms=source.now_ms(),
        kind="recorded",
        title=about.title,
        allow_changes=False,
        journal=journal,
        unseen=unseen,
        user=None,
        token=None,
    )

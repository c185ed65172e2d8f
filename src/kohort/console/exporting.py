"""API answers about one group, for an export: page and answers in one HTML file."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from kohort.console.encoding import json_of
from kohort.console.routes import ApiQuery, TimeSpan
from kohort.console.sources import ConsoleSource
from kohort.console.views import ConsoleView
from kohort.errors import UsageError
from kohort.insight.names import printable
from kohort.results.console import ConsoleCluster, ConsoleGroups
from kohort.verbs.describing import row_of
from kohort.verbs.explaining import explained
from kohort.verbs.refusals import NothingThere
from kohort.version import VERSION

AS_IN_PAGES: Final = "!'()*"
"""Characters that JavaScript's encodeURIComponent keeps, but Python's ``quote`` would encode."""
MOST_BYTES: Final = 32 << 20
"""Maximum size in bytes of all answers in an exported file. Above it, the export omits the oldest events."""


def view_of(group: str, tab: str = "timeline") -> str:
    return f"/groups/{quote(group, safe=AS_IN_PAGES)}/{tab}"


def exported(source: ConsoleSource, group: str, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return the API's answers about a group, each under its path. Above ``most_bytes``, omit the oldest events.

    Raises NothingThere for a missing group, and UsageError if the group's present state alone is too large.
    """
    times = [entry.at_ms for entry in source.entries(group, None)]
    since_ms: int | None = None
    while True:
        found = _exported(source, group, since_ms)
        if len(json_of(found)) <= most_bytes:
            return found
        if not times:
            raise UsageError(
                f"the data of group {printable(group)!r} is too large for one file: over {most_bytes >> 20} MiB"
            )
        times = times[(len(times) + 1) // 2 :]
        since_ms = times[0] if times else source.now_ms()


def _exported(source: ConsoleSource, group: str, since_ms: int | None) -> dict[str, Any]:
    view, at = ConsoleView(source), quote(group, safe=AS_IN_PAGES)
    status = view.answers.status(group, TimeSpan()).status
    since = {} if since_ms is None else {"from": str(since_ms), "since": str(since_ms)}
    query = ApiQuery({"group": group, **since}, b"", None, None)
    trends = view.answers.trends([group], status.at_ms)
    found: dict[str, Any] = {
        "/cluster": _cluster(source, group, since_ms),
        "/groups": ConsoleGroups(at_ms=status.at_ms, groups=[row_of(status)], trends=trends),
    }
    for route, handler in view.routes():
        if route.exported:
            with suppress(NothingThere):  # some routes have no answer without a journal
                found[f"/{route.path.format(at)}"] = route.answer(handler, query, [group])
    found[f"/doctor?group={quote(group, safe='*-._')}"] = found["/doctor"]
    if (history := found.get(f"/groups/{at}/rebalances")) is not None:
        names = {*(one.cause for one in history.rebalances), *(one.pattern for one in history.patterns)}
        found |= {f"/explain/{name}": explained(name) for name in names}
    return found


def _cluster(source: ConsoleSource, group: str, since_ms: int | None) -> ConsoleCluster:
    about = source.about()
    journal = about.journal
    known = source.groups(None)
    unseen = [*known.unseen, *(text for name, text in known.unseen_groups.items() if name == group)]
    if since_ms is not None:
        unseen.append("earlier events: they do not fit into this file")
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

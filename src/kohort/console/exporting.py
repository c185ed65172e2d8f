"""The answers about one group, gathered for a page that is one file."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

from kohort.console.answers import AskedSpan, ConsoleAnswers
from kohort.console.sources import ConsoleSource
from kohort.results.console import ConsoleCluster
from kohort.verbs.explaining import explained
from kohort.verbs.refusals import NothingThere
from kohort.version import VERSION

AS_IN_PAGES: Final = "!'()*"
"""What encodeURIComponent leaves as it is besides what ``quote`` does."""


def exported(source: ConsoleSource, group: str) -> dict[str, Any]:
    """Return the answers by their paths. Raises NothingThere for a group that is not there."""
    answers, now = ConsoleAnswers(source), AskedSpan()
    at = f"/groups/{quote(group, safe=AS_IN_PAGES)}"
    about = source.about()
    status = answers.status(group, now)
    found: dict[str, Any] = {
        "/cluster": ConsoleCluster(
            cluster_id=about.cluster_id,
            address=about.address,
            version=VERSION,
            now_ms=source.now_ms(),
            kind="recorded",
            title=about.title,
            allow_changes=False,
            journal=about.journal,
            unseen=list(source.groups(None).unseen),
            user=None,
            token=None,
        ),
        "/groups": answers.groups(now),
        at: status,
        f"{at}/lag-history": answers.lag_history(group, now),
        "/doctor": answers.doctor(None, now),
        f"/doctor?group={quote(group, safe='*-._')}": answers.doctor(group, now),
        "/causes": answers.causes(None, None, now),
    }
    try:
        rebalances = answers.rebalances(group, now)
        found |= {
            f"{at}/timeline": answers.timeline(group, now),
            f"{at}/rebalances": rebalances,
            f"{at}/events": answers.events(group, now),
            f"{at}/fenced": answers.fenced(group, now),
        }
    except NothingThere:
        return found
    for word in {*(this.cause for this in rebalances.rebalances), *(this.pattern for this in rebalances.patterns)}:
        try:
            found[f"/explain/{word}"] = explained(word)
        except NothingThere:
            continue
    return found

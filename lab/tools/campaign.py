"""Run the rebalance campaign into docs/lab/campaign.json, and write its tables into docs/lab/campaign.md.

    python lab/tools/campaign.py                                    writes the tables from the JSON
    python lab/tools/campaign.py --check                            exits 1 if the tables do not match the JSON
    python lab/tools/campaign.py --run [--ground kohort] [--seed 1] [--rebalances 250] [--groups 9]
                                                                runs the campaign (minutes per broker), then writes
    python lab/tools/campaign.py --incidents [NAME ...] [--ground kohort]
                                                                runs the incidents (minutes), then writes

The campaign needs the tools of ``make interop``: Java, Maven, Go, and five client libraries. The incidents need only
the Python libraries of the project's lock file, and Java for Apache Kafka.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.campaign import results  # noqa: E402 - after sys.path is set
from support.campaign.brokers import CampaignBroker, apache_broker, kohort_broker  # noqa: E402 - after sys.path is set
from support.campaign.campaign import run_campaign  # noqa: E402 - after sys.path is set
from support.campaign.incidents import (  # noqa: E402 - after sys.path is set
    ALL_INCIDENTS,
    VIEWS,
    IncidentRow,
    run_incident,
    watching,
)
from support.campaign.plan import draw  # noqa: E402 - after sys.path is set
from support.campaign.results import CampaignResult  # noqa: E402 - after sys.path is set
from support.campaign.right_causes import APACHE, GROUNDS, OURS  # noqa: E402 - after sys.path is set
from support.peers.client_programs import LIBRDKAFKA, NEWEST_JAVA, SOURCES  # noqa: E402 - after sys.path is set

PAGE: Final = ROOT / "docs" / "lab" / "campaign.md"
STORED: Final = ROOT / "docs" / "lab" / "campaign.json"
STORED_INCIDENTS: Final = ROOT / "docs" / "lab" / "incidents.json"
BROKERS: Final[dict[str, Callable[[], AbstractContextManager[CampaignBroker]]]] = {
    OURS: kohort_broker,
    APACHE: apache_broker,
}


def versions() -> dict[str, str]:
    """Return the versions of the client libraries."""

    def in_go(program: str, module: str) -> str:
        found = re.search(rf"{module} v(\S+)", (SOURCES / program / "go.mod").read_text())
        return found.group(1) if found else "?"

    return {
        "kohort": version("kohort"),
        "confluent-kafka": f"{version('confluent-kafka')} (librdkafka {LIBRDKAFKA['confluent-newest']})",
        "Apache Kafka's Java client": NEWEST_JAVA,
        "franz-go": in_go("go-franz", "github.com/twmb/franz-go"),
        "sarama": in_go("go-sarama", "github.com/IBM/sarama"),
    }


def stored() -> list[CampaignResult]:
    """Return the stored results, sorted by broker; an empty list before the first run."""
    found = msgspec.json.decode(STORED.read_bytes(), type=list[CampaignResult]) if STORED.exists() else []
    return sorted(found, key=lambda one: GROUNDS.index(one.ground))


def run(ground: str, seed: int, groups: int, rebalances: int) -> None:
    """Run the campaign on one broker; its result replaces the stored one."""
    with BROKERS[ground]() as broker:
        found = results.result_of(run_campaign(broker, draw(seed, groups, rebalances)), seed, groups, versions())
    kept = [one for one in stored() if one.ground != ground]
    STORED.write_bytes(msgspec.json.format(msgspec.json.encode([*kept, found]), indent=1) + b"\n")
    print(results.totals([found]))


def stored_incidents() -> list[IncidentRow]:
    if not STORED_INCIDENTS.exists():
        return []
    return msgspec.json.decode(STORED_INCIDENTS.read_bytes(), type=list[IncidentRow])


def run_incidents(ground: str, names: list[str]) -> None:
    """Run the named incidents, or all, on one broker; the results of each replace the stored ones."""
    known = {one.name: one for one in ALL_INCIDENTS}
    for incident in [known[name] for name in names] if names else ALL_INCIDENTS:
        with BROKERS[ground]() as broker, tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "watch.sqlite"
            with watching(broker.bootstrap, store):
                rows = run_incident(incident, broker, store)
        order = {one.name: n for n, one in enumerate(ALL_INCIDENTS)}
        kept = [row for row in stored_incidents() if row.incident != incident.name or row.view not in VIEWS[ground]]
        found = [*kept, *rows]
        found = sorted((row for row in found if row.incident in order), key=lambda row: order[row.incident])
        STORED_INCIDENTS.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        print(f"{ground}, {incident.name}: {Counter(row.verdict for row in rows)}", flush=True)


def incidents_text(rows: list[IncidentRow]) -> str:
    """Return the matrix of the incidents: what the journal and what the watchers name, for each library."""
    views = [view for ground in GROUNDS for view in VIEWS[ground]]
    lines = [
        f"| incident | library | {' | verdict | '.join(views)} | verdict |",
        "|---|---|" + "---|---|" * len(views),
    ]
    by_place: dict[tuple[str, str], dict[str, IncidentRow]] = {}
    for row in rows:
        by_place.setdefault((row.incident, row.library), {})[row.view] = row
    for (incident, library), by_view in by_place.items():
        cells = [cell for view in views for cell in _cells(by_view.get(view))]
        lines.append(f"| {incident} | {library} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cells(row: IncidentRow | None) -> tuple[str, str]:
    if row is None:
        return "", ""
    return ", ".join(f"`{name.replace(' (', '` (')}" if "(" in name else f"`{name}`" for name in row.found), row.verdict


def incident_mistakes(rows: list[IncidentRow]) -> str:
    """List the sentences of wrong and missing causes of incidents."""
    lines = [
        f"- {row.incident}, {row.library}, {row.view}: {row.verdict}. {row.sentence}".rstrip() + "\n"
        for row in rows
        if row.verdict not in ("right", "unsure")
    ]
    return "".join(lines) or "None.\n"


def page(text: str) -> str:
    """Return the page with new tables."""
    found = {one.ground: one for one in stored()}
    ours, apache = found.get(OURS), found.get(APACHE)
    made: dict[str, Callable[[], str]] = {
        "totals": lambda: results.totals(list(found.values())),
        "runs": lambda: "".join(runs_text(one) for one in found.values()),
        "truths": results.truths,
        "ours": lambda: "" if ours is None else results.matrix(ours),
        "apache": lambda: "" if apache is None else results.matrix(apache),
        "mistakes-ours": lambda: "" if ours is None else results.mistakes(ours),
        "mistakes-apache": lambda: "" if apache is None else results.mistakes(apache),
        "patterns-ours": lambda: "" if ours is None else results.matrix(ours, patterns=True),
        "patterns-apache": lambda: "" if apache is None else results.matrix(apache, patterns=True),
        "incidents": lambda: incidents_text(stored_incidents()),
        "incident-mistakes": lambda: incident_mistakes(stored_incidents()),
    }

    def fill(match: re.Match[str]) -> str:
        name = match.group(1)
        return f"<!-- {name} -->\n{made[name]()}<!-- /{name} -->"

    return re.sub(rf"<!-- ({'|'.join(made)}) -->\n.*?<!-- /\1 -->", fill, text, flags=re.DOTALL)


def runs_text(one: CampaignResult) -> str:
    """Describe seed and size of a result's campaign."""
    unsettled_text = f"; {one.unsettled} groups were not stable in time and ended early" if one.unsettled else ""
    return (
        f"- {one.ground}: seed {one.seed}, {one.groups} groups in parallel, {one.actions} actions, "
        f"{one.rebalances} rebalances in {one.took_s} s{unsettled_text}. {results.versions_text(one)}.\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--incidents", nargs="*", metavar="NAME")
    parser.add_argument("--ground", choices=GROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--groups", type=int, default=9)
    parser.add_argument("--rebalances", type=int, default=250)
    options = parser.parse_args()
    for ground in [options.ground] if options.ground else GROUNDS:
        if options.run:
            run(ground, options.seed, options.groups, options.rebalances)
        if options.incidents is not None:
            run_incidents(ground, options.incidents)
    text = page(PAGE.read_text())
    if options.check and text != PAGE.read_text():
        sys.exit(f"{PAGE.name} is not made from {STORED.name}: run python lab/tools/campaign.py")
    PAGE.write_text(text)


if __name__ == "__main__":
    main()

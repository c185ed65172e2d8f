"""Write docs/causes, one page per cause, from the catalogue; or check that the pages are up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from kohort.insight.catalogue import CAUSES
from kohort.insight.evidence import CauseEntry

TARGET = Path(__file__).parents[1] / "docs" / "causes"
MADE = "<!-- made by `make docs` from src/kohort/insight/catalogue.py -->"
SECTIONS = {
    "rebalance": "Causes of rebalances",
    "event": "Events without a rebalance",
    "pattern": "Patterns of many rebalances",
}


def file_of(code: str) -> str:
    """Return the name of a cause's page."""
    return code.lower().replace("_", "-").replace(".", "-") + ".md"


def page(entry: CauseEntry) -> str:
    """Return the page of a cause."""
    parts = [f"# {entry.code}", MADE, entry.sentence, f"**Proof:** {entry.proof}."]
    if entry.look_alikes:
        alike = [f"- [`{code}`]({file_of(code)}): {difference}." for code, difference in entry.look_alikes]
        parts.append("**Similar causes, and how to recognize them**\n\n" + "\n".join(alike))
    parts.append(f"**Remedy:** {entry.advice or 'no action needed'}.")
    if entry.kafka_log is not None:
        parts.append(f"**Apache Kafka's broker logs:** ``{entry.kafka_log}``")
    return "\n\n".join([*parts, "[All causes](README.md)\n"])


def index() -> str:
    """Return the index of all causes."""
    parts = ["# Causes\n", MADE, "\n`kohort explain CAUSE` prints the same text."]
    for kind, title in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| cause | event |\n|---|---|")
        entries = [entry for entry in CAUSES.values() if entry.kind == kind]
        parts += [f"| [`{entry.code}`]({file_of(entry.code)}) | {entry.sentence} |" for entry in entries]
    parts.append("\n```{toctree}\n:hidden:\n")
    parts += [file_of(code).removesuffix(".md") for code in CAUSES]
    return "\n".join([*parts, "```\n"])


def main() -> int:
    pages = {"README.md": index(), **{file_of(entry.code): page(entry) for entry in CAUSES.values()}}
    there = {path.name: path.read_text() for path in TARGET.glob("*.md")}
    if "--check" in sys.argv:
        stale = sorted(name for name in {*pages, *there} if pages.get(name) != there.get(name))
        if stale:
            print(f"docs/causes is out of date ({', '.join(stale)}): run make docs", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - pages.keys():
        (TARGET / name).unlink()
    for name, text in pages.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

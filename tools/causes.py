"""Write docs/causes, a page per cause, from the table of causes, or check that it is what the table says."""

from __future__ import annotations

import sys
from pathlib import Path

from kohort.insight.catalogue import CAUSES
from kohort.insight.evidence import CauseEntry

TARGET = Path(__file__).parents[1] / "docs" / "causes"
MADE = "<!-- made by `make docs` from src/kohort/insight/catalogue.py -->"
SECTIONS = {
    "rebalance": "Why a group rebalanced",
    "event": "Events without a rebalance",
    "pattern": "What many rebalances mean together",
}


def file_of(code: str) -> str:
    """Return the name of a cause's page."""
    return code.lower().replace("_", "-").replace(".", "-") + ".md"


def page(entry: CauseEntry) -> str:
    """One cause."""
    parts = [f"# {entry.code}", MADE, entry.sentence, f"**What proves it:** {entry.proof}."]
    if entry.look_alikes:
        alike = [f"- [`{code}`]({file_of(code)}): {difference}." for code, difference in entry.look_alikes]
        parts.append("**It looks like this, and is not, where**\n\n" + "\n".join(alike))
    parts.append(f"**What to do:** {entry.advice or 'nothing needs to be done'}.")
    if entry.kafka_log is not None:
        parts.append(f"**Apache Kafka's broker logs:** ``{entry.kafka_log}``")
    return "\n\n".join([*parts, "[All causes](README.md)\n"])


def index() -> str:
    """All causes, each in a line."""
    parts = ["# Causes\n", MADE, "\n`kohort explain CAUSE` says the same at the command line."]
    for kind, title in SECTIONS.items():
        parts.append(f"\n## {title}\n\n| cause | what happened |\n|---|---|")
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
            print(f"docs/causes is not what the table says ({', '.join(stale)}): run make docs", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in there.keys() - pages.keys():
        (TARGET / name).unlink()
    for name, text in pages.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

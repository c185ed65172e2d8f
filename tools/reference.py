"""Write docs/reference from the tables in the code, or check that what is there is what they say."""

from __future__ import annotations

import sys
from pathlib import Path

from kohort.broker.dispatch import SERVED
from kohort.config import BrokerConfig, TopicConfig, options_of
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig

TARGET = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by `make docs` from the tables in the code -->\n"


def options_page() -> str:
    """Every option of broker, topics and clients."""
    parts = [
        "# Options\n",
        MADE,
        "Names, types and defaults are Kafka's; an unknown name is refused with the nearest one.\n",
    ]
    for title, config in (
        ("Broker", BrokerConfig),
        ("Topic", TopicConfig),
        ("Consumer", ConsumerConfig),
        ("Producer", ProducerConfig),
        ("Admin", AdminConfig),
    ):
        parts.append(f"\n## {title}\n\n| option | default | allowed | what it does |\n|---|---|---|---|")
        for o in options_of(config):
            default = ",".join(o.default) if isinstance(o.default, list) else o.default
            parts.append(f"| `{o.name}` | `{default}` | {o.allowed()} | {o.doc} |")
    return "\n".join(parts) + "\n"


def apis_page() -> str:
    """The APIs that the broker serves, and in which versions."""
    parts = ["# APIs served\n", MADE, "| key | API | versions |\n|---:|---|---|"]
    for key, api in sorted(SERVED.items()):
        shown = "" if api.advertised_low == api.low else f" (shown from {api.advertised_low}, for librdkafka's sake)"
        parts.append(f"| {key} | {api.name} | {api.low} to {api.high}{shown} |")
    return "\n".join(parts) + "\n"


def main() -> int:
    pages = {"options.md": options_page(), "apis.md": apis_page()}
    if "--check" in sys.argv:
        stale = [n for n, text in pages.items() if not (TARGET / n).exists() or (TARGET / n).read_text() != text]
        if stale:
            print(f"docs/reference is not what the code says ({', '.join(stale)}): run make docs", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (TARGET / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write docs/reference from the tables and docstrings in the code, or check that it is up to date."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, is_typeddict

from client_metrics_table import METRICS
from value_page import values_page

import kohort
import kohort.testing
from kohort.broker.dispatch import SERVED
from kohort.client.group import member_states
from kohort.config import BrokerConfig, TopicConfig, options_of
from kohort.config.client import AdminConfig, ConsumerConfig, ProducerConfig
from kohort.config.dynamic_broker import DYNAMIC, OF_ONE_BROKER
from kohort.config.group import GroupConfig
from kohort.config.handlers import HandlerConfig
from kohort.coordinator.classic import states as group_states
from kohort.coordinator.transactions import states as transaction_states
from kohort.errors import ErrorCode, KohortError
from kohort.spark.options.sink import SINK_REFUSED, SINK_TABLE
from kohort.spark.options.table import REFUSED, TABLE, SparkOption

TARGET = Path(__file__).parents[1] / "docs" / "reference"
MADE = "<!-- made by `make docs` from the tables in the code -->\n"


def options_page() -> str:
    """Every option of broker, topics and clients."""
    parts = [
        "# Options\n",
        MADE,
        "Names, types and defaults are Kafka's; an unknown name is refused with the nearest one. Clients also take\n"
        "`profile`, the name of a [cluster](../guides/connecting.md) in `clusters.toml`.\n",
    ]
    for title, config in (
        ("Broker", BrokerConfig),
        ("Topic", TopicConfig),
        ("Group", GroupConfig),
        ("Consumer", ConsumerConfig),
        ("Producer", ProducerConfig),
        ("Admin", AdminConfig),
        ("Handler function", HandlerConfig),
    ):
        parts.append(f"\n## {title}\n\n| option | default | allowed | what it does |\n|---|---|---|---|")
        for o in options_of(config):
            default = ",".join(o.default) if isinstance(o.default, list) else o.default
            parts.append(f"| `{o.name}` | `{default}` | {o.allowed()} | {o.description()} |")
    parts.append(_running_broker())
    return "\n".join(parts) + "\n"


def _running_broker() -> str:
    """Return the section on options that change at run time."""
    rows = []
    for name, o in sorted(DYNAMIC.items()):
        level = "one broker" if name.startswith(OF_ONE_BROKER) else "one broker, or all"
        rows.append(f"| `{name}` | {level} | {f'none: {o.no_effect}' if o.no_effect else 'at once'} |")
    return f"""
## Options of a running broker

AlterConfigs and IncrementalAlterConfigs change these options at run time, of one broker or as the default of all
brokers (`kafka-configs --entity-default`). Changes survive a restart. An option of one broker comes before the default
of all brokers, that before the option of the start, that before the default of the table above.

| option | set on | takes effect |
|---|---|---|
{chr(10).join(rows)}"""


def apis_page() -> str:
    """Return the page of all served APIs with their versions."""
    parts = ["# APIs served\n", MADE, "| key | API | versions |\n|---:|---|---|"]
    for key, api in sorted(SERVED.items()):
        shown = "" if api.advertised_low == api.low else f" (shown from {api.advertised_low}, for librdkafka's sake)"
        parts.append(f"| {key} | {api.name} | {api.low} to {api.high}{shown} |")
    return "\n".join(parts) + "\n"


CLIENTS = {
    "Consumer": "Consumer AsyncConsumer RebalanceListener AsyncRebalanceListener assignor",
    "Groups of handlers": "ConsumerGroup AsyncConsumerGroup GroupHandler AsyncGroupHandler GroupSession "
    "AsyncGroupSession Claim AsyncClaim",
    "Producer": "Producer AsyncProducer Delivery",
    "Admin": "Admin AsyncAdmin Results",
    "Broker": "Broker",
    "For tests": "StagedBroker HeldRequests Rule SeenRequest",
    "Values": "",
}
"""Sections of the clients page with their classes. "Values" has the other public names."""
FILLING = {"add", "refuse", "add_or_refuse"}
"""Methods of ``Results`` that add results."""


def client_metrics_page() -> str:
    """Return the page of client metrics."""
    parts = [
        "# Metrics of clients\n",
        MADE,
        "What `metrics()` of a client returns ([guide](../guides/client-metrics.md)). Names and groups are those of",
        "Kafka's Java clients, but for the groups that begin with `kohort-`. Every metric has the tag `client-id`.",
    ]
    for kind, rows in METRICS.items():
        parts.append(f"\n## Of a {kind if kind != 'admin' else 'client for administration'}\n")
        parts.append("| group | metric | tags | |\n|---|---|---|---|")
        for row in rows:
            names = ", ".join(f"`{name}`" for name in row.names)
            tags = ", ".join(f"`{tag}`" for tag in row.tags) or "-"
            parts.append(f"| `{row.group}` | {names} | {tags} | {row.words} |")
    return "\n".join(parts) + "\n"


def clients_page() -> str:
    """Return the page of all public client classes: signatures and docstrings."""
    parts = [
        "# The clients\n",
        MADE,
        "Times are whole milliseconds, and their names end in `_ms`. Everything here is imported from `kohort`, and "
        "what is for tests from `kohort.testing`.\n",
    ]
    listed = {name for names in CLIENTS.values() for name in names.split()}
    for title, names in CLIENTS.items():
        parts.append(f"\n## {title}")
        for name in names.split() or sorted(_values() - listed):
            parts += _part(getattr(kohort if name in kohort.__all__ else kohort.testing, name))
    parts.append("\n## Errors\n\n| error | when |\n|---|---|")
    parts += [f"| {'&ensp;' * 2 * depth}`{e.__name__}` | {_one_line(e)} |" for e, depth in _tree(KohortError)]
    return "\n".join(parts) + "\n"


def _values() -> set[str]:
    """Return the public names except errors."""
    return {
        name
        for name in kohort.__all__
        if callable(thing := getattr(kohort, name))
        and thing is not ErrorCode
        and not is_typeddict(thing)
        and not (isinstance(thing, type) and issubclass(thing, KohortError))
    }


def _part(thing: Any) -> list[str]:
    if isinstance(thing, type):
        return _class_part(thing)
    return [
        f"\n### {thing.__name__}\n",
        f"**`{thing.__name__}{_signature(thing, bound=False)}`**{_doc_paragraph(thing.__doc__)}",
    ]


def _class_part(cls: type) -> list[str]:
    part = [f"\n### {cls.__name__}\n", inspect.cleandoc(cls.__doc__ or "")]
    fields = _fields(cls)
    if fields:
        hints = inspect.get_annotations(cls)
        part.append("\n" + "\n".join(f"- `{name}: {_hint(hints[name])}`" for name in fields))
        return part
    omitted = FILLING if cls.__name__ == "Results" else set()
    names: set[str] = set()
    for owner in cls.__mro__:
        for name, member in vars(owner).items():
            if not owner.__module__.startswith("kohort") or name in names or name in omitted:
                continue
            names.add(name)
            part += _member_part(name, member)
    return part


def _hint(annotation: object) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))


def _fields(cls: type) -> Sequence[str]:
    """Return the public fields of a value class, of any kind; empty for other classes."""
    if dataclasses.is_dataclass(cls):
        names: Sequence[str] = [f.name for f in dataclasses.fields(cls)]
    else:
        names = getattr(cls, "__struct_fields__", getattr(cls, "_fields", ()))
    return [name for name in names if not name.startswith("_")]


def _member_part(name: str, member: object) -> list[str]:
    """Return the lines of one public method or property; empty for a private one."""
    if name == "inherited" or (name.startswith("_") and name not in ("__iter__", "__aiter__")):
        return []
    if isinstance(member, property):
        kind = inspect.signature(member.fget).return_annotation if member.fget else ""
        return [f"\n**`{name}: {kind}`**{_doc_paragraph(member.__doc__)}"]
    if not inspect.isfunction(member):
        return []
    prefix = "await " if inspect.iscoroutinefunction(member) else ""
    return [f"\n**`{prefix}{name}{_signature(member)}`**{_doc_paragraph(member.__doc__)}"]


def _doc_paragraph(doc: str | None) -> str:
    return "\n\n" + inspect.cleandoc(doc) if doc else ""


def _signature(function: Callable[..., object], *, bound: bool = True) -> str:
    shown: list[str] = []
    star = False
    signature = inspect.signature(function)
    for name, p in list(signature.parameters.items())[bound:]:
        if p.kind is p.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        default = "" if p.default is p.empty else f" = {getattr(p.default, '__name__', repr(p.default))}"
        shown.append(f"{name}: {p.annotation}{default}")
    returned = "" if signature.return_annotation in ("None", signature.empty) else f" -> {signature.return_annotation}"
    return f"({', '.join(shown)}){returned}"


def _tree(error: type, depth: int = 0) -> list[tuple[type, int]]:
    below = sorted(error.__subclasses__(), key=lambda e: e.__name__)
    own = [e for e in below if e.__module__ == "kohort.errors"]
    return [(error, depth), *(pair for e in own for pair in _tree(e, depth + 1))]


def _one_line(cls: type) -> str:
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


def spark_page() -> str:
    """The options of ``format("kohort")``."""
    parts = [
        '# Options of `format("kohort")`\n',
        MADE,
        "Names are those of the Kafka connector; case does not matter. Options of the "
        "[consumer or producer](options.md) have the prefix `kafka.`. Unknown names are rejected with the nearest "
        "name.\n",
        *spark_table("Source", TABLE, REFUSED),
        *spark_table("Sink", SINK_TABLE, SINK_REFUSED),
    ]
    return "\n".join(parts) + "\n"


def spark_table(title: str, options: tuple[SparkOption, ...], refused: dict[str, str]) -> list[str]:
    lines = [f"\n## {title}\n\n| option | default | description |\n|---|---|---|"]
    lines += [f"| `{o.name}` | {f'`{o.default}`' if o.default else ''} | {o.doc} |" for o in options]
    return [*lines, "\nRejected:\n", *(f"- `{name}`: {why}" for name, why in refused.items())]


def states_page() -> str:
    """The states of groups and of transactions, drawn from their tables."""
    return "\n".join(
        [
            "# States\n",
            MADE,
            "State diagrams, generated from the tables that validate each transition. "
            "The named files explain the states.\n",
            "## Classic group\n",
            "`coordinator/classic/states.py`. Any state can become Dead, when the group moves to another broker; "
            "the diagram omits these transitions.\n",
            *state_diagram(group_states.PREVIOUS, omitted=group_states.GroupState.DEAD),
            "\n## Transaction\n",
            "`coordinator/transactions/states.py`.\n",
            *state_diagram(transaction_states.PREVIOUS),
            "\n## Member of a consumer group, in the client\n",
            "`client/group/member_states.py`.\n",
            *state_diagram(member_states.PREVIOUS),
            "",
        ]
    )


def state_diagram(previous: Mapping[Any, Collection[Any]], omitted: Enum | None = None) -> list[str]:
    """Return a Mermaid diagram of a table that says from which states each is reached."""
    states = [state for state in previous if state is not omitted]
    ways = [
        f"    {before.value} --> {state.value}" for before in states for state in states if before in previous[state]
    ]
    return ["```mermaid", "stateDiagram-v2", f"    [*] --> {states[0].value}", *ways, "```"]


def main() -> int:
    pages = {
        "states.md": states_page(),
        "options.md": options_page(),
        "apis.md": apis_page(),
        "clients.md": clients_page(),
        "client-metrics.md": client_metrics_page(),
        "spark.md": spark_page(),
        "values.md": values_page(MADE),
    }
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

"""``kohort explain``: the meaning of a cause of rebalances, a pattern, or an error code of Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import print_prose, print_table
from kohort.cli.terminal.wording import print_fact
from kohort.results.programs import CausesListed, Explained
from kohort.verbs.explaining import cause_explained, error_explained, explained

if TYPE_CHECKING:
    from kohort.errors import ErrorCode
    from kohort.insight.evidence import CauseEntry

HELP = """Explain WORD: a cause of `kohort group why`, or a Kafka error code by name or number.

The text has the proof of the cause, similar causes, advice, and the log line of an Apache Kafka broker. Without WORD
the command lists all causes. No broker is needed.

\b
Examples:
  kohort explain MAX_POLL_EXCEEDED
  kohort explain 25
"""


def complete_words(_ctx: click.Context, _param: click.Parameter, begun: str) -> list[str]:
    from kohort.errors import ErrorCode
    from kohort.insight.catalogue import CAUSES

    return [word for word in (*CAUSES, *(code.name for code in ErrorCode)) if word.startswith(begun.upper())]


@click.command(help=HELP, short_help="Explain a cause of rebalances, or an error code.")
@click.argument("word", required=False, shell_complete=complete_words)
@output_of(Explained)
def explain(word: str | None, output: str) -> None:
    from kohort.insight.catalogue import CAUSES, find_cause_entry, find_error

    if word is None:
        _list(list(CAUSES.values()), output)
    elif (entry := find_cause_entry(word)) is not None:
        _show_cause(entry, output)
    elif (code := find_error(word)) is not None:
        _show_error(code, output)
    else:
        print_result(explained(word), output)


def _list(entries: list[CauseEntry], output: str) -> None:
    if output != "table":
        print_result(CausesListed(causes=[cause_explained(entry) for entry in entries]), output)
    else:
        print_table(("CAUSE", "WHAT HAPPENED"), [(entry.code, entry.sentence) for entry in entries])


def _show_cause(entry: CauseEntry, output: str) -> None:
    if output != "table":
        print_result(Explained(cause=cause_explained(entry)), output)
        return
    print_prose(f"{entry.code}: {entry.sentence}")
    print_fact("PROOF", entry.proof)
    for code, difference in entry.look_alikes:
        print_fact("NOT", f"{code}, where {difference}")
    print_fact("ADVICE", entry.advice or "no action is needed")
    if entry.kafka_log is not None:
        print_fact("KAFKA", f"log line of the broker: {entry.kafka_log}")


def _show_error(code: ErrorCode, output: str) -> None:
    from kohort.insight.catalogue import explain_error

    entry = explain_error(code)
    if output != "table":
        print_result(Explained(error=error_explained(code)), output)
        return
    retry = "the client can retry the same request" if code.retriable else "the same request would fail again"
    print_prose(f"{code.name} ({int(code)}): {entry.meaning}")
    print_fact("ADVICE", entry.advice)
    if code:
        print_fact("RETRY", retry)
    if entry.causes:
        print_fact("SEE", ", ".join(entry.causes))

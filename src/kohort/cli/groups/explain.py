"""``kohort explain``: explain a cause of rebalances, a pattern of rebalances, or a Kafka error code."""

from __future__ import annotations

import click

from kohort.cli.terminal.output import output_of, print_result, report_rows
from kohort.cli.terminal.show import print_prose
from kohort.cli.terminal.wording import print_fact
from kohort.results.programs import CauseExplained, CausesListed, ErrorExplained, Explained
from kohort.verbs.explaining import cause_explained, explained

HELP = """Explain WORD: a cause of `kohort group why`, or a Kafka error code (name or number).

The explanation has the evidence for the cause, similar causes, advice, and the log line of an Apache Kafka broker.
Without WORD the command lists all causes. No broker is needed.

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
    from kohort.insight.catalogue import CAUSES

    if word is None:
        causes = [cause_explained(entry) for entry in CAUSES.values()]
        rows = [(cause.code, cause.sentence) for cause in causes]
        report_rows(output, CausesListed(causes=causes), ("CAUSE", "WHAT HAPPENED"), rows)
        return
    found = explained(word)
    if output != "table":
        print_result(found, output)
    elif found.cause is not None:
        _show_cause(found.cause)
    elif found.error is not None:
        _show_error(found.error)


def _show_cause(cause: CauseExplained) -> None:
    print_prose(f"{cause.code}: {cause.sentence}")
    print_fact("PROOF", cause.proof)
    for similar in cause.look_alikes:
        print_fact("NOT", f"{similar.cause}, where {similar.difference}")
    print_fact("ADVICE", cause.advice or "no action is needed")
    if cause.kafka_log is not None:
        print_fact("KAFKA", f"log line of the broker: {cause.kafka_log}")


def _show_error(error: ErrorExplained) -> None:
    print_prose(f"{error.name} ({error.code}): {error.meaning}")
    print_fact("ADVICE", error.advice)
    if error.code:
        retry = "the client can retry the same request" if error.retriable else "the same request would fail again"
        print_fact("RETRY", retry)
    if error.causes:
        print_fact("SEE", ", ".join(error.causes))

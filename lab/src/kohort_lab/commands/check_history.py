"""The command ``kohort check-history``: check recorded client histories against Kafka's guarantees."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kohort.cli.terminal.exits import ExitCode
from kohort.cli.terminal.output import output_of, print_result
from kohort.cli.terminal.show import harmless
from kohort_lab.commands.results import AnomalyShown, EvidenceLine, HistoryChecked
from kohort_lab.history.anomalies import CHECKS
from kohort_lab.history.checker import CheckedHistory
from kohort_lab.history.checker import check_history as check_files
from kohort_lab.history.lines import HistoryUnreadable


@click.command("check-history")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--most",
    default=10,
    show_default=True,
    type=click.IntRange(1),
    help="Largest number of anomalies to show per check.",
)
@click.option("--list", "list_checks", is_flag=True, help="List the checks and exit.")
@output_of(HistoryChecked)
def check_history(files: tuple[Path, ...], most: int, list_checks: bool, output: str) -> None:
    """Check client histories: lost, duplicate or reordered records, dirty reads, double ownership, offset regressions.

    FILES belong to one run and have one JSON object per line (docs/lab/history-format.md).
    Exit code 7: anomalies found; exit code 2: a file is not a history.

    \b
    kohort sim history 7 > seed-7.jsonl && kohort check-history seed-7.jsonl
    """
    if list_checks:
        for name, meaning in CHECKS.items():
            click.echo(f"{name:28} {meaning}")
        return
    if not files:
        raise click.UsageError("missing argument FILES: name the history files, or use --list to show the checks")
    try:
        found = check_files(files, most)
    except HistoryUnreadable as error:
        raise click.UsageError(harmless(str(error))) from None
    if output == "table":
        _print_summary(found)
    else:
        print_result(_result(found), output)
    sys.exit(ExitCode.CHECK_FAILED if found.counts else ExitCode.DONE)


def _print_summary(found: CheckedHistory) -> None:
    for anomaly in found.anomalies:
        click.echo(harmless(f"{anomaly.check}: {anomaly.sentence}"))
        for proof in anomaly.evidence:
            click.echo(harmless(f"    {proof.place}  {proof.line}"))
    for check, count in found.counts.items():
        click.echo(f"{check}: {count} ({CHECKS[check]})")
    torn = f", {found.torn} torn last lines left out" if found.torn else ""
    total = sum(found.counts.values())
    click.echo(
        f"{found.operations} operations of {found.clients} clients, {found.values} values, "
        f"{found.transactions} transactions{torn}: {f'{total} anomalies' if total else 'nothing is wrong'}"
    )


def _result(found: CheckedHistory) -> HistoryChecked:
    return HistoryChecked(
        operations=found.operations,
        clients=found.clients,
        values=found.values,
        transactions=found.transactions,
        torn=found.torn,
        counts=found.counts,
        anomalies=[
            AnomalyShown(
                check=anomaly.check,
                sentence=anomaly.sentence,
                meaning=anomaly.meaning,
                evidence=[EvidenceLine(place=proof.place, line=proof.line) for proof in anomaly.evidence],
            )
            for anomaly in found.anomalies
        ],
    )

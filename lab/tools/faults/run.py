"""Disturb networks, names, tokens, clocks and processes, and measure the effect on every client face.

    python lab/tools/faults/run.py                              all faults, all faces, on a broker of ours
    python lab/tools/faults/run.py --fault silent --fault cut   some
    python lab/tools/faults/run.py --face poll-modern           one face
    python lab/tools/faults/run.py --apache                     on Apache Kafka (Java 17 and Maven)
    python lab/tools/faults/run.py --list                       what there is

Every face is a process that works, gets a fault, recovers, gets the fault again and is closed during it. ``kohort
check-history`` checks all histories. Exit code 1: an anomaly or an exceeded bound.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "lab" / "tools"), str(ROOT / "tests")]

from faults.campaign import FACES, Bounds, Campaign, Cell  # noqa: E402 - after sys.path is set
from faults.catalogue import FAULTS, Fault  # noqa: E402 - after sys.path is set
from faults.world import World  # noqa: E402 - after sys.path is set
from kohort_lab.history.checker import CheckedHistory  # noqa: E402 - after sys.path is set


def main() -> int:
    """Run the selected faults and faces; return the exit code."""
    arguments = options_of(sys.argv[1:])
    if arguments.list:
        for fault in FAULTS.values():
            print(f"{fault.name:<20} {fault.what}" + (f" ({fault.lasts_s:g} s)" if fault.lasts_s else ""))
        return 0
    faults = [FAULTS[name] for name in arguments.fault or FAULTS if FAULTS[name].on_apache or not arguments.apache]
    if not faults:
        print("none of these faults is for Apache Kafka: its clients come without TLS and logins here", file=sys.stderr)
        return 2
    try:
        cells, found = play(faults, arguments.face or list(FACES), arguments)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.out is not None:
        arguments.out.write_text(json.dumps([asdict(cell) for cell in cells], indent=1))
    print()
    print(table(cells, markdown=arguments.markdown))
    wrong = sum(bool(cell.wrong) for cell in cells)
    anomalies = ", ".join(f"{check} {count}" for check, count in found.counts.items()) or "nothing is wrong"
    print(f"\n{len(cells)} cells, {wrong} wrong; {found.operations} operations of {found.clients} clients: {anomalies}")
    return 1 if wrong or found.counts else 0


def play(faults: list[Fault], faces: list[str], arguments: argparse.Namespace) -> tuple[list[Cell], CheckedHistory]:
    """Run faults in one cluster; return measurements of each face, and checked histories."""
    folder = Path(tempfile.mkdtemp(prefix="faults-", dir=arguments.keep))
    with World(folder, {fault.door for fault in faults}, apache=arguments.apache, seed=arguments.seed) as world:
        campaign = Campaign(world, faces, Bounds())
        try:
            for fault in faults:
                began = time.monotonic()
                cells = campaign.play(fault)
                print(f"{fault.name}: {summary(cells)} ({time.monotonic() - began:.0f} s)", flush=True)
            found = campaign.end()
        finally:
            campaign.kill()
    for anomaly in found.anomalies:
        print(f"{anomaly.check}: {anomaly.sentence}")
        for proof in anomaly.evidence:
            print(f"    {proof.place}  {proof.line}")
    if arguments.keep is None and not found.counts:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"what the clients wrote is in {folder}")
    return campaign.cells, found


def summary(cells: list[Cell]) -> str:
    """Summarize the worst face."""
    parts = []
    for name, of in (("recovered", "recovered_s"), ("cpu", "cpu"), ("close", "close_s")):
        measured = [(getattr(cell, of), cell.face) for cell in cells if getattr(cell, of) is not None]
        if measured:
            value, face = max(measured)
            parts.append(
                f"{name} {value:.1%} at most ({face})" if of == "cpu" else f"{name} {value:.1f} s at most ({face})"
            )
    return ", ".join(parts)


def table(cells: list[Cell], *, markdown: bool = False) -> str:
    """Return a table of face by fault: recovery in s / CPU % / close in s."""
    faults = list(dict.fromkeys(cell.fault for cell in cells))
    faces = list(dict.fromkeys(cell.face for cell in cells))
    at = {(cell.face, cell.fault): cell for cell in cells}
    head = ["fault", *faces]
    rows = [[fault, *(shown(at.get((face, fault))) for face in faces)] for fault in faults]
    if markdown:
        all_rows = [head, ["---", *["---:"] * len(faces)], *rows]
        return "\n".join(f"| {' | '.join(row)} |" for row in all_rows)
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    return "\n".join(["recovered after s / CPU % while waiting / close s; ! is wrong", *lines])


def shown(cell: Cell | None) -> str:
    """Format one cell of the table."""
    if cell is None:
        return ""
    recovered = "never" if cell.recovered_s is None else f"{cell.recovered_s:.1f}"
    cpu = "-" if cell.cpu is None else f"{cell.cpu * 100:.1f}"
    closed = "-" if cell.close_s is None else f"{cell.close_s:.1f}"
    return f"{recovered} / {cpu} / {closed}{' !' if cell.wrong else ''}"


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", action="append", choices=list(FAULTS), metavar="NAME", help="faults [all]")
    parser.add_argument("--face", action="append", choices=list(FACES), metavar="NAME", help="client faces [all]")
    parser.add_argument("--apache", action="store_true", help="use Apache Kafka, with plaintext clients only")
    parser.add_argument("--seed", type=int, default=0, help="seed of all random choices")
    parser.add_argument("--list", action="store_true", help="list the faults")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--out", type=Path, help="JSON file for every cell, with messages")
    parser.add_argument("--keep", type=Path, help="existing folder for the clients' files")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Run other projects' test suites against kohort's broker, and write docs/lab/report-card.md.

    python lab/tools/suites/run.py            runs every suite; fails where one that passed before does not
    python lab/tools/suites/run.py SUITE...   runs these alone
    python lab/tools/suites/run.py --write    and takes what newly passes into the lists, and writes the report card

A suite's files come from its package, into .kohort/suites; none are in this repository. The required tests, and the
reasons of all others, are in one list per suite (``<suite>.toml``) beside this file. Results are stored in
.kohort/suites, so that the card can combine separate runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
CARD = ROOT / "docs" / "lab" / "report-card.md"
sys.path.insert(0, str(ROOT / "tests"))  # for the broker process of the tests

from arroyo import arroyo  # noqa: E402  # it needs the path above
from faust import faust  # noqa: E402  # it too
from kafka_python import kafka_python  # noqa: E402  # it needs the path above
from librdkafka import librdkafka, librdkafka_consumer, librdkafka_newest  # noqa: E402  # it too
from results import Results, SuiteList, card  # noqa: E402  # beside them
from sources import WORK  # noqa: E402  # beside them

SUITES = {
    "kafka-python": kafka_python,
    "librdkafka": librdkafka,
    "librdkafka-newest": librdkafka_newest,
    "librdkafka-consumer": librdkafka_consumer,
    "arroyo": arroyo,
    "faust": faust,
}


def main() -> int:
    """Run the selected suites; return 1 on an error."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("suites", nargs="*", choices=[*SUITES, []], help="suites [all]")
    options.add_argument(
        "--write", action="store_true", help="add newly passing tests to the lists, and write the report card"
    )
    arguments = options.parse_args()
    wrong = []
    for suite in arguments.suites or SUITES:
        suite_list = read_list(suite)
        results = SUITES[suite](suite_list)
        found_at(suite).write_text(json.dumps(results, indent=1))
        wrong += suite_list.judge(suite, results)
        print(f"{suite}: {sum(r == 'passed' for r in results.values())} of {len(results)} passed")
        if arguments.write:
            (HERE / f"{suite}.toml").write_text(suite_list.grown(results).build())
    if arguments.write and not wrong:
        kept = {suite: (read_list(suite), found(suite)) for suite in SUITES if found_at(suite).exists()}
        CARD.write_text(card(kept, CARD.read_text(), SUITES))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    return 1 if wrong else 0


def read_list(suite: str) -> SuiteList:
    return SuiteList.parse((HERE / f"{suite}.toml").read_text())


def found_at(suite: str) -> Path:
    """Return the path of a suite's last results."""
    WORK.mkdir(parents=True, exist_ok=True)
    return WORK / f"{suite}.json"


def found(suite: str) -> Results:
    results: Results = json.loads(found_at(suite).read_text())
    return results


if __name__ == "__main__":
    sys.exit(main())

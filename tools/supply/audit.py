"""Ask a database of vulnerabilities about every package of the lock file.

    python tools/supply/audit.py --uv UV                        asks OSV, which has PyPI's advisories
    python tools/supply/audit.py --uv UV --service-url URL      asks another service that speaks OSV's protocol

Fails where something is known of a package. Where no database can be reached nothing is known, which is said, and is no
failure: a build must not depend on a stranger's server. pip-audit is not taken: of a package that its service does not
answer for it says "skipped", and at the end that no vulnerabilities are known.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOUND: Final = 1
"""uv's exit code for a vulnerable package."""
UNREACHED: Final = ("error sending request", "Request failed", "HTTP status server error")
UNKNOWN: Final = "unrecognized subcommand"


def verdict(code: int, report: str) -> tuple[int, str]:
    """Return the exit code, and a message in addition to uv's output."""
    if code in (0, FOUND):
        return code, ""
    if UNKNOWN in report:
        return 0, "NOT AUDITED: this uv cannot audit; pip install -U uv"
    if any(words in report for words in UNREACHED):
        return 0, "NOT AUDITED: no database of vulnerabilities could be reached, so nothing is known of any package"
    return code, "NOT AUDITED"


def main() -> int:
    """Run uv's audit; print its findings, or why there is no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uv", default="uv", help="path of uv, for reading the lock file")
    parser.add_argument("--service-url", help="URL of a service with OSV's protocol")
    arguments = parser.parse_args()
    command = [arguments.uv, "audit", "--frozen", "--preview-features", "audit-command"]
    if arguments.service_url:
        command += ["--service-url", arguments.service_url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    code, words = verdict(done.returncode, done.stderr)
    print("\n".join(part.strip() for part in (done.stdout, done.stderr, words) if part.strip()))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""A client process under test: python lab/tools/faults/client.py TASK.json. It works until SIGTERM."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / "lab" / "tools"), str(ROOT / "tests")]

from faults.injected import inject_clock, inject_resolver, token_source  # noqa: E402 - after sys.path is set
from faults.report import Report, Task, until_stopped  # noqa: E402 - after sys.path is set


def main() -> None:
    """Run the face of the task."""
    of, over = Task.read(), until_stopped()
    report = Report(of)
    inject_clock(Path(of.folder))
    if "resolver" in of.inject:
        inject_resolver(Path(of.folder))
    options: dict[str, Any] = {"bootstrap.servers": of.bootstrap, "client.id": of.name, **of.options}
    if "token" in of.inject:
        options["sasl.oauth.token.provider"] = token_source(Path(of.folder))
    from faults import async_faces, faces  # imported after the injections

    loop = async_faces.on_a_loop
    all_faces: dict[str, faces.Face] = {
        "poll-classic": faces.consume("classic", faces.by_poll),
        "poll-modern": faces.consume("consumer", faces.by_poll),
        "arrow-classic": faces.consume("classic", faces.by_arrow),
        "arrow-modern": faces.consume("consumer", faces.by_arrow),
        "handlers-classic": faces.handle("classic"),
        "handlers-modern": faces.handle("consumer"),
        "asyncio-classic": loop(async_faces.consume("classic")),
        "asyncio-modern": loop(async_faces.consume("consumer")),
        "async-handlers-classic": loop(async_faces.handle("classic")),
        "async-handlers-modern": loop(async_faces.handle("consumer")),
        "producer": faces.produce,
        "feeder": faces.produce,
        "transactions": faces.transact,
        "async-producer": loop(async_faces.produce),
        "admin": faces.administer,
        "async-admin": loop(async_faces.administer),
    }
    all_faces[of.face](of, options, over, report)


if __name__ == "__main__":
    main()

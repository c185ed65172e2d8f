"""Coverage-guided inputs: atheris drives the same entrances; inputs that reach new lines are kept.

Only Python code of ``kohort`` is instrumented, at its import. Entrances with plans as inputs (client-answers,
admin-answers) or serialized lists gain least; texts, batches and scripts most.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.campaign import WARM_UP, input_of, warm_up
from fuzz.entrance import Entrance, Watch
from fuzz.entrances import entrance_of
from fuzz.measure import InputRunner

CORPUS = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parents[3]
OURS = (str(ROOT / "src" / "kohort"), str(ROOT / "lab" / "src" / "kohort_lab"))
SEEDS = 50
FIRST_INPUTS = 400
"""Number of generated inputs for the baseline coverage."""
LONGEST_KEPT = 4096
MOST_KEPT = 25
Line = tuple[str, int]


def guided(name: str, out: Path, minutes: float) -> int:
    """Fuzz until the time limit or the first finding. Exits the process, like libFuzzer."""
    try:
        import atheris
    except ImportError:
        print("--coverage needs atheris: uv sync --frozen --all-extras --no-extra kerberos --group fuzz")
        return 2
    with atheris.instrument_imports(include=["kohort"]):
        entrance = entrance_of(name)
        warm_up(entrance, 0)  # performs most of the late imports
    folder = guided_folder(out, name)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(SEEDS):
        (folder / f"seed-{number}").write_bytes(input_of(entrance, 0, number))
    for kept in sorted((CORPUS / name).glob("*.bin")):
        shutil.copy(kept, folder / kept.stem)
    judge = InputRunner(entrance)

    def one(data: bytes) -> None:
        found = judge.run(data)
        if found is not None:
            raise AssertionError(f"{found.kind}: {found.what}")

    arguments = [f"-max_total_time={int(minutes * 60)}", "-max_len=65536", f"-artifact_prefix={out}/{name}-"]
    atheris.Setup([sys.argv[0], *arguments, "-print_final_stats=1", str(folder)], one)
    atheris.Fuzz()
    return 0


def guided_folder(out: Path, name: str) -> Path:
    """Return the folder of an entrance's coverage-guided inputs."""
    return out / "guided" / name


def keep_reaching(name: str, out: Path) -> int:
    """Add inputs to the corpus that reach new lines, the smallest first."""
    entrance, reached = entrance_of(name), set[Line]()
    for number in range(-WARM_UP, FIRST_INPUTS):
        reached |= lines_of(entrance, input_of(entrance, 0, number))
    for path in (CORPUS / name).glob("*.bin"):
        reached |= lines_of(entrance, path.read_bytes())
    before, count = len(reached), 0
    found = sorted(guided_folder(out, name).iterdir(), key=lambda path: (path.stat().st_size, path.name))
    for path in found:
        data = path.read_bytes()
        if len(data) > LONGEST_KEPT or count == MOST_KEPT:
            break
        if not (new := lines_of(entrance, data) - reached):
            continue
        reached |= new
        count += 1
        target = CORPUS / name / f"reaches-{hashlib.sha256(data).hexdigest()[:10]}.bin"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(data)
        where = ", ".join(sorted({f"{Path(file).name}:{line}" for file, line in new})[:4])
        print(f"{target.name}: {len(data)} bytes, {len(new)} new lines: {where}")
    print(f"{name}: {len(found)} inputs looked at, {count} kept: {len(reached) - before} lines more than {before}")
    return 0


def lines_of(entrance: Entrance, data: bytes) -> set[Line]:
    """Return the lines of kohort that an input reaches."""
    reached: set[Line] = set()
    with traced(reached):
        entrance.run(data, Watch())
    return reached


@contextmanager
def traced(reached: set[Line]) -> Iterator[None]:
    """Record the executed lines of kohort during the block."""

    def line(frame: FrameType, _event: str, _arg: Any) -> Any:
        reached.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, _event: str, _arg: Any) -> Any:
        return line if frame.f_code.co_filename.startswith(OURS) else None

    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)

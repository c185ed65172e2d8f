"""One mutant in a process of its own, that imports the mutated file as if it stood so on the disk.

    python -m mutants.fresh TASK.json

Exit code: 0 nothing noticed, 1 a test did, or nothing can be imported any more; 2 the simulator did.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from mutants.operators import SourceFile
from mutants.reach import PLAIN, SIMULATED

ROOT = Path(__file__).parents[2]
IMPORTED_BEFORE = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
"""Its asserts are not explained, and need not be."""


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, and gives it the mutated code."""

    def __init__(self, name: str, path: Path, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=str(self._path))
        spec.has_location = True
        if self._path.name == "__init__.py":
            spec.submodule_search_locations = [str(self._path.parent)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, module.__dict__)


def main() -> int:
    """Run the tests of the task, then its seeds."""
    task = json.loads(Path(sys.argv[1]).read_text())
    path = ROOT / task["path"]
    source = SourceFile(task["path"], path.read_text())
    top = ROOT / ("src" if path.is_relative_to(ROOT / "src") else "tests")
    parts = path.relative_to(top).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    sys.meta_path.insert(0, _Mutated(name, path, source.code(str(path), source.mutants[task["index"]])))
    # At once: kohort is a plugin of pytest, too, whose own importer would come first and read the file as it is.
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001  whatever it is, nothing can be imported any more
        return 1
    import pytest

    tests = [test for test in task["tests"] if not test.startswith(SIMULATED)]
    if tests and pytest.main([*PLAIN, *IMPORTED_BEFORE, "-x", *tests]) != 0:
        return 1
    return 0 if _all_pass([test for test in task["tests"] if test.startswith(SIMULATED)]) else 2


def _all_pass(seeds: list[str]) -> bool:
    from mutants.reach import passes

    try:
        return all(passes(seed) for seed in seeds)
    except Exception:  # noqa: BLE001  whatever it is, the simulator noticed
        return False


if __name__ == "__main__":
    sys.exit(main())

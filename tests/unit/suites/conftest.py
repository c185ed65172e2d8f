"""The tools around other projects' test suites are scripts beside each other, not a package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "lab" / "tools" / "suites"))

"""A plugin of pytest: tests with Hypothesis give the same examples each time, are not timed, and do not shrink.

What they find is not looked at, only that they find something.
"""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile(
    "mutants", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
)
settings.load_profile("mutants")

"""A plugin of pytest with the Hypothesis profile of mutants: no shrinking, as only the fact of a failure counts."""

from __future__ import annotations

from hypothesis import Phase, settings

settings.register_profile(
    "mutants", derandomize=True, database=None, deadline=None, phases=[Phase.explicit, Phase.generate]
)

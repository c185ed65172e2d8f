"""Error of a failed check, and the name of the check."""

from __future__ import annotations

from typing import Final

from kohort.coordinator.invariants import InvariantBroken
from kohort_lab.sim.world import Storm

CHECKS: Final = "kohort_lab.sim.checks."
INVARIANTS: Final = "kohort.coordinator.invariants"
PACKAGES: Final = ("kohort.", "kohort_lab.")


class CheckFailed(AssertionError):
    """Violated invariant or missed deadline."""


def caught_by(error: BaseException) -> str:
    """Return the name of the check that raised ``error``, or the origin of a machine's error."""
    if isinstance(error, Storm):
        return "world: storm"
    where = ("", "")
    at = error.__traceback__
    while at is not None:
        module = at.tb_frame.f_globals.get("__name__", "")
        function = at.tb_frame.f_code.co_name
        if module.startswith(CHECKS):
            where = (module.removeprefix(CHECKS), function)
        elif module == INVARIANTS and function.startswith("check_") and isinstance(error, InvariantBroken):
            where = ("invariants", function)
        elif not isinstance(error, CheckFailed | InvariantBroken) and module.startswith(PACKAGES):
            where = (f"{type(error).__name__} in {module.partition('.')[2]}", function)
        at = at.tb_next
    return f"{where[0]}: {where[1]}"

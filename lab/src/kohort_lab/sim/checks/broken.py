"""Error of a failed check, and the name of the check."""

from __future__ import annotations

from typing import Final

from kohort_lab.sim.checks.group_invariants import InvariantBroken
from kohort_lab.sim.world import Storm

CHECKS: Final = "kohort_lab.sim.checks."
INVARIANTS: Final = f"{CHECKS}group_invariants"
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
        if module == INVARIANTS and isinstance(error, InvariantBroken):
            if function.startswith("check_"):
                where = ("invariants", function)
        elif module.startswith(CHECKS):
            where = (module.removeprefix(CHECKS), function)
        elif not isinstance(error, CheckFailed | InvariantBroken) and module.startswith(PACKAGES):
            where = (f"{type(error).__name__} in {module.partition('.')[2]}", function)
        at = at.tb_next
    return f"{where[0]}: {where[1]}"
